"""Size of a session's context, from reported usage plus an estimate of what was added since."""

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
"""Up to this many messages are counted on the event loop; more are counted in a thread."""

GROWTHS = 64
"""Number of recent requests from which ``fast_growth`` is computed."""


class ContextMeter:
    """Measures one session's context in tokens, as one model counts them.

    The tokenizer is loaded in a thread on first use. Each message is counted only once.
    """

    def __init__(self, model: str, image_cap: int) -> None:
        self.model = model
        self._image_cap = image_cap
        self._estimator = tokens.UsageEstimator.for_model(model)
        self._messages: list[ProjectedMessage] = []
        self._sizes: list[tokens.Size] = []
        self._totals: list[tokens.Size] = [tokens.NOTHING]
        """Cumulative sizes of the messages, so that only new messages have to be added up."""
        self._lock = threading.Lock()
        # Near the threshold, each request asks for the size of the same note.
        self._count_text = lru_cache(maxsize=8)(tokens.count_text)
        self._reported: int | None = None
        self._growths: deque[int] = deque(maxlen=GROWTHS)
        self._overhead: tuple[list[Any], list[Any], tokens.Size] | None = None
        self.known_tokens: int | None = None
        """Size of the context when it was last measured, based on reported usage. ``None`` after a
        compaction, until the next reply."""

    async def context_tokens(self, projection: Projection) -> int:
        """Return the size of the next request."""
        size = await self._measure(projection)
        estimate = self._estimator.estimate(size)
        if self._estimator.anchored:
            self.known_tokens = estimate
        return estimate

    def unreported(self, tokens: int) -> int:
        """Return how many of a context's ``tokens`` are estimated rather than reported."""
        return max(0, tokens - (self._estimator.anchor_tokens or 0))

    async def message_tokens(self, projection: Projection) -> list[int]:
        """Return the size of each message."""
        await self._measure(projection)
        return [self._scaled(size) for size in self._sizes]

    def tokens_behind(self, count: int) -> int:
        """Return the size of all but the oldest ``count`` messages of the context last measured."""
        whole, prefix = self._totals[-1], self._totals[count]
        return self._scaled(tokens.Size(whole.text - prefix.text, whole.images - prefix.images))

    def cacheable_from(self, projection: Projection, shortest: int) -> int | None:
        """Return the index of the message at whose end the request reaches ``shortest`` tokens.

        ``SYSTEM`` if system prompt and tools alone are long enough, ``None`` if the whole request
        is not. In doubt the index is too low, since an unneeded cache mark has no effect, while a
        missing one costs.
        """
        self._total(projection)
        head = self._fixed(projection)
        for index, behind in enumerate(self._totals, SYSTEM):
            if self._scaled(head.plus(behind)) * (1 + LARGEST_ERROR) >= shortest:
                return index
        return None

    def some_tokens(self, messages: Sequence[ProjectedMessage]) -> int:
        """Return the size of messages outside of the context. Call in a thread if they are long."""
        total = tokens.NOTHING
        for message in messages:
            total = total.plus(tokens.measure_message(message.read, self._image_cap))
        return self._scaled(total)

    async def overhead_tokens(self, projection: Projection) -> int:
        """Return the size of system prompt and tools, which no compaction can reduce."""
        await self._measure(projection)
        return self._scaled(self._fixed(projection))

    def text_tokens(self, text: str) -> int:
        """Return the size of a text. Loads the tokenizer if nothing has been measured yet."""
        return self._scaled(tokens.Size(self._count_text(text)))

    def raw_tokens(self, tokens: int) -> int:
        """Return how many tokens of the public tokenizer make ``tokens`` of the model."""
        return int(tokens / self._estimator.ratio)

    def observe(
        self, projection: Projection, usage: dict[str, Any], reply: list[dict[str, Any]]
    ) -> None:
        """Take over the usage reported for a request.

        Parameters
        ----------
        projection:
            Context that the request was made from.
        usage:
            Usage as the API reported it.
        reply:
            Content of the reply, which will be part of the next request.
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
        """95th percentile of the growth from one request to the next, in tokens."""
        ordered = sorted(self._growths)
        return ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0

    async def resume(self, records: Sequence[AnyRecord]) -> None:
        """Take over the usage of the last reply in ``records``, if it was for this context."""
        compaction = last_compaction(records)
        oldest = compaction.seq if compaction else 0
        for index in range(len(records) - 1, 0, -1):
            record = records[index]
            if record.seq <= oldest:
                return
            # The offline agent, which may stand in for the model, counts tokens differently.
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
        """Forget the reported usage, because the context has been rewritten."""
        self._estimator.drop_anchor()
        self._reported = None
        self.known_tokens = None

    async def _measure(self, projection: Projection) -> tokens.Size:
        await tokens.load()
        if len(projection.messages) - self._counted(projection.messages) > FEW_MESSAGES:
            # Counting the long context of a resumed session would block the event loop.
            return await asyncio.to_thread(self._total, projection)
        return self._total(projection)

    def _counted(self, messages: Sequence[ProjectedMessage]) -> int:
        """Return how many of the oldest messages have been counted already.

        If a message is the same object as before, so are all messages before it.
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
