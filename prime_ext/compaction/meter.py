"""How large a session's context is: reported usage where there is one, an estimate beyond it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from prime_ext.context import tokens
from prime_ext.context.projection import (
    ProjectedMessage,
    Projection,
    last_compaction,
    project,
    sendable,
)
from prime_ext.session.records import AnyRecord, AssistantMessage

OFFLINE = "offline"


class ContextMeter:
    """Sizes in tokens of one session's context, as one model counts them.

    The tokenizer is loaded on first use, off the event loop; every message is counted once.
    """

    def __init__(self, model: str, image_cap: int) -> None:
        self.model = model
        self._image_cap = image_cap
        self._estimator = tokens.UsageEstimator.for_model(model)
        self._sizes: dict[tuple[str, int, int], tokens.Size] = {}
        self._overhead: tuple[int, tokens.Size] | None = None
        self.known_tokens: int | None = None
        """Size of the context when it was last measured on top of reported usage; ``None`` from a
        compaction until the next reply."""

    async def context_tokens(self, projection: Projection) -> int:
        """Size of the next request."""
        size = await self._measure(projection)
        estimate = self._estimator.estimate(size)
        if self._estimator.anchored:
            self.known_tokens = estimate
        return estimate

    async def message_tokens(self, projection: Projection) -> list[int]:
        """Size of each message."""
        await self._measure(projection)
        return [self._scaled(self._size(message)) for message in projection.messages]

    async def overhead_tokens(self, projection: Projection) -> int:
        """Size of system prompt and tools, which no compaction can shrink."""
        await self._measure(projection)
        return self._scaled(self._fixed(projection))

    def text_tokens(self, text: str) -> int:
        """Size of a text. Loads the tokenizer if nothing has been measured yet."""
        return self._scaled(tokens.Size(tokens.count_text(text)))

    def observe(
        self, projection: Projection, usage: dict[str, Any], reply: list[dict[str, Any]]
    ) -> None:
        """Learn from the usage reported for a request that held ``projection``.

        ``reply`` is its answer's content, which the next request holds as well.
        """
        size = tokens.measure_message({"content": sendable(reply)}, self._image_cap)
        self._estimator.observe(usage, self._total(projection), size)

    async def resume(self, records: Sequence[AnyRecord]) -> None:
        """Take up what the last reply in ``records`` reported, if it was for this context."""
        compaction = last_compaction(records)
        oldest = compaction.seq if compaction else 0
        for index in range(len(records) - 1, 0, -1):
            record = records[index]
            if record.seq <= oldest:
                return
            # Another model's count is no measure; only the offline agent ever stands in for one.
            stood_in = isinstance(record, AssistantMessage) and (
                (record.model == OFFLINE) != (self.model == OFFLINE)
            )
            if isinstance(record, AssistantMessage) and record.usage and not stood_in:
                await tokens.load()
                answered = project(records[:index])
                await asyncio.to_thread(self.observe, answered, record.usage, record.content)
                await self.context_tokens(project(records))
                return

    def forget_usage(self) -> None:
        """The context has been replaced: what was reported is no longer its size."""
        self._estimator.drop_anchor()
        self._sizes.clear()
        self.known_tokens = None

    async def _measure(self, projection: Projection) -> tokens.Size:
        await tokens.load()
        new = [m for m in projection.messages if _key(m) not in self._sizes]
        if new or self._overhead is None:
            # A session resumed with a long context would hold the event loop for a while.
            return await asyncio.to_thread(self._total, projection)
        return self._total(projection)

    def _total(self, projection: Projection) -> tokens.Size:
        total = self._fixed(projection)
        for message in projection.messages:
            total = total.plus(self._size(message))
        return total

    def _fixed(self, projection: Projection) -> tokens.Size:
        key = hash((id(projection.system), id(projection.tools)))
        if self._overhead is None or self._overhead[0] != key:
            size = tokens.measure_request(projection.system, projection.tools, [], self._image_cap)
            self._overhead = (key, size)
        return self._overhead[1]

    def _size(self, message: ProjectedMessage) -> tokens.Size:
        key = _key(message)
        if key not in self._sizes:
            self._sizes[key] = tokens.measure_message(message.wire(), self._image_cap)
        return self._sizes[key]

    def _scaled(self, size: tokens.Size) -> int:
        return round(size.text * self._estimator.ratio) + size.images


def _key(message: ProjectedMessage) -> tuple[str, int, int]:
    return (message.role, message.first_seq, message.last_seq)
