"""Making the note before it is needed, in the background, so that nobody waits for a summary."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prime_ext.compaction.summarise import Summary, summarise
from prime_ext.context.note import Note, fingerprint, holds, prefix_length, split
from prime_ext.context.projection import Projection, last_compaction
from prime_ext.models.model import Model, ModelError
from prime_ext.session.records import AnyRecord, PrefireEnd, PrefireStart

if TYPE_CHECKING:
    from prime_ext.compaction.meter import ContextMeter
    from prime_ext.context.limits import Limits
    from prime_ext.session.session import Session


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
        self, projection: Projection, tokens: int, model: Model, limits: Limits, meter: ContextMeter
    ) -> None:
        """Start making a note if the context comes near its threshold.

        The first note covers ``limits.prefix_share`` of the context. If what came since outgrows
        the verbatim tail that may stay behind it, a new one is made that covers all that was
        answered by then.
        """
        busy = self._task is not None and not self._task.done()
        # The offline agent summarises at once: there is nothing to be ahead of.
        if busy or self._failed or tokens < limits.prefire_at or model.provider == "offline":
            return
        sizes = await meter.message_tokens(projection)
        share = limits.prefix_share
        if self._note is not None:
            if not holds(self._note, projection):
                self._note = None
            elif sum(sizes[split(projection.messages, self._note) :]) <= limits.keep_tail:
                return
            else:
                share = 1.0
        length = prefix_length(projection.messages, sizes, share)
        if length == 0 or (self._note and length <= split(projection.messages, self._note)):
            return
        self._task = asyncio.create_task(self._make(projection, length, model, limits))

    def ready(self, projection: Projection) -> Note | None:
        """The note, if it can take the prefix's place now. One that is late is given up."""
        self.cancel()
        if self._note is not None and holds(self._note, projection):
            return self._note
        return None

    def forget(self) -> None:
        """The context was compacted: the next note starts from there."""
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

    async def _make(
        self, projection: Projection, length: int, model: Model, limits: Limits
    ) -> None:
        started = time.monotonic()
        start = PrefireStart(
            prefire_id=uuid.uuid4().hex,
            through_seq=projection.messages[length - 1].last_seq,
            fingerprint=await asyncio.to_thread(fingerprint, projection, length),
        )
        self._session.append(start)
        outcome, summary = "failed", Summary("", {})
        try:
            summary = await summarise(
                projection, projection.messages[:length], model, limits, instructions=None
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
                    duration_ms=round((time.monotonic() - started) * 1000),
                )
            )
