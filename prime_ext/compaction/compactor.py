"""Compaction: snapshot the kernel, replace a prefix of the context by a summary, check the kernel.

All triggers go through ``Compactor.run``. It always ends with a ``compaction_end`` record, and
never leaves the context larger than it found it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prime_ext.compaction.summarise import summarise, summary_budget
from prime_ext.context.cut import cut_index
from prime_ext.context.digest import digest
from prime_ext.context.limits import Limits
from prime_ext.context.note import Note, split
from prime_ext.context.projection import (
    ProjectedMessage,
    Projection,
    project,
    without_thinking,
)
from prime_ext.context.summary import CLOSE, OPEN, kernel_note, summary_turn
from prime_ext.errors import PrimeError
from prime_ext.models.model import Model, ModelError, Retry
from prime_ext.session.records import (
    AnyRecord,
    CompactionEnd,
    CompactionStart,
    Error,
    Snapshot,
    UserMessage,
)

if TYPE_CHECKING:
    from prime_ext.compaction.meter import ContextMeter
    from prime_ext.compaction.prefire import Prefire
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.session import Session

CHARACTERS_PER_TOKEN = 3
"""Lower bound for English and code, to size an extraction without counting it."""


@dataclass(frozen=True)
class Frozen:
    """What a compaction freezes anew, because nothing of the old prefix stays cached."""

    provider: str
    model: str
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]


@dataclass(frozen=True)
class _Body:
    """What stands in for the compacted messages, and what it took to get it."""

    text: str
    path: str
    cut: int
    """Index of the first message that stays verbatim."""
    request_tokens: int = 0
    usage: dict[str, Any] | None = None
    reason: str | None = None


class Compactor:
    """Compacts one session.

    Parameters
    ----------
    session:
        Whose context is compacted.
    keeper:
        Saves the kernel's variables and knows what is live.
    meter:
        Sizes of messages and of the whole context.
    prefire:
        Has the note that was made ahead, if one was.
    on_record:
        Called with each ``compaction_start`` and ``compaction_end``, for operational events.
    """

    def __init__(
        self,
        session: Session,
        keeper: SnapshotKeeper,
        meter: ContextMeter,
        prefire: Prefire,
        on_record: Callable[[AnyRecord], None],
        log: logging.Logger,
    ) -> None:
        self._session = session
        self._keeper = keeper
        self._meter = meter
        self._prefire = prefire
        self._on_record = on_record
        self._log = log
        self._snapshot_seq = max(session.log.seqs_of("snapshot"), default=None)

    async def run(
        self,
        trigger: str,
        *,
        model: Model,
        limits: Limits,
        count: int,
        frozen: Frozen,
        instructions: str | None = None,
        turn: str | None = None,
        user: str | None = None,
        compaction_id: str | None = None,
    ) -> CompactionEnd:
        """Compact once.

        Parameters
        ----------
        trigger:
            ``threshold``, ``turn_end``, ``manual``, ``model`` or ``overflow``.
        model:
            Writes the summary: the one the conversation runs on, whose cache holds the prefix.
        count:
            Successful compactions so far.
        frozen:
            Model, system prompt and tools from here on.
        instructions:
            What the summary must look after.

        Returns
        -------
        CompactionEnd
            Its ``outcome`` is ``ok``, ``skipped`` or ``failed``. If the task is cancelled, the
            record says ``cancelled``, the context stays as it was and the cancellation goes on.
        """
        started = time.monotonic()
        projection = project(self._session.context_records())
        before = await self._meter.context_tokens(projection)
        start = CompactionStart(
            compaction_id=compaction_id or uuid.uuid4().hex,
            trigger=trigger,
            tokens_before=before,
            instructions=instructions,
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
                compaction_count=count + (outcome == "ok"),
                turn=turn,
                **fields,
            )
            stored = self._write(record)
            assert isinstance(stored, CompactionEnd)
            return stored

        if not _worth_it(projection):
            return end("skipped", before, reason="There is nothing to summarise yet.")
        # Who asks for a compaction wants the conversation short, not its last part verbatim; and
        # after an overflow nothing is known of how much must go.
        keep = limits.keep_tail if trigger in ("threshold", "turn_end") else 0
        try:
            return await self._compact(
                projection, before, end, model, limits, keep, frozen, instructions
            )
        except asyncio.CancelledError:
            end("cancelled", before, reason="Stopped by the user.")
            raise
        except Exception as failure:  # whatever broke, the conversation goes on as it was
            self._log.exception("Compaction of session %s failed", self._session.id)
            reason = failure.message if isinstance(failure, PrimeError) else repr(failure)
            return end("failed", before, reason=reason)

    async def _compact(
        self,
        projection: Projection,
        before: int,
        end: Callable[..., CompactionEnd],
        model: Model,
        limits: Limits,
        keep_tail: int,
        frozen: Frozen,
        instructions: str | None,
    ) -> CompactionEnd:
        await self._capture()
        note = self._prefire.ready(projection) if instructions is None else None
        sizes = await self._meter.message_tokens(projection)
        if cut_index(projection.messages, sizes, 0) == 0:
            return end("skipped", before, reason="Only the newest message is in the context.")
        overhead = await self._meter.overhead_tokens(projection)
        state = {**await self._keeper.kernel_state(), "snapshot_seq": self._snapshot_seq}
        inventory = await self._inventory()

        def turn_and_size(body: _Body) -> tuple[str, int]:
            text = self._turn(projection, body, state, inventory)
            return text, overhead + self._meter.text_tokens(text) + sum(sizes[body.cut :])

        body = await self._body(projection, sizes, keep_tail, note, model, limits, instructions)
        summary, after = turn_and_size(body)
        if after > limits.landing and body.cut < cut_index(projection.messages, sizes, 0):
            # The tail is what can still go; a question without a reply never does.
            body = await self._body(projection, sizes, 0, note, model, limits, instructions)
            summary, after = turn_and_size(body)
        if after >= before:
            room = max(0, before - overhead - sum(sizes[body.cut :])) // 2
            body = _extract(projection.messages, body.cut, room, reason=body.reason)
            summary, after = turn_and_size(body)
        if after >= before:
            return end(
                "skipped",
                before,
                reason="A summary would be as long as what it replaces.",
                request_tokens=body.request_tokens,
            )
        record = end(
            "ok",
            after,
            path=body.path,
            request_tokens=body.request_tokens,
            kernel_state=state,
            summary=summary,
            kept_from_seq=_kept_from(projection, body.cut),
            usage=body.usage or {},
            reason=body.reason,
            provider=frozen.provider,
            model=frozen.model,
            system=frozen.system if frozen.system != projection.system else None,
            tools=frozen.tools if frozen.tools != projection.tools else None,
        )
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
        stored = self._session.append(record)
        if record.outcome in ("ok", "unchanged"):
            self._snapshot_seq = stored.seq

    async def _inventory(self) -> list[dict[str, Any]] | None:
        try:
            return await self._keeper.inventory()
        except PrimeError as failure:
            self._log.info("No live inventory for the summary: %s", failure.message)
            return None

    async def _body(
        self,
        projection: Projection,
        sizes: list[int],
        keep_tail: int,
        note: Note | None,
        model: Model,
        limits: Limits,
        instructions: str | None,
    ) -> _Body:
        """What takes the prefix's place, and where the prefix ends.

        A note that is ready takes its place as it is if what came since may stay verbatim;
        otherwise the model merges the two, reading no more than them. Without a note the model
        reads the whole prefix. Where the model fails, an extraction does.
        """
        messages = projection.messages
        cut = cut_index(messages, sizes, keep_tail)
        if note is None:
            prefix, path = messages[:cut], "single_pass"
        else:
            noted = split(messages, note)
            if sum(sizes[noted:]) <= max(keep_tail, min(limits.keep_tail, limits.landing // 2)):
                return _Body(note.text, "swap", noted)
            cut = max(cut, noted)
            prefix, path = [_as_message(note), *map(_bare, messages[noted:cut])], "merge"
        self._progress("Summarising the conversation")
        try:
            summary = await summarise(
                projection,
                prefix,
                model,
                limits,
                instructions=instructions,
                on_retry=self._on_retry,
            )
        except ModelError as failure:
            self._session.append(
                Error(
                    code=failure.code,
                    message=f"The summary could not be made by the model: {failure.message}",
                    hint="It is made by extraction instead; nothing is lost.",
                    where="compaction",
                )
            )
            return _extract(prefix, cut, summary_budget(limits), reason=failure.message)
        sent = summary.sent_tokens
        if not summary.text:
            reason = "The model answered without a summary."
            return _extract(prefix, cut, summary_budget(limits), reason=reason, sent=sent)
        if model.provider == "offline":
            path = "digest"
        return _Body(summary.text, path, cut, request_tokens=sent, usage=summary.usage)

    def _on_retry(self, retry: Retry) -> None:
        self._progress(
            f"Summarising the conversation: {retry.reason}, trying again in "
            f"{retry.delay_s:.0f} s ({retry.attempt}/{retry.max_attempts})"
        )

    def _turn(
        self,
        projection: Projection,
        body: _Body,
        state: dict[str, Any],
        inventory: list[dict[str, Any]] | None,
    ) -> str:
        return summary_turn(
            body.text,
            last_user_message=self._last_user_message(projection, body.cut),
            inventory=inventory,
            kernel_note=kernel_note(state),
            log_path=str(self._session.folder / "session.jsonl"),
            first_seq=1,
            last_seq=projection.messages[body.cut - 1].last_seq,
        )

    def _last_user_message(self, projection: Projection, cut: int) -> str | None:
        """The last thing the person wrote, unless it is kept verbatim anyway."""
        kept = _kept_from(projection, cut)
        # In a long turn it may be older than the context, which begins with a summary.
        asked = self._session.log.seqs_of("user_message")
        record = self._session.log.get(asked[-1]) if asked else None
        if not isinstance(record, UserMessage) or (kept is not None and record.seq >= kept):
            return None
        return record.text

    def _progress(self, message: str) -> None:
        self._session.publish({"type": "progress", "what": "compaction", "message": message})

    def _write(self, record: AnyRecord) -> AnyRecord:
        stored = self._session.append(record, sync=isinstance(record, CompactionEnd))
        self._on_record(stored)
        return stored


def _extract(
    prefix: list[ProjectedMessage], cut: int, tokens: int, *, reason: str | None, sent: int = 0
) -> _Body:
    text = digest([m.wire() for m in prefix], max_chars=max(400, tokens * CHARACTERS_PER_TOKEN))
    return _Body(text, "digest", cut, request_tokens=sent, reason=reason)


def _as_message(note: Note) -> ProjectedMessage:
    text = f"{OPEN}\n{note.text}\n{CLOSE}"
    return ProjectedMessage("user", [{"type": "text", "text": text}], 0, note.through_seq)


def _bare(message: ProjectedMessage) -> ProjectedMessage:
    """Without thinking, which is bound to what stood before it."""
    return replace(message, content=without_thinking(message.content))


def _kept_from(projection: Projection, cut: int) -> int | None:
    messages = projection.messages
    return messages[cut].first_seq if cut < len(messages) else None


def _worth_it(projection: Projection) -> bool:
    """There is a reply to summarise that no earlier summary covers."""
    return any(message.role == "assistant" for message in projection.messages)
