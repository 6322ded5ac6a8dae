"""Who makes room in a context: code and the model, or the model's server in their place.

Both ways are the same to all who decide when and where; they differ in what a prune is and in who
writes a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from prime_ext.compaction.summarise import Room, Summary, summarise, summarise_on_server
from prime_ext.context.plan import Prune
from prime_ext.context.projection import ProjectedMessage, Projection
from prime_ext.context.prune import pruning
from prime_ext.context.server_side import clearing
from prime_ext.models.model import Model, Retry, ServerSide


class Summarise(Protocol):
    """Has messages summarised. See ``summarise``."""

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
    """How room is made."""

    prune: Prune
    summarise: Summarise

    @property
    def makes_blocks(self) -> bool:
        """Whether summaries are blocks that the model's server has signed."""
        return self.summarise is summarise_on_server


CLIENT = Strategy(pruning, summarise)
"""Works with every model."""

SERVER_SIDE = {
    "context_editing": Strategy(clearing, summarise),
    "compaction": Strategy(pruning, summarise_on_server),
}
"""By the value of ``ContextConfig.server_side``. The API takes one of the two in a request."""


def strategy(wanted: str, offered: ServerSide) -> Strategy:
    """The strategy of that name if the model's server has it, else the client's own."""
    has = {"context_editing": offered.clears_tool_uses, "compaction": offered.compacts}
    return SERVER_SIDE[wanted] if has.get(wanted) else CLIENT
