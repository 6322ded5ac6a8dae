"""Stopping Python code that takes too long."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from contextlib import contextmanager
from types import FrameType
from typing import Iterator


class DeadlineExceeded(BaseException):
    """Not an ``Exception``: the code being stopped must not take it for one of its own."""


_REPEAT_SECONDS = 0.25
"""The alarm repeats, for code that swallows the first one with a bare ``except``."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `DeadlineExceeded` in this block after ``seconds``.

    In the main thread of a POSIX system this also ends waits inside C functions that handle
    signals (``time.sleep``, locks, sockets). Elsewhere it takes effect at the next bytecode.
    A C function that never looks at signals cannot be stopped by either.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if hasattr(signal, "setitimer") and in_main:
        yield from _by_alarm(max(seconds, 0.001))
    else:
        yield from _by_async_exception(max(seconds, 0.001))


def _by_alarm(seconds: float) -> Iterator[None]:
    active = True

    def raise_in_block(_signal: int, _frame: FrameType | None) -> None:
        if active:
            raise DeadlineExceeded

    handler_before = signal.signal(signal.SIGALRM, raise_in_block)
    started = time.monotonic()
    remaining_before, interval_before = signal.setitimer(
        signal.ITIMER_REAL, seconds, _REPEAT_SECONDS
    )
    try:
        yield
    finally:
        active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None: a handler that C code has installed; Python cannot put that one back.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler_before is None else handler_before)
        if remaining_before:
            # Nested deadlines, or an alarm the user has set: it goes on where it was.
            left = remaining_before - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), interval_before)


def _by_async_exception(seconds: float) -> Iterator[None]:
    thread_id = ctypes.c_ulong(threading.get_ident())
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    guard = threading.Lock()
    active = True

    def fire() -> None:
        with guard:
            if active:
                set_exception(thread_id, ctypes.py_object(DeadlineExceeded))

    timer = threading.Timer(seconds, fire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with guard:
            active = False
            set_exception(thread_id, None)
        timer.cancel()


def stop_thread(thread: threading.Thread) -> None:
    """Raise `DeadlineExceeded` in another thread, at its next bytecode."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(DeadlineExceeded)
    )
