"""Telling the user's interrupt from an object that raises ``KeyboardInterrupt`` by itself.

The first ends what is being done, the second is one more object that cannot be pickled.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class _Watched:
    """Whether interrupts are looked out for now, and whether one has come."""

    now = False
    came = False


class watch:  # noqa: N801 - reads as a function, as in contextlib
    """Note interrupts inside a ``with`` block; they take effect as before."""

    def __enter__(self) -> None:
        self._watches = False
        self._before: Any = signal.getsignal(signal.SIGINT)
        if _Watched.now or threading.current_thread() is not threading.main_thread():
            return
        if self._before is None:
            return  # C code has taken over, and may raise what it likes
        self._watches = _Watched.now = True
        _Watched.came = False
        if callable(self._before):  # else it is ignored, or ends the process
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        _Watched.came = True
        self._before(number, frame)

    def __exit__(self, *_details: Any) -> None:
        if self._watches:
            _Watched.now = False
            signal.signal(signal.SIGINT, self._before)


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception is the user's interrupt, as far as can be told."""
    return isinstance(error, KeyboardInterrupt) and (_Watched.came or not _Watched.now)
