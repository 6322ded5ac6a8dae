"""Time limits for Python code."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class DeadlineExceeded(BaseException):
    """The time is up. Not an ``Exception``, so that the stopped code does not handle it."""


_REPEAT_SECONDS = 0.25
"""Interval at which the alarm repeats, for code that swallows it with a bare ``except``."""

_RENEW_SECONDS = 0.5
"""A deadline set less than this ago is not renewed, which saves time with thousands of names."""


class deadline:  # noqa: N801 - reads as a function, as in contextlib
    """Raise `DeadlineExceeded` in a ``with`` block after ``seconds``.

    In the main thread of a POSIX system the exception comes from a signal, which also ends waits
    in C functions that handle signals (``time.sleep``, locks, sockets). Elsewhere it is raised at
    the thread's next bytecode. A C function that never checks for signals cannot be stopped.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = max(seconds, 0.001)
        self._alarm: _SignalAlarm | _ThreadAlarm
        if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
            self._alarm = _SignalAlarm()
        else:
            self._alarm = _ThreadAlarm()
        self._set_at = 0.0
        self._last = self._seconds

    def __enter__(self) -> deadline:
        self._alarm.start()
        self._set(self._seconds)
        return self

    def __exit__(self, *_details: Any) -> None:
        self._alarm.stop()

    def renew(self, seconds: float | None = None, at_once: bool = False) -> None:
        """Start counting again from now.

        To be cheap, this may do nothing if the deadline was set less than half a second ago;
        ``at_once`` makes sure.
        """
        wanted = max(self._seconds if seconds is None else seconds, 0.001)
        if wanted < self._seconds or wanted != self._last:
            at_once = True
        self._alarm.armed = True
        young = min(_RENEW_SECONDS, self._seconds / 10)
        if at_once or time.monotonic() - self._set_at > young:
            self._set(wanted)

    def pause(self) -> None:
        """Raise nothing until `renew` is called."""
        self._alarm.armed = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pause inside the block, and start counting again after it."""
        seconds = self._last
        self.pause()
        yield
        self._set(seconds)
        self._alarm.armed = True

    def _set(self, seconds: float) -> None:
        self._set_at = time.monotonic()
        self._last = seconds
        self._alarm.set(seconds)


class _SignalAlarm:
    def start(self) -> None:
        self.armed = True
        self._handler_before = signal.signal(signal.SIGALRM, self._fire)
        self._timer_before = signal.getitimer(signal.ITIMER_REAL)
        self._started = time.monotonic()

    def set(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)

    def _fire(self, _signal: int, _frame: FrameType | None) -> None:
        if self.armed:
            raise DeadlineExceeded

    def stop(self) -> None:
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None means a handler installed by C code, which Python cannot restore.
        before = signal.SIG_DFL if self._handler_before is None else self._handler_before
        signal.signal(signal.SIGALRM, before)
        remaining, interval = self._timer_before
        if remaining:
            # An outer deadline or the user's own alarm continues with its remaining time.
            left = remaining - (time.monotonic() - self._started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), interval)


def users_handler(number: int) -> Any:
    """Return the handler of a signal that the user has set, also while a deadline replaces it."""
    handler = signal.getsignal(number)
    while isinstance(getattr(handler, "__self__", None), _SignalAlarm):
        handler = handler.__self__._handler_before  # type: ignore[union-attr]
    return handler


class _ThreadAlarm:
    def start(self) -> None:
        self._target = threading.get_ident()
        self._changed = threading.Condition()
        self._fires_at = float("inf")
        self.armed = self._active = True
        threading.Thread(target=self._watch, name="prime-state-alarm", daemon=True).start()

    def set(self, seconds: float) -> None:
        with self._changed:
            self._fires_at = time.monotonic() + seconds
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while self._active:
                left = self._fires_at - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                    continue
                if self.armed:
                    _raise_in(self._target, DeadlineExceeded)
                self._fires_at = time.monotonic() + _REPEAT_SECONDS

    def stop(self) -> None:
        with self._changed:
            self._active = False
            _raise_in(self._target, None)  # cancel an exception that was not delivered yet
            self._changed.notify()


def _raise_in(thread_id: int, exception: type[BaseException] | None) -> None:
    argument = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), argument)


def stop_thread(thread: threading.Thread) -> None:
    """Raise `DeadlineExceeded` in another thread, at its next bytecode."""
    _raise_in(thread.ident or 0, DeadlineExceeded)
