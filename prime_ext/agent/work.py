"""What an agent is doing at the moment, and how a person stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from prime_ext.session.records import Interrupt

if TYPE_CHECKING:
    from prime_ext.agent.lifecycle import Lifecycle


class Work:
    """The work of one agent: turns and compactions, one after the other until the agent is idle.

    Parameters
    ----------
    lifecycle:
        Lifecycle of the agent.
    on_change:
        Called when the phase has changed.
    """

    def __init__(self, lifecycle: Lifecycle, on_change: Callable[[], None]) -> None:
        self._lifecycle = lifecycle
        self._on_change = on_change
        self.phase = "idle"
        """``idle``, ``model``, ``tool``, ``approval``, ``compaction``, ``retry`` or ``wait``."""
        self.turn: str | None = None
        """Id of the current turn; ``None`` if there is none."""
        self.stopped = False
        """Whether the work was told to stop.

        The current piece is cancelled as well, but an awaited call may swallow that.
        """
        self.stopped_by: str | None = None
        self._stop_at_once = False
        """Whether Stop was pressed before the first piece had begun."""
        self._task: asyncio.Task[None] | None = None
        self._piece: asyncio.Task[str] | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether the agent is not idle."""
        return self._task is not None

    @property
    def has_begun(self) -> bool:
        """Whether the first piece of the work has begun."""
        return self._piece is not None

    @property
    def stopped_by_person(self) -> bool:
        """Whether the work was told to stop for another reason than that the session is closed."""
        return self.stopped and not self._lifecycle.is_ending

    def enter(self, phase: str) -> None:
        """Enter a phase of the work."""
        self.phase = phase
        self._on_change()

    def enter_turn(self, turn: str | None, phase: str) -> None:
        """Enter a phase of the turn with this id, or of work outside of turns."""
        self.turn = turn
        self.enter(phase)

    def begin(self, pieces: Coroutine[Any, Any, None], *, turn: str | None, phase: str) -> None:
        """Begin to carry out ``pieces``, which calls ``run`` for each piece. See ``enter_turn``.

        Raises
        ------
        RuntimeError
            If the agent is at work already, or is being closed.
        """
        if self.is_going_on or self._lifecycle.is_ending:
            pieces.close()
            raise RuntimeError("An agent that is at work or being closed begins no other work")
        self.enter_turn(turn, phase)
        self._task = asyncio.create_task(self._until_idle(pieces))

    async def _until_idle(self, pieces: Coroutine[Any, Any, None]) -> None:
        try:
            await pieces
        finally:
            self._task = self._piece = None
            self.stopped, self.stopped_by, self._stop_at_once = False, None, False
            self.enter_turn(None, "idle")

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

    def stop(self, user: str | None) -> bool:
        """Cancel the current piece, or the first one as soon as it begins.

        Returns
        -------
        bool
            ``False`` if no work goes on.
        """
        if self._task is None:
            return False
        self.stopped, self.stopped_by = True, user
        if self._piece is None:
            self._stop_at_once = True
        else:
            self._piece.cancel()
        return True

    def interruption(self, turn: str) -> Interrupt:
        """Return the record that the work was stopped in its present phase, in ``turn``."""
        return Interrupt(phase=self.phase, turn=turn, user=self.stopped_by)

    async def ended(self) -> None:
        """Wait until the agent is idle."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
