"""Prefire: make the note in the background, ahead of need, so that nobody waits for a summary."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from prime_ext.compaction.extraction import extraction, rebuild_is_due
from prime_ext.compaction.strategy import Strategy
from prime_ext.compaction.summarise import Room, Summary
from prime_ext.context.note import (
    Note,
    behind,
    fingerprint,
    holds,
    is_made_of,
    prefix,
    prefix_length,
    rolled_length,
    split,
)
from prime_ext.context.plan import (
    Measured,
    choose_prune,
    leap_room,
    may_follow,
    prefire_point,
    tail_room,
    wants_rolling,
)
from prime_ext.context.projection import ProjectedMessage, Projection, last_compaction
from prime_ext.context.prune import Rates
from prime_ext.models.model import Model, ModelError
from prime_ext.session.records import AnyRecord, PrefireEnd, PrefireStart

if TYPE_CHECKING:
    from prime_ext.compaction.meter import ContextMeter
    from prime_ext.context.limits import Limits
    from prime_ext.session.session import Session


LONGEST_WAIT_SECONDS = 150.0
"""Maximum wait for a note that was started above the threshold; a single pass takes as long."""


@dataclass(frozen=True)
class Approach:
    """A context that may be near its threshold, with what is needed to decide about it."""

    projection: Projection
    tokens: int
    """Size of the context."""
    model: Model
    limits: Limits
    rates: Rates
    compactions: int
    """Number of successful compactions so far."""
    meter: ContextMeter
    strategy: Strategy


@dataclass(frozen=True)
class _Job:
    """A note to be made."""

    projection: Projection
    length: int
    """Number of the oldest messages that the note covers."""
    messages: Sequence[ProjectedMessage]
    """Messages that the model reads: the covered ones, or the previous note and those since."""
    room: Room
    strategy: Strategy
    rolled: bool
    """Whether a previous note is rolled forward."""
    rebuild: bool
    """Whether an extraction from the raw records is given to the model as well."""


class Prefire:
    """Manages the note of one session: at most one is being made, and at most one is ready.

    The note is used if it is ready when the context crosses the threshold and its fingerprint still
    matches the beginning of the context. Nobody waits for it, unless it was started after the
    threshold had already been crossed.

    Parameters
    ----------
    on_note:
        Called with a note once it is ready, to prepare whatever else a swap needs.
    """

    def __init__(
        self, session: Session, log: logging.Logger, on_note: Callable[[Note], Awaitable[object]]
    ) -> None:
        self._session = session
        self._log = log
        self._on_note = on_note
        self._task: asyncio.Task[None] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._note: Note | None = None
        self._failed = False
        """Whether making a note has failed since the last compaction. No other is tried then, and
        the compaction makes its summary in a single pass."""
        self._note_tokens = 0
        """Tokens sent to the model for the newest note."""
        self._crossed_at = 0
        """Size of the context when requests first continued above the threshold; 0 if none has."""
        self._is_outgrown = False
        """Whether too many messages have followed the note for a swap, at the last check."""
        self.has_leapt = False
        """Whether requests continued above the threshold although no note had been started before,
        because a single step took the context from far below the threshold to above it."""

    def resume(self, records: Sequence[AnyRecord]) -> None:
        """Load the note that was ready when the server stopped, from the session's records."""
        compaction = last_compaction(records)
        begun: dict[str, PrefireStart] = {}
        for record in records:
            if compaction is not None and record.seq <= compaction.seq:
                continue
            if isinstance(record, PrefireStart):
                begun[record.prefire_id] = record
            elif isinstance(record, PrefireEnd) and record.outcome == "ok":
                start = begun.get(record.prefire_id)
                if start is not None:
                    self._note = Note(
                        record.note, start.through_seq, start.fingerprint, block=record.block
                    )

    async def consider(self, approach: Approach) -> None:
        """Start making a note, or rolling it forward, if the context comes near its threshold.

        The first note covers ``limits.prefix_share`` of the context. It is not made if pruning
        alone will suffice. When the messages since the note approach the size of the verbatim tail,
        the note is rolled forward: the model reads only the note and the messages since.
        """
        # The offline agent summarises instantly, so it needs no notes.
        if self._is_busy or self._failed or approach.model.provider == "offline":
            return
        if approach.tokens < prefire_point(approach.limits, approach.meter.fast_growth):
            return
        note = self._note
        if note is not None:
            note = self._note = await self._held(note, approach.projection)
        if note is not None and note.made_of is not None:
            # Usually no roll is due, which can be decided without the size of each message.
            behind = approach.meter.tokens_behind(len(note.made_of.messages))
            if not _is_due(
                note, behind, approach, await approach.meter.overhead_tokens(approach.projection)
            ):
                return
        await self._begin(approach)

    async def goes_on(self, approach: Approach) -> bool:
        """Decide whether requests may continue above the threshold while the note is made.

        They may if there is room left in the window (see ``leap_room``) and one of these holds:

        - the note is still being made;
        - too many messages have followed the note for a swap, so it must be rolled forward;
        - the context leapt over the threshold from below the size at which a note is started. The
          note is then started after the next request, which writes the new content to the cache.
        """
        meter, limits = approach.meter, approach.limits
        if self._failed or approach.model.provider == "offline":
            return False
        note = self._note
        if note is not None:
            note = self._note = await self._held(note, approach.projection)
            if note is None or await self._serves(note, approach):
                return False
        elif self._crossed_at and not self._is_busy:
            return False
        capabilities = await approach.model.capabilities()
        room = leap_room(
            limits,
            self._crossed_at or approach.tokens,
            meter.unreported(approach.tokens),
            meter.fast_growth,
            stops_at_window=capabilities.stops_at_window,
        )
        if approach.tokens > room:
            return False
        leaps = note is None and not self._is_busy
        if leaps and await self._prune_will_do(approach, await _measured(approach)):
            return False
        if note is not None and not self._is_busy:
            await self._begin(approach)
            if not self._is_busy:
                return False
        if not self._crossed_at:
            self._crossed_at, self.has_leapt = approach.tokens, leaps
        return True

    async def _serves(self, note: Note, approach: Approach) -> bool:
        """Return whether the note should be swapped in now instead of being rolled forward."""
        assert note.made_of is not None
        meter, limits = approach.meter, approach.limits
        overhead = await meter.overhead_tokens(approach.projection)
        tail = meter.tokens_behind(len(note.made_of.messages))
        size = meter.text_tokens(note.text)
        self._is_outgrown = not may_follow(tail, size, limits, overhead)
        return not self._is_outgrown and tail <= tail_room(limits, overhead, size)

    @property
    def _is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def _begin(self, approach: Approach) -> None:
        """Start the task that is due, if any: a first note, or rolling the note forward."""
        context = await _measured(approach)
        if self._note is not None:
            job = _rolled(self._note, approach, context)
        elif await self._prune_will_do(approach, context):
            return
        else:
            job = _first(approach, context)
        if job is not None:
            self._task = asyncio.create_task(self._make(job, approach))

    async def _prune_will_do(self, approach: Approach, context: Measured) -> bool:
        records = self._session.context_records()
        found = await asyncio.to_thread(
            choose_prune,
            context,
            records,
            approach.limits,
            approach.rates,
            approach.meter.some_tokens,
            approach.strategy.prune,
        )
        return found is not None

    async def ready(self, projection: Projection) -> Note | None:
        """Return the note if it can be used now, and cancel one that is still being made.

        A note that is not ready is cancelled, because a single pass also covers the messages since.
        The exceptions are a leap and an outgrown note: the model would then be asked for nearly the
        same summary again, so this waits for the note, up to ``LONGEST_WAIT_SECONDS``.
        """
        before = self._note
        waits = self.has_leapt or (self._crossed_at > 0 and self._is_outgrown)
        if waits and self._task is not None:
            await asyncio.wait({self._task}, timeout=LONGEST_WAIT_SECONDS)
        self.cancel()
        note = self._note
        if note is not None and waits and note is not before:
            note = replace(note, waited_tokens=self._note_tokens)
        return None if note is None else await self._held(note, projection)

    @staticmethod
    async def _held(note: Note, projection: Projection) -> Note | None:
        """Return the note if its fingerprint still matches the prefix of the context."""
        if is_made_of(note, projection):
            return note
        if not await asyncio.to_thread(holds, note, projection):
            return None
        return replace(note, made_of=prefix(projection, split(projection.messages, note)))

    def keep(self, projection: Projection, length: int, summary: Summary, *, rolled: bool) -> None:
        """Keep the summary of a compaction that was cancelled or failed as the note.

        Parameters
        ----------
        projection:
            Context that was to be compacted.
        length:
            Number of the oldest messages that the summary covers.
        summary:
            The summary.
        rolled:
            Whether the summary was made from the previous note.
        """
        # Not in a thread, where a second cancellation could interrupt this. It takes about 10 ms.
        start = PrefireStart(
            prefire_id=uuid.uuid4().hex,
            through_seq=projection.messages[length - 1].last_seq,
            fingerprint=fingerprint(projection, length),
            rolled=rolled,
        )
        self._session.append(start)
        self._session.append(_ended(start, "ok", summary))
        self._failed = False
        self._take(_note(start, summary, prefix(projection, length)))

    def forget(self) -> None:
        """Drop the note and cancel one being made, because the context was rewritten."""
        self.cancel()
        self._note = None
        self._failed = False
        self._crossed_at = 0
        self._is_outgrown = self.has_leapt = False

    def cancel(self) -> None:
        """Cancel a note that is being made."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Cancel a note that is being made, and wait until its ``prefire_end`` is recorded."""
        tasks = [task for task in (self._task, self._preparing) if task is not None]
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self, job: _Job, approach: Approach) -> None:
        started = time.monotonic()
        through = job.projection.messages[job.length - 1].last_seq
        start = PrefireStart(
            prefire_id=uuid.uuid4().hex,
            through_seq=through,
            fingerprint=await asyncio.to_thread(fingerprint, job.projection, job.length),
            rolled=job.rolled,
        )
        self._session.append(start)
        outcome, summary = "failed", Summary("", {})
        try:
            found = ""
            if job.rebuild:
                found = await asyncio.to_thread(extraction, self._session.log, through)
            summary = await job.strategy.summarise(
                job.projection,
                job.messages,
                approach.model,
                job.room,
                instructions=None,
                extraction=found,
            )
            if summary.text:
                outcome = "ok"
                self._note_tokens = summary.sent_tokens
                self._note = _note(start, summary, prefix(job.projection, job.length))
            else:
                self._failed = True
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except ModelError as failure:
            self._failed = True
            self._log.info("No note ahead of the compaction: %s", failure.message)
        except Exception:  # Whatever failed, the conversation goes on without a note.
            self._failed = True
            self._log.exception("The note of session %s failed", self._session.id)
        finally:
            self._session.append(
                msgspec.structs.replace(
                    _ended(start, outcome, summary),
                    duration_ms=round((time.monotonic() - started) * 1000),
                )
            )
        if self._note is not None and outcome == "ok":
            self._take(self._note)

    def _take(self, note: Note) -> None:
        self._note = note
        self._preparing = asyncio.create_task(self._prepare(note))

    async def _prepare(self, note: Note) -> None:
        try:
            await self._on_note(note)
        except Exception:  # The compaction does the same work again and reports the failure then.
            self._log.exception("Session %s: nothing was prepared with the note", self._session.id)


