"""Compaction: snapshot the kernel, prune the context or replace a prefix of it by a summary.

All triggers go through ``Compactor.run``. It always ends with a ``compaction_end`` record, and
never leaves the context larger than it found it.
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
"""Tokens that a compaction must take away, beside a tenth of what it replaces: the conversation
word for word is worth more than less."""

LEAST_FOR_MODEL = 4_000
"""Tokens that must be replaceable for the model's own wish to be worth a request."""

AUTOMATIC = ("threshold", "turn_end")
"""Triggers that want no more than room: what is newest stays as it is."""

End = Callable[..., CompactionEnd]


class Compactor:
    """Compacts one session.

    Parameters
    ----------
    session:
        Whose context is compacted.
    projector:
        Projects its records.
    keeper:
        Saves the kernel's variables and knows what is live.
    meter:
        Sizes of messages and of the whole context.
    prefire:
        Has the note that was made ahead, if one was.
    ledger:
        Exact details that code has kept of the records.
    on_record:
        Called with each ``compaction_start`` and ``compaction_end``, for operational events.
    on_overflow:
        Told what the model's server said of its window.
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
        """What takes the prefix's place, from when it is made."""

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

        Returns
        -------
        CompactionEnd
            Its ``outcome`` is ``ok``, ``skipped`` or ``failed``. If the task is cancelled, the
            record says ``cancelled``, the context stays as it was and the cancellation goes on. A
            summary that was made by then serves the next compaction.
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

        if not _worth_it(projection):
            return end("skipped", before, reason="There is nothing to summarise yet.")
        try:
            return await self._compact(start, projection, end, terms)
        except asyncio.CancelledError:
            spent = self._spent_in_vain(projection, terms)
            # By a person, or because the session is closed: the server stops, too.
            end("cancelled", before, reason="It was stopped before it was done.", **spent)
            raise
        except Exception as failure:  # whatever broke, the conversation goes on as it was
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
        if start.trigger == "model" and sum(sizes[:replaceable]) < LEAST_FOR_MODEL:
            return end("skipped", before, reason="There is little to summarise yet.")
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

        # Who asks for a compaction wants the conversation short, not its last part verbatim; and
        # after an overflow nothing is known of how much must go.
        keep = limits.keep_tail if start.trigger in AUTOMATIC else 0
        # A reply that the window's end has cut off goes on behind the summary, which is the user's.
        goes_on = start.trigger == "overflow" and projection.messages[-1].role == "assistant"
        body = await replacing.make(keep, limits.added_tokens(overhead), may_swap=not goes_on)
        self._made = body
        if body.path != "swap":
            # The summary may have taken its time; what is said behind it is to be true now.
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
        record = end(
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
        self._meter.forget_usage()
        self._prefire.forget()
        return record

    def _spent_in_vain(self, projection: Projection, terms: Terms) -> dict[str, Any]:
        """What a compaction without a result has taken, for its record. A summary that was made
        for it is kept as a note, whose record then says what it has cost."""
        body = self._made
        if body is None:
            return {}
        # One that a person wanted in a certain way is for nothing else.
        if body.path not in ("single_pass", "merge") or terms.instructions is not None:
            return _spent(body)
        summary = Summary(body.text, body.usage or {}, body.cost_usd, block=body.block)
        self._prefire.keep(projection, body.cut, summary, rolled=body.path == "merge")
        return {"request_tokens": body.request_tokens}

    async def _prune(
        self, start: CompactionStart, context: Measured, end: End, terms: Terms
    ) -> CompactionEnd | None:
        """Prune, if that alone suffices; ``None`` if it does not."""
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
        # From here on the context is another: nothing is awaited where it could be stopped between.
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
        record = end("ok", after, path="prune", kernel_state=state)
        self._meter.forget_usage()
        self._prefire.forget()
        return record

    async def _capture(self) -> None:
        """Save the kernel's variables; that it cannot be done does not stop a compaction."""
        self._progress("Saving the kernel's variables")
        try:
            record = await self._keeper.capture("compaction")
        except Exception as failure:  # the state library runs foreign code
            self._log.warning("Snapshot before compaction failed", exc_info=True)
            record = Snapshot(outcome="failed", trigger="compaction", reason=str(failure))
        self._session.append(record)

    async def _check(self, start: CompactionStart) -> None:
        """Hot restore: what is live is compared with the snapshot, what is gone comes back."""
        try:
            record = await self._keeper.check()
        except Exception as failure:  # the state library runs foreign code
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
        """The summary turn, and its size with what the model's server has signed."""
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
        # Both long parts were counted when they were made; what stands around them is short.
        size = count(text) + count(ledger) + count(around("", ledger=ledger[:1]))
        return around(text, ledger=ledger), block + size

    def _last_user_message(self, projection: Projection, cut: int, tokens: int) -> str | None:
        """The last thing the person wrote, in so many tokens; unless it is kept verbatim anyway."""
        kept = _kept_from(projection, cut)
        # In a long turn it may be older than the context, which begins with a summary.
        asked = self._session.log.seqs_of("user_message")
        record = self._session.log.get(asked[-1]) if asked else None
        if not isinstance(record, UserMessage) or (kept is not None and record.seq >= kept):
            return None
        where = f"record {record.seq}, which session_read gives"
        return cap_text(record.text, tokens, self._meter.text_tokens, where=where)[0]

    def _progress(self, message: str) -> None:
        self._session.publish({"type": "progress", "what": "compaction", "message": message})

    def _write(self, record: AnyRecord) -> AnyRecord:
        stored = self._session.append(record, sync=isinstance(record, CompactionEnd))
        self._on_record(stored)
        return stored


def _spent(body: Replacement) -> dict[str, Any]:
    return {
        "request_tokens": body.request_tokens,
        "usage": body.usage or {},
        "cost_usd": body.cost_usd,
    }


def _last_snapshot(session: Session) -> int | None:
    """Record of the newest snapshot that was taken, by whatever, and not deleted since."""
    for seq in reversed(session.log.seqs_of("snapshot")):
        record = session.log.get(seq)
        if not isinstance(record, Snapshot):  # written by a version that this one does not know
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
    """Whether the thinking of what is kept stays valid: only behind a block of the server's."""
    frozen = terms.frozen
    unchanged = frozen.system == projection.system and frozen.tools == projection.tools
    return body.block is not None and unchanged and keeps_thinking(projection.messages, body.cut)


def _worth_it(projection: Projection) -> bool:
    """There is a reply to summarise that no earlier summary covers."""
    return any(m.role == "assistant" and not m.is_summary for m in projection.messages)
