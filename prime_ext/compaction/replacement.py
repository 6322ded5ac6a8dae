"""What takes the place of the compacted messages: a note, a summary, or an extraction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prime_ext.compaction.extraction import extraction, rebuild_is_due
from prime_ext.compaction.ladder import Sizes, summarise_somehow
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
"""How long a compaction that somebody waits for gives the model; then it does without."""


@dataclass(frozen=True)
class Frozen:
    """What a compaction freezes anew, because nothing of the old prefix stays cached."""

    provider: str
    model: str
    system: list[Block]
    tools: list[dict[str, Any]]


@dataclass(frozen=True)
class Terms:
    """What a compaction has to keep to."""

    model: Model
    """Writes the summary: the one the conversation runs on, whose cache holds the prefix."""
    limits: Limits
    rates: Rates
    compactions: int
    """Successful ones so far."""
    frozen: Frozen
    """Model, system prompt and tools from here on."""
    strategy: Strategy
    """Who makes the room."""
    instructions: str | None = None
    """What the summary must look after."""


@dataclass(frozen=True)
class Replacement:
    """The text that stands in, and what it took to get it."""

    text: str
    path: str
    cut: int
    """Index of the first message that stays verbatim."""
    block: Block | None = None
    """What the model's server has signed, if it made the summary."""
    request_tokens: int = 0
    usage: dict[str, Any] | None = None
    cost_usd: float | None = None
    reason: str | None = None


class Replacing:
    """Makes replacements in one compaction.

    Parameters
    ----------
    note:
        The note made ahead, if one is ready.
    count:
        Counts the tokens of a text.
    progress:
        Told what goes on, for the person who waits.
    on_overflow:
        Told what the model's server said of its window.
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
        """What takes the prefix's place.

        A note that is ready takes its place as it is if what came since may stay verbatim;
        otherwise the model merges the two, reading no more than them. Without a note the model
        reads the whole prefix. Where the model fails, an extraction does.

        Parameters
        ----------
        keep_tail:
            Tokens that may stay verbatim behind a new summary; fewer, if it would not land with
            them. This is settled before anything is asked, so that nobody waits twice.
        added:
            Tokens of what code adds to a summary.
        may_swap:
            Whether what came since the note may stay verbatim behind it.
        """
        messages, limits = self._projection.messages, self._terms.limits
        room = limits.landing - self._overhead - self._budget - added
        # Few summaries are as long as they may.
        room = min(room, tail_room(limits, self._overhead, self._budget // 2))
        cut = cut_index(messages, self._sizes, max(0, min(keep_tail, room)))
        if self._note is None:
            return await self._by_model(messages[:cut], self._sizes[:cut], cut, "single_pass")
        noted = split(messages, self._note)
        tail = sum(self._sizes[noted:])
        note_size = self._count(self._note.text)
        if may_swap and may_follow(tail, note_size, limits, self._overhead):
            waited = self._note.waited_tokens
            return Replacement(
                self._note.text, "swap", noted, self._note.block, request_tokens=waited
            )
        cut = max(cut, noted)
        prefix = behind(self._note, messages[noted:cut])
        return await self._by_model(prefix, [note_size, *self._sizes[noted:cut]], cut, "merge")

    async def _by_model(
        self, prefix: Sequence[ProjectedMessage], sizes: Sequence[int], cut: int, path: str
    ) -> Replacement:
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
                    first=terms.strategy,
                    instructions=terms.instructions,
                    extraction=found,
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
        asked = Replacement(
            "",
            "",
            cut,
            request_tokens=summary.sent_tokens,
            usage=summary.usage,
            cost_usd=summary.cost_usd,
            reason=summary.reason,
        )
        if not summary.text:
            return self.extracted(prefix, cut, self._budget, asked)
        if terms.model.provider == "offline":
            path = "digest"
        return replace(asked, text=summary.text, path=path, block=summary.block)

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
        """A replacement of about ``tokens`` at most, made without a model.

        ``instead_of`` is one that cannot be used; what it took was spent all the same.
        """
        messages = [m.wire for m in prefix]
        contents = [m.content for m in prefix]

        def made(chars: int) -> str:
            text = digest(messages, max_chars=chars)
            # It takes over what an earlier summary says, which a model may have invented.
            return flagged(text, still_flagged(text, contents))

        text = fitted(made, tokens, self._count)
        return replace(instead_of, text=text, path="digest", cut=cut, block=None)


_TOO_SLOW = ModelError(
    f"The model had not summarised the conversation after {WAIT_SECONDS:g} seconds.",
    code="stalled",
)