def _note(start: PrefireStart, summary: Summary, made_of: Projection) -> Note:
    return Note(
        summary.text,
        start.through_seq,
        start.fingerprint,
        block=summary.block,
        made_of=made_of,
    )


def _ended(start: PrefireStart, outcome: str, summary: Summary) -> PrefireEnd:
    return PrefireEnd(
        prefire_id=start.prefire_id,
        outcome=outcome,
        note=summary.text,
        block=summary.block,
        usage=summary.usage,
        cost_usd=summary.cost_usd,
    )


async def _measured(approach: Approach) -> Measured:
    projection, meter = approach.projection, approach.meter
    return Measured(
        projection.messages,
        await meter.message_tokens(projection),
        await meter.overhead_tokens(projection),
        approach.tokens,
    )


def _first(approach: Approach, context: Measured) -> _Job | None:
    limits, projection = approach.limits, approach.projection
    length = prefix_length(projection.messages, context.sizes, limits.prefix_share)
    if length == 0:
        return None
    return _Job(
        projection,
        length,
        projection.messages[:length],
        _room(approach, context),
        approach.strategy,
        rolled=False,
        rebuild=rebuild_is_due(approach.compactions),
    )


def _room(approach: Approach, context: Measured) -> Room:
    limits = approach.limits
    summary = limits.summary_tokens(context.overhead)
    return Room(limits.max_output, summary, approach.meter.text_tokens)


def _rolled(note: Note, approach: Approach, context: Measured) -> _Job | None:
    limits, messages = approach.limits, approach.projection.messages
    noted = split(messages, note)
    if not _is_due(note, sum(context.sizes[noted:]), approach, context.overhead):
        return None
    # Half of the room stays verbatim, because the newest messages matter most to the next step.
    room = tail_room(limits, context.overhead, approach.meter.text_tokens(note.text))
    length = rolled_length(messages, context.sizes, room // 2)
    if length <= noted:
        return None
    return _Job(
        approach.projection,
        length,
        behind(note, messages[noted:length]),
        _room(approach, context),
        approach.strategy.for_merging(note),
        rolled=True,
        rebuild=False,
    )


def _is_due(note: Note, tail: int, approach: Approach, overhead: int) -> bool:
    """Return whether the note must be rolled forward now, with ``tail`` tokens after it."""
    return wants_rolling(
        tail,
        approach.limits.threshold - approach.tokens,
        tail_room(approach.limits, overhead, approach.meter.text_tokens(note.text)),
        approach.limits.keep_tail,
        approach.meter.fast_growth,
    )
