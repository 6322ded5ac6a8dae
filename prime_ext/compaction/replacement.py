"""Replacements for the compacted messages: a note, a new summary, or an extraction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prime_ext.compaction.extraction import extraction, rebuild_is_due
from prime_ext.compaction.ladder import MOST_REQUESTS, Sizes, summarise_somehow
from prime_ext.compaction.strategy import Strategy
from prime_ext.context.cut import cut_index
from prime_ext.context.digest import digest
from prime_ext.context.fitted import fitted
from prime_ext.context.limits import Limits
from prime_ext.context.note import Note, behind, split
from prime_ext.context.plan import may_follow, tail_room
from prime_ext.context.projection import ProjectedMessage, Projection
from prime_ext.context.prune import Rates
from prime_ext.context.unverified import flagged, still_flagged
from prime_ext.models.model import ContextOverflow, Model, ModelError, Retry
from prime_ext.session.records import Block, Error

if TYPE_CHECKING:
    from prime_ext.session.session import Session

WAIT_SECONDS = 150.0
"""Time that the model has for a summary while somebody waits; then an extraction is used."""


@dataclass(frozen=True)
class Frozen:
    """Settings that take effect at a compaction, since nothing of the old prefix stays cached."""

    provider: str
    model: str
    system: list[Block]
    tools: list[dict[str, Any]]


@dataclass(frozen=True)
class Terms:
    """Settings of a compaction."""

    model: Model
    """Model of the conversation, whose cache holds the prefix. It writes the summary."""
    limits: Limits
    rates: Rates
    compactions: int
    """Number of successful compactions so far."""
    frozen: Frozen
    """Model, system prompt and tools after the compaction."""
    strategy: Strategy
    instructions: str | None = None
    """The user's or the model's wishes for the summary."""


@dataclass(frozen=True)
class Replacement:
    """The text that replaces the compacted messages, and its cost."""

    text: str
    path: str
    """As in ``CompactionEnd``; empty for a failed attempt."""
    cut: int
    """Index of the first message that stays verbatim."""
    block: Block | None = None
    """Compaction block, if the model's server made the summary."""
    request_tokens: int = 0
    """Tokens sent to the model while somebody waited."""
    usage: dict[str, Any] | None = None
    cost_usd: float | None = None
    reason: str | None = None
    """Why the model's summary could not be used, if so."""


