"""Compaction: snapshot the kernel, then prune the context or replace a prefix by a summary.

All triggers go through ``Compactor.run``, which always ends with a ``compaction_end`` record and
never leaves the context larger than before.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.compaction.replacement import Replacement, Replacing, Terms
from prime_ext.compaction.summarise import Summary
from prime_ext.context.cap import cap_text
from prime_ext.context.cut import cut_index
from prime_ext.context.plan import Measured, choose_prune
from prime_ext.context.projection import Projection
from prime_ext.context.server_side import keeps_thinking
from prime_ext.context.summary import SUMMARY_ABOVE, Inventory, kernel_note, summary_turn
from prime_ext.context.unverified import flags
from prime_ext.errors import PrimeError
from prime_ext.models.model import ContextOverflow
from prime_ext.session.records import (
    NO_KERNEL,
    AnyRecord,
    CompactionEnd,
    CompactionStart,
    Prune,
    Restore,
    Snapshot,
    UserMessage,
)

if TYPE_CHECKING:
    from prime_ext.compaction.ledger_file import LedgerFile
    from prime_ext.compaction.meter import ContextMeter
    from prime_ext.compaction.prefire import Prefire
    from prime_ext.context.limits import Limits
    from prime_ext.context.projector import Projector
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.session import Session

LEAST_GAIN = 200
"""Minimum tokens that a compaction must free, and at least a tenth of what it replaces. For less
than that, the verbatim conversation is worth more."""

LEAST_FOR_MODEL = 4_000
"""Minimum replaceable tokens for a compaction that the model asked for; with fewer the request for
a summary is not worth its cost."""

AUTOMATIC = ("threshold", "turn_end")
"""Triggers that only need room, so that the newest messages are kept verbatim."""

End = Callable[..., CompactionEnd]


class Compactor:
    """Runs one compaction of a session.

    Parameters
    ----------
    session:
        Session whose context is compacted.
    projector:
        Projects the session's records to the context.
    keeper:
        Takes snapshots of the kernel's variables and lists the live ones.
    meter:
        Measures messages and the whole context.
    prefire:
        Provides the prefired note, if there is one.
    ledger:
        Provides the ledger for the summary turn.
    on_record:
        Called with each ``compaction_start`` and ``compaction_end``, for operational events.
    on_overflow:
        Called if the model's server refuses a request as too long.
    """

    def __init__(
        self,
        session: Session,
        projector: Projector,
        keeper: SnapshotKeeper,
        meter: ContextMeter,
        prefire: Prefire,
        ledger: LedgerFile,
        on_record: Callable[[AnyRecord], None],
        on_overflow: Callable[[ContextOverflow], None],
        log: logging.Logger,
    ) -> None:
        self._session = session
        self._projector = projector
        self._keeper = keeper
        self._meter = meter
        self._prefire = prefire
        self._ledger = ledger
        self._on_record = on_record
        self._on_overflow = on_overflow
        self._log = log
        self._made: Replacement | None = None
        """The replacement, once it has been made."""
        self.has_rewritten = False
        """Whether the records say that the context is smaller now."""

    async def run(
        self,
        trigger: str,
        terms: Terms,
        *,
        turn: str | None = None,
        user: str | None = None,
        compaction_id: str | None = None,
    ) -> CompactionEnd:
        """Compact once.

        Parameters
        ----------
        trigger:
            ``threshold``, ``turn_end``, ``manual``, ``model`` or ``overflow``.

        terms:
            Settings of this compaction.
        turn, user:
            Turn that the compaction belongs to, and the user who asked for it, if any.
        compaction_id:
            Id of the compaction; a new one by default.

        Returns
        -------
        CompactionEnd
            The record, whose ``outcome`` is ``ok``, ``skipped`` or ``failed``.

        Raises
        ------
        asyncio.CancelledError
            If the task is cancelled. A record with the outcome ``cancelled`` is written first, and
            the context stays unchanged. A summary that is already complete is kept as the note for
            the next compaction.
        """
        started = time.monotonic()
        projection = self._projector.now()
        before = await self._meter.context_tokens(projection)
        start = CompactionStart(
            compaction_id=compaction_id or uuid.uuid4().hex,
            trigger=trigger,
            tokens_before=before,
            instructions=terms.instructions,
            turn=turn,
            user=user,
        )
        self._write(start)

        def end(outcome: str, after: int, **fields: Any) -> CompactionEnd:
            record = CompactionEnd(
                compaction_id=start.compaction_id,
                outcome=outcome,
                trigger=trigger,
                tokens_before=before,
                tokens_after=after,
                wait_ms=round((time.monotonic() - started) * 1000),
                compaction_count=terms.compactions + (outcome == "ok"),
                turn=turn,
                **fields,
            )
            stored = self._write(record)
            assert isinstance(stored, CompactionEnd)
            return stored

        if not _has_news(projection):
            return end("skipped", before, reason="There is nothing to summarise yet.")
        try:
            return await self._compact(start, projection, end, terms)
        except asyncio.CancelledError:
            spent = self._spent_in_vain(projection, terms)
            # By the user, or because the session is closed or the server stops.
            end("cancelled", before, reason="It was stopped before it finished.", **spent)
            raise
        except Exception as failure:  # Whatever failed, the conversation goes on unchanged.
            if self.has_rewritten:  # The disk is full, or was not synced: the turn reports that.
                raise
            self._log.exception("Compaction of session %s failed", self._session.id)
            reason = failure.message if isinstance(failure, PrimeError) else repr(failure)
            return end("failed", before, reason=reason, **self._spent_in_vain(projection, terms))

    async def _compact(
        self, start: CompactionStart, projection: Projection, end: End, terms: Terms
    ) -> CompactionEnd:
        before, limits = start.tokens_before, terms.limits
        await self._capture()
        note = await self._prefire.ready(projection) if terms.instructions is None else None
        if note is not None and not terms.strategy.makes_blocks:
            note = replace(note, block=None)
        sizes = await self._meter.message_tokens(projection)
        overhead = await self._meter.overhead_tokens(projection)
        if note is None and start.trigger in AUTOMATIC:
            context = Measured(projection.messages, sizes, overhead, before)
            record = await self._prune(start, context, end, terms)
            if record is not None:
                return record
        replaceable = cut_index(projection.messages, sizes, 0)
        if replaceable == 0:
            return end("skipped", before, reason="Only the newest message is in the context.")
        enough = LEAST_FOR_MODEL if start.trigger == "model" else LEAST_GAIN
        if sum(sizes[:replaceable]) < enough:
            return end("skipped", before, reason="There is too little to summarise yet.")
        replacing = Replacing(
            self._session,
            projection,
            sizes,
            overhead,
            note,
            terms,
            count=self._meter.text_tokens,
            progress=self._progress,
            on_overflow=self._on_overflow,
            log=self._log,
        )

        async def turn_and_size(body: Replacement) -> tuple[str, int]:
            text, tokens = await self._turn(projection, body, state, inventory, limits, overhead)
            return text, overhead + tokens + sum(sizes[body.cut :])

        if terms.instructions is not None:
            self._prefire.cancel()  # It would be paid for, and then be of no use.
        # A compaction on request should make the conversation short, so no tail is kept. After an
        # overflow it is not known how much must be removed.
        keep = limits.keep_tail if start.trigger in AUTOMATIC else 0
        # The model must continue a reply that was cut off at the end of the window, so the context
        # must end with the summary turn, which has the role "user".
        goes_on = start.trigger == "overflow" and projection.messages[-1].role == "assistant"
        body = await replacing.make(keep, limits.added_tokens(overhead), may_swap=not goes_on)
        self._made = body
        if body.path != "swap":
            # Making the summary may have taken long, so the kernel is compared with its snapshot
            # now, before the summary turn describes its state.
            await self._check(start)
        state = await self._kernel_state()
        inventory = None if state.get("reason") == NO_KERNEL else await self._inventory()
        summary, after = await turn_and_size(body)
        least = max(LEAST_GAIN, sum(sizes[: body.cut]) // 10)
        if before - after < least:
            room = max(0, before - overhead - sum(sizes[body.cut :])) // 2
            prefix = projection.messages[: body.cut]
            body = self._made = replacing.extracted(prefix, body.cut, room, body)
            summary, after = await turn_and_size(body)
        if before - after < least:
            return end(
                "skipped",
                before,
                reason="A summary would be about as long as what it replaces.",
                **_spent(body),
            )
        return end(
            "ok",
            after,
            path=body.path,
            kernel_state=state,
            summary=summary,
            kept_from_seq=_kept_from(projection, body.cut),
            block=body.block,
            keeps_thinking=_keeps_thinking(projection, body, terms),
            run_seq=self._session.going_run.seq if self._session.going_run else None,
            **_spent(body),
            reason=body.reason,
            provider=terms.frozen.provider,
            model=terms.frozen.model,
            system=terms.frozen.system if terms.frozen.system != projection.system else None,
            tools=terms.frozen.tools if terms.frozen.tools != projection.tools else None,
        )

    def _spent_in_vain(self, projection: Projection, terms: Terms) -> dict[str, Any]:
        """Return the cost of a compaction that was cancelled or failed, as fields of its record.

        A summary that is complete is kept as the note, and its cost is then part of that record.
        """
        body = self._made
        if body is None:
            return {}
        # A summary made with instructions is not used for another compaction.
        if body.path not in ("single_pass", "merge") or terms.instructions is not None:
            return _spent(body)
        summary = Summary(body.text, body.usage or {}, body.cost_usd, block=body.block)
        self._prefire.keep(projection, body.cut, summary, rolled=body.path == "merge")
        return {"request_tokens": body.request_tokens}

    async def _prune(
        self, start: CompactionStart, context: Measured, end: End, terms: Terms
    ) -> CompactionEnd | None:
        """Prune if that alone suffices; return ``None`` if it does not."""
        records = self._session.context_records()
        chosen = await asyncio.to_thread(
            choose_prune,
            context,
            records,
            terms.limits,
            terms.rates,
            self._meter.some_tokens,
            terms.strategy.prune,
        )
        if chosen is None:
            return None
        pruning, after = chosen
        state = await self._kernel_state()
        # The `prune` record changes the context, so from here on nothing is awaited: the task must
        # not be cancelled before `compaction_end` is written. If that cannot be written,
        # `missing_records` makes up for it.
        self._session.append(
            Prune(
                compaction_id=start.compaction_id,
                pruned=pruning.seqs,
                tokens_before=context.total,
                tokens_after=after,
                by_server=pruning.by_server,
                turn=start.turn,
            )
        )
        self._rewritten()
        return end("ok", after, path="prune", kernel_state=state)

    async def _capture(self) -> None:
        """Take a snapshot of the kernel's variables; a failure does not stop the compaction."""
        self._progress("Saving the kernel's variables")
        try:
            record = await self._keeper.capture("compaction")
        except Exception as failure:  # Saving runs code of the user's objects.
            self._log.warning("Snapshot before compaction failed", exc_info=True)
            record = Snapshot(outcome="failed", trigger="compaction", reason=str(failure))
        self._session.append(record)

    async def _check(self, start: CompactionStart) -> None:
        """Hot restore: compare the live variables with the snapshot and restore missing ones."""
        try:
            record = await self._keeper.check()
        except Exception as failure:  # Restoring runs code of the user's objects.
            self._log.warning("Comparing the kernel with its snapshot failed", exc_info=True)
            record = Restore(
                outcome="failed", mode="hot", trigger="compaction", reason=str(failure)
            )
        self._session.append(msgspec.structs.replace(record, turn=start.turn))

    async def _kernel_state(self) -> dict[str, Any]:
        state = await self._keeper.kernel_state()
        return {**state, "snapshot_seq": _last_snapshot(self._session)}

    async def _inventory(self) -> Inventory | None:
        try:
            return Inventory(await self._keeper.inventory(), datetime.now(timezone.utc))
        except PrimeError as failure:
            self._log.info("No live inventory for the summary: %s", failure.message)
            return None

    async def _turn(
        self,
        projection: Projection,
        body: Replacement,
        state: dict[str, Any],
        inventory: Inventory | None,
        limits: Limits,
        overhead: int,
    ) -> tuple[str, int]:
        """Return the summary turn, and its size in tokens including the server's block, if any."""
        through = projection.messages[body.cut - 1].last_seq
        count = self._meter.text_tokens
        ledger = await self._ledger.text(through, limits.ledger_tokens(overhead), count)
        text, block = body.text, 0
        if body.block is not None:
            text = "\n\n".join(filter(None, [SUMMARY_ABOVE, flags(text)]))
            block = count(str(body.block["content"]))
        around = partial(
            summary_turn,
            last_user_message=self._last_user_message(
                projection, body.cut, limits.last_message_tokens(overhead)
            ),
            inventory=inventory,
            kernel_note=kernel_note(state, listed=inventory is not None),
            log_path=str(self._session.folder / "session.jsonl"),
            first_seq=1,
            last_seq=through,
        )
        # The sizes of both long parts are cached; only the short text around them is counted.
        size = count(text) + count(ledger) + count(around("", ledger=ledger[:1]))
        return around(text, ledger=ledger), block + size

    def _last_user_message(self, projection: Projection, cut: int, tokens: int) -> str | None:
        """Return the user's last message, cut to ``tokens``; ``None`` if it is kept verbatim."""
        kept = _kept_from(projection, cut)
        # In a long turn the message may be older than the context, so it is read from the log.
        asked = self._session.log.seqs_of("user_message")
        record = self._session.log.get(asked[-1]) if asked else None
        if not isinstance(record, UserMessage) or (kept is not None and record.seq >= kept):
            return None
        where = f"record {record.seq}, which session_read gives"
        return cap_text(record.words, tokens, self._meter.text_tokens, where=where)[0]

    def _progress(self, message: str) -> None:
        self._session.publish({"type": "progress", "what": "compaction", "message": message})

    def _write(self, record: AnyRecord) -> AnyRecord:
        stored = self._session.append(record)
        if isinstance(stored, CompactionEnd) and stored.outcome == "ok":
            self._rewritten()
        self._on_record(stored)
        if isinstance(stored, CompactionEnd):
            self._session.sync()
        return stored

    def _rewritten(self) -> None:
        """Forget what was known of the context before a record has rewritten it."""
        self.has_rewritten = True
        self._meter.forget_usage()
        self._prefire.forget()


