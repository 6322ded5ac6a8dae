"""Asking the person who sits at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Mapping


class Terminal:
    """Questions go to the error stream, so that the output stays that of the agent."""

    @classmethod
    def find(cls) -> Terminal | None:
        """The terminal, if there is somebody to answer at it."""
        if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
            return None
        return cls()

    async def choose(self, choices: Mapping[str, str]) -> str:
        """Ask until the first letter of one of ``choices``, letter → words, is typed.

        The end of the input chooses the last one.
        """
        letters = list(choices)
        _forget_typed()
        question = ", ".join(f"[{letter}] {words}" for letter, words in choices.items())
        while True:
            try:
                sys.stderr.write(f"{question}: ")
                sys.stderr.flush()
            except OSError:  # the terminal was closed
                return letters[-1]
            line = await _read_line()
            typed = line.strip().lower()[:1]
            if not line:
                return letters[-1]
            if typed in choices:
                return typed


def _forget_typed() -> None:
    """What was typed before the question was on the screen is no answer to it."""
    try:
        import termios
    except ImportError:
        _forget_typed_on_windows()
        return
    with contextlib.suppress(termios.error, OSError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _forget_typed_on_windows() -> None:
    import msvcrt

    while msvcrt.kbhit():  # type: ignore[attr-defined,unused-ignore]
        msvcrt.getwch()  # type: ignore[attr-defined,unused-ignore]


async def _read_line() -> str:
    """A line of the terminal. Cancelling leaves the reading behind: it ends with the process."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def settle(line: bytes) -> None:
        if not answer.done():
            answer.set_result(line)

    def read() -> None:
        # Past Python's buffer, whose lock would be held when the process wants to end.
        try:
            line = os.read(sys.stdin.fileno(), 4096)
        except OSError:
            line = b""
        loop.call_soon_threadsafe(settle, line)

    threading.Thread(target=read, name="prime-terminal", daemon=True).start()
    return (await answer).decode(errors="replace")
