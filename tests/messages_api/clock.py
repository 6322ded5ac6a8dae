"""Time for the test API: the real one, or one that only moves when told or slept on."""

from __future__ import annotations

import asyncio
import threading
import time


class Clock:
    """``virtual`` time starts at 0; sleeping on it takes no real time."""

    def __init__(self, *, virtual: bool = True) -> None:
        self.virtual = virtual
        self._now = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds."""
        return self._now if self.virtual else time.monotonic()

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` of virtual time pass."""
        with self._lock:
            self._now += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        if self.virtual:
            self.advance(seconds)
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(seconds)
