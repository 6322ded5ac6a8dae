"""The lifecycle of a session's agent: opening, open, closing, closed."""

from __future__ import annotations

import asyncio
from enum import Enum

from prime_ext.errors import PrimeError


class Stage(Enum):
    """Stage in the life of an agent. It only moves forward; an agent is never opened again."""

    OPENING = "opening"
    """The session's history is being read. Nobody but the opener has the agent."""
    OPEN = "open"
    CLOSING = "closing"
    """Work is being stopped, and what must be kept is being saved. No work may begin any more."""
    CLOSED = "closed"


_NEXT = {
    # An agent that could not be opened is closed, because some of its parts may be open.
    Stage.OPENING: (Stage.OPEN, Stage.CLOSING),
    Stage.OPEN: (Stage.CLOSING,),
    Stage.CLOSING: (Stage.CLOSED,),
    Stage.CLOSED: (),
}


class Lifecycle:
    """The stage of one agent. Only ``OpenAgents`` moves it, everything else reads it."""

    def __init__(self) -> None:
        self._stage = Stage.OPENING
        self._closed = asyncio.Event()

    @property
    def stage(self) -> Stage:
        """Present stage."""
        return self._stage

    @property
    def is_ending(self) -> bool:
        """Whether the agent is being closed, or is closed."""
        return self._stage in (Stage.CLOSING, Stage.CLOSED)

    def move_to(self, stage: Stage) -> None:
        """Move to the next stage.

        Raises
        ------
        RuntimeError
            If ``stage`` cannot follow the present one.
        """
        if stage not in _NEXT[self._stage]:
            raise RuntimeError(f"An agent cannot be {stage.value} after it was {self._stage.value}")
        self._stage = stage
        if stage is Stage.CLOSED:
            self._closed.set()

    async def closed(self) -> None:
        """Wait until the agent is closed."""
        await self._closed.wait()


def closed_meanwhile(session_id: str) -> PrimeError:
    """Return the error ``session_not_found`` (404) for a session that is being closed."""
    return PrimeError(
        f"Session {session_id} was closed meanwhile.",
        code="session_not_found",
        hint="Ask for it again; it may have been deleted.",
        status=404,
    )


def server_stopping() -> PrimeError:
    """Return the error ``server_stopping`` (503) for a session that is not opened any more."""
    return PrimeError(
        "The server stops.",
        code="server_stopping",
        hint="Try again when it is back.",
        status=503,
    )
