"""Distinguishing the user's interrupt from an object that raises ``KeyboardInterrupt`` itself.

The user's interrupt ends the save or load. The other is just an object that cannot be pickled.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class _Watched:
    """Whether a `watch` block is active, and whether SIGINT has arrived in it."""

    now = False
    came = False


class watch:  # noqa: N801 - reads as a function, as in contextlib
    """Record interrupts inside a ``with`` block; the handler before is still called."""

    def __enter__(self) -> None:
        self._watches = False
        self._before: Any = signal.getsignal(signal.SIGINT)
        if _Watched.now or threading.current_thread() is not threading.main_thread():
            return
        if self._before is None:
            return  # the handler was installed by C code, which Python could not restore
        self._watches = _Watched.now = True
        _Watched.came = False
        if callable(self._before):  # otherwise SIGINT is ignored or ends the process
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        _Watched.came = True
        self._before(number, frame)

    def __exit__(self, *_details: Any) -> None:
        if self._watches:
            _Watched.now = False
            signal.signal(signal.SIGINT, self._before)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception is the user's interrupt; outside of `watch` this is a guess."""
    return isinstance(error, KeyboardInterrupt) and (_Watched.came or not _Watched.now)