class Replacing:
    """Makes the replacements for one compaction.

    Parameters
    ----------
    sizes:
        Size of each message, in tokens.
    overhead:
        Size of system prompt and tools, in tokens.
    note:
        The prefired note, if one is ready.
    count:
        Counts the tokens of a text.
    progress:
        Called with messages about the progress, for the user who waits.
    on_overflow:
        Called if the model's server refuses a request as too long.
    """

    def __init__(
        self,
        session: Session,
        projection: Projection,
        sizes: Sequence[int],
        overhead: int,
        note: Note | None,
        terms: Terms,
        *,
        count: Callable[[str], int],
        progress: Callable[[str], None],
        on_overflow: Callable[[ContextOverflow], None],
        log: logging.Logger,
    ) -> None:
        self._session = session
        self._projection = projection
        self._sizes = sizes
        self._overhead = overhead
        self._note = note
        self._budget = terms.limits.summary_tokens(overhead)
        self._terms = terms
        self._count = count
        self._progress = progress
        self._on_overflow = on_overflow
        self._log = log

    async def make(self, keep_tail: int, added: int, *, may_swap: bool = True) -> Replacement:
        """Return the replacement of the prefix.

        A note is used as it is (swap) if the messages since may stay verbatim. Otherwise the model
        merges the note with those messages, reading nothing else. Without a note the model reads
        the whole prefix (single pass). If the model fails, an extraction is used (digest).

        Parameters
        ----------
        keep_tail:
            Maximum tokens kept verbatim after a new summary. Fewer are kept if the context would
            otherwise exceed the landing size; this is decided before the request, so that nobody
            waits for a second one.
        added:
            Tokens that code adds to a summary.
        may_swap:
            Whether the messages since the note may stay verbatim after it.
        """
        messages, limits = self._projection.messages, self._terms.limits
        room = limits.landing - self._overhead - self._budget - added
        # Few summaries use all of their room.
        room = min(room, tail_room(limits, self._overhead, self._budget // 2))
        cut = cut_index(messages, self._sizes, max(0, min(keep_tail, room)))
        if self._note is None:
            return await self._by_model(
                messages[:cut], self._sizes[:cut], cut, "single_pass", self._terms.strategy
            )
        noted = split(messages, self._note)
        tail = sum(self._sizes[noted:])
        note_size = self._count(self._note.text)
        waited = self._note.waited_tokens
        if may_swap and may_follow(tail, note_size, limits, self._overhead):
            return Replacement(
                self._note.text, "swap", noted, self._note.block, request_tokens=waited
            )
        cut = max(cut, noted)
        prefix = behind(self._note, messages[noted:cut])
        sizes = [note_size, *self._sizes[noted:cut]]
        strategy = self._terms.strategy.for_merging(self._note)
        asked = 1 + self._terms.strategy.more_requests if waited else 0
        merged = await self._by_model(prefix, sizes, cut, "merge", strategy, asked)
        return replace(merged, request_tokens=merged.request_tokens + waited)

    async def _by_model(
        self,
        prefix: Sequence[ProjectedMessage],
        sizes: Sequence[int],
        cut: int,
        path: str,
        strategy: Strategy,
        asked: int = 0,
    ) -> Replacement:
        """Return a replacement by the model, of which ``asked`` requests were made already."""
        terms = self._terms
        self._progress("Summarising the conversation")
        found = ""
        if path == "single_pass" and rebuild_is_due(terms.compactions):
            found = await asyncio.to_thread(extraction, self._session.log, prefix[-1].last_seq)
        try:
            summary = await asyncio.wait_for(
                summarise_somehow(
                    self._projection,
                    prefix,
                    Sizes(self._overhead, sizes),
                    terms.model,
                    terms.limits,
                    self._count,
                    first=strategy,
                    instructions=terms.instructions,
                    extraction=found,
                    requests=MOST_REQUESTS - asked,
                    on_retry=self._on_retry,
                    on_overflow=self._on_overflow,
                    log=self._log,
                ),
                WAIT_SECONDS,
            )
        except (ModelError, asyncio.TimeoutError) as error:
            failure = error if isinstance(error, ModelError) else _TOO_SLOW
            self._session.append(
                Error(
                    code=failure.code,
                    message=f"The summary could not be made by the model: {failure.message}",
                    hint="It is made by extraction instead; nothing is lost.",
                    where="compaction",
                )
            )
            failed = Replacement("", "", cut, reason=failure.message)
            return self.extracted(prefix, cut, self._budget, failed)
        answered = Replacement(
            "",
            "",
            cut,
            request_tokens=summary.sent_tokens,
            usage=summary.usage,
            cost_usd=summary.cost_usd,
            reason=summary.reason,
        )
        if not summary.text:
            return self.extracted(prefix, cut, self._budget, answered)
        if terms.model.provider == "offline":
            path = "digest"
        return replace(answered, text=summary.text, path=path, block=summary.block)

    def _on_retry(self, retry: Retry) -> None:
        self._progress(
            f"Summarising the conversation: {retry.reason}, trying again in "
            f"{retry.delay_s:.0f} s ({retry.attempt}/{retry.max_attempts})"
        )

    def extracted(
        self,
        prefix: Sequence[ProjectedMessage],
        cut: int,
        tokens: int,
        instead_of: Replacement,
    ) -> Replacement:
        """Return a replacement made without a model.

        Parameters
        ----------
        prefix:
            Messages to replace.
        cut:
            Index of the first message that stays verbatim.
        tokens:
            Approximate maximum size of the text.
        instead_of:
            The replacement that could not be used, whose cost is taken over.
        """
        messages = [m.wire for m in prefix]
        contents = [m.content for m in prefix]

        def made(chars: int) -> str:
            text = digest(messages, max_chars=chars)
            # The extraction may take over values that a model invented in an earlier summary.
            return flagged(text, still_flagged(text, contents))

        text = fitted(made, tokens, self._count)
        return replace(instead_of, text=text, path="digest", cut=cut, block=None)


_TOO_SLOW = ModelError(
    f"The model had not summarised the conversation after {WAIT_SECONDS:g} seconds.",
    code="stalled",
)
