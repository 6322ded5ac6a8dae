"""Work that a person can stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class StoppableWork:
    """What an agent does until it rests again, one piece of work after the other."""

    def __init__(self) -> None:
        self._piece: asyncio.Task[str] | None = None
        self._stop_at_once = False
        """Stop was pressed before the first piece had begun."""
        self.stopped = False
        self.stopped_by: str | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a piece of work yet."""
        return self._piece is not None

    def stop(self, user: str | None) -> None:
        """Cancel the piece under way, or the first one as soon as it is there."""
        self.stopped, self.stopped_by = True, user
        if self._piece is None:
            self._stop_at_once = True
        else:
            self._piece.cancel()

    async def run(self, piece: Coroutine[Any, Any, str]) -> str | None:
        """What ``piece`` returns; ``None`` if it was stopped before its first step."""
        self._piece = asyncio.create_task(piece)
        if self._stop_at_once:
            self._piece.cancel()
        try:
            return await self._piece
        except asyncio.CancelledError:
            if not self._piece.cancelled():
                raise
            return None