def _spent(body: Replacement) -> dict[str, Any]:
    return {
        "request_tokens": body.request_tokens,
        "usage": body.usage or {},
        "cost_usd": body.cost_usd,
    }


def _last_snapshot(session: Session) -> int | None:
    """Return the ``seq`` of the newest successful snapshot; ``None`` if all have been removed."""
    for seq in reversed(session.log.seqs_of("snapshot")):
        record = session.log.get(seq)
        if not isinstance(record, Snapshot):  # Written by another version, and not readable here.
            continue
        if record.outcome in ("ok", "unchanged"):
            return seq
        if record.outcome == "removed":
            return None
    return None


def _kept_from(projection: Projection, cut: int) -> int | None:
    messages = projection.messages
    return messages[cut].first_seq if cut < len(messages) else None


def _keeps_thinking(projection: Projection, body: Replacement, terms: Terms) -> bool:
    """Return whether the thinking in the kept messages stays valid.

    It does only after a block of the server, and if system prompt and tools are unchanged.
    """
    frozen = terms.frozen
    unchanged = frozen.system == projection.system and frozen.tools == projection.tools
    return body.block is not None and unchanged and keeps_thinking(projection.messages, body.cut)


def _has_news(projection: Projection) -> bool:
    """Return whether a message that may be replaced is covered by no earlier summary.

    It need not be a reply: a question that is too long for the model never gets one.
    """
    messages = projection.messages
    return any(not m.is_summary for m in messages[: cut_index(messages, [1] * len(messages), 0)])
