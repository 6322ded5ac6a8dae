"""How large a session's context is: reported usage where there is one, an estimate beyond it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from prime_ext.context import tokens
from prime_ext.context.breakpoints import SYSTEM
from prime_ext.context.plan import LARGEST_ERROR
from prime_ext.context.projection import (
    ProjectedMessage,
    Projection,
    last_compaction,
    sendable,
)
from prime_ext.context.projector import Projector
from prime_ext.session.records import AnyRecord, AssistantMessage

OFFLINE = "offline"

FEW_MESSAGES = 8
"""As many are counted on the event loop; more in a thread."""

GROWTHS = 64
"""Requests that the growth is learned from."""


class ContextMeter:
    """Sizes in tokens of one session's context, as one model counts them.

    The tokenizer is loaded on first use, off the event loop; every message is counted once.
    """

    def __init__(self, model: str, image_cap: int) -> None:
        self.model = model
        self._image_cap = image_cap
        self._estimator = tokens.UsageEstimator.for_model(model)
        self._messages: list[ProjectedMessage] = []
        self._sizes: list[tokens.Size] = []
        self._totals: list[tokens.Size] = [tokens.NOTHING]
        """Of the messages up to each one, so that a longer context costs only what came since."""
        self._lock = threading.Lock()
        # The same note is asked for at each request near the threshold.
        self._count_text = lru_cache(maxsize=8)(tokens.count_text)
        self._reported: int | None = None
        self._growths: deque[int] = deque(maxlen=GROWTHS)
        self._overhead: tuple[list[Any], list[Any], tokens.Size] | None = None
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

    def unreported(self, tokens: int) -> int:
        """How much of a context's size of ``tokens`` is an estimate."""
        return max(0, tokens - (self._estimator.anchor_tokens or 0))

    async def message_tokens(self, projection: Projection) -> list[int]:
        """Size of each message."""
        await self._measure(projection)
        return [self._scaled(size) for size in self._sizes]

    def tokens_behind(self, count: int) -> int:
        """Size of what stands behind the oldest ``count`` messages of the context last measured."""
        whole, prefix = self._totals[-1], self._totals[count]
        return self._scaled(tokens.Size(whole.text - prefix.text, whole.images - prefix.images))

    def cacheable_from(self, projection: Projection, shortest: int) -> int | None:
        """Index of the first message that ends a beginning of at least ``shortest`` tokens.

        ``SYSTEM`` if system prompt and tools alone are as long, ``None`` if not even the whole is.
        Rather too early: a mark too many does nothing, one too few costs.
        """
        self._total(projection)
        head = self._fixed(projection)
        for index, behind in enumerate(self._totals, SYSTEM):
            if self._scaled(head.plus(behind)) * (1 + LARGEST_ERROR) >= shortest:
                return index
        return None

    def some_tokens(self, messages: Sequence[ProjectedMessage]) -> int:
        """Size of messages that are not in the context. Call it in a thread if they are long."""
        total = tokens.NOTHING
        for message in messages:
            total = total.plus(tokens.measure_message(message.read, self._image_cap))
        return self._scaled(total)

    async def overhead_tokens(self, projection: Projection) -> int:
        """Size of system prompt and tools, which no compaction can shrink."""
        await self._measure(projection)
        return self._scaled(self._fixed(projection))

    def text_tokens(self, text: str) -> int:
        """Size of a text. Loads the tokenizer if nothing has been measured yet."""
        return self._scaled(tokens.Size(self._count_text(text)))

    def observe(
        self, projection: Projection, usage: dict[str, Any], reply: list[dict[str, Any]]
    ) -> None:
        """Learn from the usage reported for a request that held ``projection``.

        ``reply`` is its answer's content, which the next request holds as well.
        """
        size = tokens.measure_message({"content": sendable(reply)}, self._image_cap)
        self._estimator.observe(usage, self._total(projection), size)
        self._follow_growth(usage)

    def _follow_growth(self, usage: dict[str, Any]) -> None:
        reported = tokens.context_tokens(usage)
        if reported is not None and self._reported is not None:
            self._growths.append(max(0, reported - self._reported))
        self._reported = reported

    @property
    def fast_growth(self) -> int:
        """By how many tokens a request outgrows the one before it in the fastest of 20 cases."""
        ordered = sorted(self._growths)
        return ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0

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
                await self._take_up(records, index, record)
                return

    async def _take_up(
        self, records: Sequence[AnyRecord], index: int, reply: AssistantMessage
    ) -> None:
        await tokens.load()
        shown = records[:index]
        projector = Projector(lambda: shown)
        await asyncio.to_thread(self.observe, projector.now(), reply.usage, reply.content)
        shown = records
        await self.context_tokens(projector.now())
        self._reported = None
        for record in records:
            if isinstance(record, AssistantMessage) and record.usage:
                self._follow_growth(record.usage)

    def forget_usage(self) -> None:
        """The context has been replaced: what was reported is no longer its size."""
        self._estimator.drop_anchor()
        self._reported = None
        self.known_tokens = None

    async def _measure(self, projection: Projection) -> tokens.Size:
        await tokens.load()
        if len(projection.messages) - self._counted(projection.messages) > FEW_MESSAGES:
            # A session resumed with a long context would hold the event loop for a while.
            return await asyncio.to_thread(self._total, projection)
        return self._total(projection)

    def _counted(self, messages: Sequence[ProjectedMessage]) -> int:
        """How many of the oldest messages are counted already.

        A message that is the same object stands behind the same messages as before.
        """
        same = min(len(messages), len(self._messages))
        while same and messages[same - 1] is not self._messages[same - 1]:
            same -= 1
        return same

    def _total(self, projection: Projection) -> tokens.Size:
        with self._lock:
            messages = projection.messages
            counted = self._counted(messages)
            del self._sizes[counted:], self._totals[counted + 1 :]
            self._messages = messages[:counted]
            for message in messages[counted:]:
                size = tokens.measure_message(message.read, self._image_cap)
                self._sizes.append(size)
                self._totals.append(self._totals[-1].plus(size))
            self._messages = messages
            return self._fixed(projection).plus(self._totals[-1])

    def _fixed(self, projection: Projection) -> tokens.Size:
        system, tools = projection.system, projection.tools
        known = self._overhead
        if known is None or known[0] is not system or known[1] is not tools:
            size = tokens.measure_request(system, tools, [], self._image_cap)
            known = self._overhead = (system, tools, size)
        return known[2]

    def _scaled(self, size: tokens.Size) -> int:
        return round(size.text * self._estimator.ratio) + size.images
