"""Calls of code that may hang or raise anything. Sent like ``bootstrap``."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_STOP_SECONDS = 0.2


class TookTooLong(Exception):
    """A call did not return within its time limit."""


class Clock:
    """A time limit shared by all steps of an operation."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``, raise what it raises, or `TookTooLong`.

    The call runs on a thread of its own, since only a thread can be abandoned. An exception is
    raised in a call that exceeds its time; one that hangs in C code receives it on return only.
    """
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((True, function(*arguments)))
        except BaseException as error:  # SystemExit and the like must not end the thread silently.
            outcome.append((False, error))

    thread = threading.Thread(target=call, name="prime_request", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive() and not outcome:
        _stop(thread)
        thread.join(_STOP_SECONDS)
        raise TookTooLong(f"It did not end within {seconds:g} seconds.")
    thread.join()
    succeeded, value = outcome[0]
    if succeeded:
        return value
    raise value


def _stop(thread: threading.Thread) -> None:
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(TookTooLong)
        )
