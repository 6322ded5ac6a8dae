"""Noticing that the context fills up again as fast as it is compacted, and with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_ext.context.projection import ProjectedMessage

FEW_REQUESTS = 3
"""A context that is full again after so many requests was refilled at once."""

MAX_REFILLS = 3
"""Compactions in a row, each after so few requests, before it is given up."""


class RefillGuard:
    """Counts requests and automatic compactions."""

    def __init__(self) -> None:
        self._requests = FEW_REQUESTS + 1
        """Since the last compaction."""
        self._quick = 0
        """Compactions in a row that came after few requests."""

    def requested(self) -> None:
        """A request was answered."""
        self._requests += 1

    def compacted(self) -> None:
        """The context was compacted because it was full."""
        self._quick = self._quick + 1 if self._requests <= FEW_REQUESTS else 1
        self._requests = 0

    def relax(self) -> None:
        """A person has acted: begin to count anew."""
        self._quick = 0

    @property
    def gives_up(self) -> bool:
        """Whether one more compaction would go on with what has not helped."""
        return self._quick >= MAX_REFILLS and self._requests <= FEW_REQUESTS


@dataclass(frozen=True)
class Contributor:
    """What a part of the context consists of."""

    name: str
    """``results of read_file``, ``the user's messages`` or ``the model's replies``."""
    tokens: int
    largest_seq: int
    """The record of the largest message of it."""


def largest_contributor(
    messages: Sequence[ProjectedMessage], sizes: Sequence[int]
) -> Contributor | None:
    """What takes most of the context; ``None`` if it is empty. ``sizes`` are in tokens."""
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
