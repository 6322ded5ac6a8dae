"""Questions to the person at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Mapping


class Terminal:
    """Asks questions on standard error, so that standard output has only the agent's text."""

    @classmethod
    def find(cls) -> Terminal | None:
        """Return the terminal; ``None`` if standard input or standard error is not a terminal."""
        if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
            return None
        return cls()

    async def choose(self, choices: Mapping[str, str]) -> str:
        """Ask until one of the letters in ``choices`` (letter → words) is typed, and return it.

        The end of the input, or a closed terminal, chooses the last one.
        """
        letters = list(choices)
        _forget_typed()
        question = ", ".join(f"[{letter}] {words}" for letter, words in choices.items())
        while True:
            try:
                sys.stderr.write(f"{question}: ")
                sys.stderr.flush()
            except OSError:  # The terminal was closed.
                return letters[-1]
            line = await _read_line()
            typed = line.strip().lower()[:1]
            if not line:
                return letters[-1]
            if typed in choices:
                return typed


def _forget_typed() -> None:
    """Discard what was typed before the question appeared."""
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
    """Read a line. After a cancellation, the reading thread remains until the process ends."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def settle(line: bytes) -> None:
        if not answer.done():
            answer.set_result(line)

    def read() -> None:
        # `os.read` bypasses the lock of `sys.stdin`, which would block the end of the process.
        try:
            line = os.read(sys.stdin.fileno(), 4096)
        except OSError:
            line = b""
        loop.call_soon_threadsafe(settle, line)

    threading.Thread(target=read, name="prime-terminal", daemon=True).start()
    return (await answer).decode(errors="replace")
