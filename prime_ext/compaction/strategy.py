"""Strategies for making room in a context: by this package, or by the model's server.

They differ in how a prune is made and in who writes summaries. The decisions when and where to
compact are the same for all strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from prime_ext.compaction.summarise import Room, Summary, summarise, summarise_on_server
from prime_ext.context.note import Note
from prime_ext.context.plan import Prune
from prime_ext.context.projection import ProjectedMessage, Projection
from prime_ext.context.prune import pruning
from prime_ext.context.server_side import clearing
from prime_ext.models.model import Model, Retry, ServerSide


class Summarise(Protocol):
    """Signature of ``summarise`` and ``summarise_on_server``."""

    async def __call__(
        self,
        projection: Projection,
        messages: Sequence[ProjectedMessage],
        model: Model,
        room: Room,
        *,
        instructions: str | None,
        extraction: str = "",
        on_retry: Callable[[Retry], None] | None = None,
    ) -> Summary: ...


@dataclass(frozen=True)
class Strategy:
    """The functions that make room in a context."""

    prune: Prune
    summarise: Summarise

    @property
    def makes_blocks(self) -> bool:
        """Whether the model's server makes the summaries, as signed blocks."""
        return self.summarise is summarise_on_server

    @property
    def more_requests(self) -> int:
        """Requests that a summary may take beside the first."""
        return int(self.makes_blocks)

    def for_merging(self, note: Note) -> Strategy:
        """Return the strategy for a summary of ``note`` and the messages since.

        If the note is a text, the model's server must not make that summary: it would sign a block
        for a conversation that begins with the note, but the thinking in the messages since is
        bound to the conversation that the note replaces. After the block it would be refused.
        """
        return CLIENT if note.block is None else self


CLIENT = Strategy(pruning, summarise)
"""Strategy that works with every model."""

SERVER_SIDE = {
    "context_editing": Strategy(clearing, summarise),
    "compaction": Strategy(pruning, summarise_on_server),
}
"""Strategies by the value of ``ContextConfig.server_side``. The API accepts only one of the two in
a request."""


def strategy(wanted: str, offered: ServerSide) -> Strategy:
    """Return the strategy ``wanted`` if the model's server supports it, otherwise ``CLIENT``."""
    has = {"context_editing": offered.clears_tool_uses, "compaction": offered.compacts}
    return SERVER_SIDE[wanted] if has.get(wanted) else CLIENT
