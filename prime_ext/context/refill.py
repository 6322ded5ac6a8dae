"""Detection of a context that fills up again right after each compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_ext.context.projection import ProjectedMessage

FEW_REQUESTS = 3
"""A context that is full again after at most this many requests was refilled quickly."""

MAX_REFILLS = 3
"""Number of consecutive quick refills after which automatic compaction gives up."""


class RefillGuard:
    """Counts requests and automatic compactions, to stop compactions that do not help."""

    def __init__(self) -> None:
        self._requests = FEW_REQUESTS + 1
        """Requests since the last compaction."""
        self._quick = 0
        """Consecutive compactions that each came after few requests."""

    def requested(self) -> None:
        """Count a request that was answered."""
        self._requests += 1

    def compacted(self) -> None:
        """Count a compaction that was made because the context was full."""
        self._quick = self._quick + 1 if self._requests <= FEW_REQUESTS else 1
        self._requests = 0

    def relax(self) -> None:
        """Reset the count of compactions, because the user has acted."""
        self._quick = 0

    @property
    def gives_up(self) -> bool:
        """Whether another compaction would most likely not help either."""
        return self._quick >= MAX_REFILLS and self._requests <= FEW_REQUESTS


@dataclass(frozen=True)
class Contributor:
    """A kind of content, and its part of the context."""

    name: str
    """``results of read_file``, ``the user's messages`` or ``the model's replies``."""
    tokens: int
    largest_seq: int
    """``seq`` of the largest message of this kind."""


def largest_contributor(
    messages: Sequence[ProjectedMessage], sizes: Sequence[int]
) -> Contributor | None:
    """Return the kind of content that takes most of the context; ``None`` if that is empty.

    ``sizes`` are the sizes of ``messages`` in tokens.
    """
    tokens: dict[str, int] = {}
    largest: dict[str, tuple[int, int]] = {}
    calls: dict[str, str] = {}
    for message, size in zip(messages, sizes, strict=True):
        if message.role == "assistant":
            calls = {b["id"]: str(b["name"]) for b in message.content if b["type"] == "tool_use"}
            names = ["the model's replies"]
        elif message.is_answer:
            answered = [calls.get(b.get("tool_use_id", ""), "a tool") for b in message.content]
            names = [f"results of {name}" for name in answered]
        else:
            names = ["the user's messages"]
        lengths = [len(str(block)) for block in message.content]
        if message.role == "assistant" or not message.is_answer:
            lengths = [sum(lengths)]
        for name, length in zip(names, lengths, strict=True):
            share = round(size * length / max(1, sum(lengths)))
            tokens[name] = tokens.get(name, 0) + share
            largest[name] = max(largest.get(name, (0, 0)), (share, message.last_seq))
    if not tokens:
        return None
    name = max(tokens, key=lambda key: tokens[key])
    return Contributor(name, tokens[name], largest[name][1])
