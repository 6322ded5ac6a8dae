"""Work that a person can stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class StoppableWork:
    """The work of an agent until it is idle again: one piece after the other."""

    def __init__(self) -> None:
        self._piece: asyncio.Task[str] | None = None
        self._stop_at_once = False
        """Whether Stop was pressed before the first piece had begun."""
        self.stopped = False
        self.stopped_by: str | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the first piece of work has begun."""
        return self._piece is not None

    def stop(self, user: str | None) -> None:
        """Cancel the current piece, or the first one as soon as it begins."""
        self.stopped, self.stopped_by = True, user
        if self._piece is None:
            self._stop_at_once = True
        else:
            self._piece.cancel()

    async def run(self, piece: Coroutine[Any, Any, str]) -> str | None:
        """Run ``piece`` and return its result.

        ``None`` if it was cancelled, e.g. before its first step, and did not handle that itself.
        """
        self._piece = asyncio.create_task(piece)
        if self._stop_at_once:
            self._piece.cancel()
        try:
            return await self._piece
        except asyncio.CancelledError:
            if not self._piece.cancelled():
                raise
            return None
