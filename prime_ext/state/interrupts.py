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
        self._before: Any = None
        if _Watched.now or threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if not callable(before):
            return  # ignored, or left to the system: no exception comes of it

        def note(number: int, frame: FrameType | None) -> None:
            _Watched.came = True
            before(number, frame)

        _Watched.now, _Watched.came = True, False
        self._before = before
        signal.signal(signal.SIGINT, note)

    def __exit__(self, *_details: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            _Watched.now = False


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception is the user's interrupt, as far as can be told."""
    return isinstance(error, KeyboardInterrupt) and (_Watched.came or not _Watched.now)
