"""Making the note before it is needed, in the background, so that nobody waits for a summary."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.compaction.extraction import extraction, rebuild_is_due
from prime_ext.compaction.summarise import Summary, summarise
from prime_ext.context.note import (
    Note,
    as_message,
    bare,
    fingerprint,
    holds,
    prefix_length,
    rolled_length,
    split,
)
from prime_ext.context.plan import (
    Measured,
    choose_prune,
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


@dataclass(frozen=True)
class _Job:
    """A note that is to be made."""

    projection: Projection
    length: int
    """How many of the oldest messages it covers."""
    messages: Sequence[ProjectedMessage]
    """What the model reads for it: those, or the note before and what came since."""
    max_tokens: int
    """Of the note."""
    rolled: bool
    rebuild: bool


class Prefire:
    """The note of one session: at most one is being made, at most one is ready.

    A note is used if it is there when the threshold is crossed and the context still begins with
    what it was made from. It is never waited for.
    """

    def __init__(self, session: Session, log: logging.Logger) -> None:
        self._session = session
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._note: Note | None = None
        self._failed = False
        """A note could not be made since the last compaction; a single pass will do."""

    def resume(self, records: Sequence[AnyRecord]) -> None:
        """Take up a note that was ready when the server stopped."""
        compaction = last_compaction(records)
        started: PrefireStart | None = None
        for record in records:
            if compaction is not None and record.seq <= compaction.seq:
                continue
            if isinstance(record, PrefireStart):
                started = record
            elif isinstance(record, PrefireEnd) and record.outcome == "ok" and started:
                self._note = Note(record.note, started.through_seq, started.fingerprint)

    async def consider(
        self,
        projection: Projection,
        tokens: int,
        model: Model,
        limits: Limits,
        rates: Rates,
        meter: ContextMeter,
        compactions: int,
    ) -> None:
        """Start making a note, or rolling it forward, if the context comes near its threshold.

        The first note covers ``limits.prefix_share`` of the context; it is not made if pruning
        alone will do. When what came since nears the tail that may stay verbatim behind it, the
        note is rolled forward: the model reads the note and what came since, nothing else.

        Parameters
        ----------
        tokens:
            Size of the context.
        compactions:
            Successful ones so far.
        """
        busy = self._task is not None and not self._task.done()
        # The offline agent summarises at once: there is nothing to be ahead of.
        if busy or self._failed or model.provider == "offline":
            return
        if tokens < prefire_point(limits, meter.fast_growth):
            return
        if self._note is not None and not holds(self._note, projection):
            self._note = None
        context = Measured(
            projection.messages,
            await meter.message_tokens(projection),
            await meter.overhead_tokens(projection),
            tokens,
        )
        if self._note is not None:
            job = self._rolled(self._note, projection, context, limits, meter)
        elif await self._prune_will_do(context, limits, rates, meter):
            return
        else:
            job = _first(projection, context, limits, rebuild_is_due(compactions))
        if job is not None:
            self._task = asyncio.create_task(self._make(job, model))

    def _rolled(
        self,
        note: Note,
        projection: Projection,
        context: Measured,
        limits: Limits,
        meter: ContextMeter,
    ) -> _Job | None:
        sizes = context.sizes
        noted = split(projection.messages, note)
        room = tail_room(limits, context.overhead, meter.text_tokens(note.text))
        tail = sum(sizes[noted:])
        if not wants_rolling(tail, room, meter.fast_growth):
            return None
        # Some of the tail stays verbatim: the newest part is what matters most to the next step.
        length = rolled_length(projection.messages, sizes, room // 2)
        if length <= noted:
            return None
        since = map(bare, projection.messages[noted:length])
        return _Job(
            projection,
            length,
            [as_message(note), *since],
            limits.summary_tokens(context.overhead),
            rolled=True,
            rebuild=False,
        )

    async def _prune_will_do(
        self, context: Measured, limits: Limits, rates: Rates, meter: ContextMeter
    ) -> bool:
        records = self._session.context_records()
        found = await asyncio.to_thread(
            choose_prune,
            context,
            records,
            limits,
            rates,
            meter.some_tokens,
        )
        return found is not None

    def ready(self, projection: Projection) -> Note | None:
        """The note, if it can take the prefix's place now. One that is late is given up."""
        self.cancel()
        if self._note is not None and holds(self._note, projection):
            return self._note
        return None

    def forget(self) -> None:
        """The context was rewritten: the next note starts from there."""
        self.cancel()
        self._note = None
        self._failed = False

    def cancel(self) -> None:
        """Give up a note that is being made."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Give up, and wait until that is recorded."""
        task = self._task
        self.cancel()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _make(self, job: _Job, model: Model) -> None:
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
            summary = await summarise(
                job.projection,
                job.messages,
                model,
                job.max_tokens,
                instructions=None,
                extraction=found,
            )
            if summary.text:
                outcome = "ok"
                self._note = Note(summary.text, start.through_seq, start.fingerprint)
            else:
                self._failed = True
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except ModelError as failure:
            self._failed = True
            self._log.info("No note ahead of the compaction: %s", failure.message)
        finally:
            self._session.append(
                PrefireEnd(
                    prefire_id=start.prefire_id,
                    outcome=outcome,
                    note=summary.text,
                    usage=summary.usage,
                    cost_usd=summary.cost_usd,
                    duration_ms=round((time.monotonic() - started) * 1000),
                )
            )


def _first(projection: Projection, context: Measured, limits: Limits, rebuild: bool) -> _Job | None:
    length = prefix_length(projection.messages, context.sizes, limits.prefix_share)
    if length == 0:
        return None
    return _Job(
        projection,
        length,
        projection.messages[:length],
        limits.summary_tokens(context.overhead),
        rolled=False,
        rebuild=rebuild,
    )
