"""From records to what the model is sent: the same records always give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from prime_ext.context.image_limits import refusal
from prime_ext.context.preview import loses_thinking, preview, pruned_seqs
from prime_ext.context.summary import OPEN, with_body, with_log_path
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    Block,
    CompactionEnd,
    Prune,
    SessionStart,
    Settings,
    ToolResult,
    UserMessage,
)

LOST_RESULT = (
    "No result was recorded: the call was cut off before it ended. What it may have done is "
    "unknown; look before you do it again."
)
"""What a ``tool_use`` is answered with if its result never reached the log."""

CLEARED = [{"type": "text", "text": "[This old output was left out.]"}]
"""About what a server says in place of a result that it leaves out."""

THINKING = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks that are bound to what stands before them."""


@dataclass(frozen=True)
class ProjectedMessage:
    """One message of the context, and the records it stands for."""

    role: str
    content: list[Block]
    first_seq: int
    """First record in it; a compaction that keeps this message keeps from here."""
    last_seq: int
    usage: dict[str, Any] | None = None
    """What the API reported with it, on assistant messages."""
    sent_at: float | None = None
    """When the request that it answers was sent, in seconds since the epoch, if that is known."""
    seconds: float = 0.0
    """How long that request took."""
    cleared: frozenset[str] = frozenset()
    """Ids of the calls whose results the model's server leaves out of it."""

    @property
    def is_summary(self) -> bool:
        """Whether it stands for what a compaction has replaced, or is code's part of that."""
        first = self.content[0]
        return first["type"] == "compaction" or (
            first["type"] == "text" and str(first["text"]).startswith(OPEN)
        )

    @property
    def is_answer(self) -> bool:
        """Whether it holds the results of calls, and so belongs to the message before it."""
        return self.role == "user" and any(b["type"] == "tool_result" for b in self.content)

    @cached_property
    def wire(self) -> dict[str, Any]:
        """The message in the Messages API's shape. It is shared: copy it before a change."""
        return {"role": self.role, "content": self.content}

    @property
    def read(self) -> dict[str, Any]:
        """The message as the model reads it."""
        if not self.cleared:
            return self.wire
        content = [
            {**block, "content": CLEARED} if block.get("tool_use_id") in self.cleared else block
            for block in self.content
        ]
        return {"role": self.role, "content": content}


@dataclass(frozen=True)
class Projection:
    """The context: what the next request holds before cache marks are placed."""

    provider: str
    model: str
    system: list[Block]
    tools: list[dict[str, Any]]
    messages: list[ProjectedMessage]

    def wire_messages(self) -> list[dict[str, Any]]:
        """All messages in the Messages API's shape, in a list of the caller's own."""
        return list(self._wire)

    @cached_property
    def _wire(self) -> list[dict[str, Any]]:
        return [message.wire for message in self.messages]


def project(records: Sequence[AnyRecord], log_path: str | None = None) -> Projection:
    """Project ``records`` to the context.

    Parameters
    ----------
    records:
        ``session_start`` first, then the records since the one that the last successful
        compaction keeps from, in order of ``seq``; that compaction's end among them. Older
        records may be present, they are left out.
    log_path:
        Where the log is now; a summary that was written elsewhere names the place of then.

    Returns
    -------
    Projection
        Valid by the Messages API's rules for any input: every ``tool_use`` has its
        ``tool_result`` in the message right behind it, in the order of the calls; no blank text.

    Raises
    ------
    ValueError
        ``records`` does not begin with ``session_start``.
    """
    if not records or not isinstance(records[0], SessionStart):
        raise ValueError("A session's records begin with session_start.")
    start = records[0]
    head = Projection(start.provider, start.model, start.system, start.tools, [])
    compaction = last_compaction(records)
    refused = refused_at(records if compaction is None else _behind(records, compaction))
    if compaction is None:
        messages = project_messages(records[1:], refused)
        return replace(_with_model(head, records), messages=messages)
    summary = _summary_message(compaction, log_path, with_block=refused is not None)
    if compaction.block is not None and refused is None:
        messages = project_messages(_kept(records, compaction))
        messages = _behind_block(compaction.block, messages, summary, compaction.seq)
    else:
        messages = [summary, *project_messages(_kept(records, compaction, refused), refused)]
    return replace(_after(head, records, compaction), messages=messages)


def last_compaction(records: Sequence[AnyRecord]) -> CompactionEnd | None:
    """The compaction the context stands on: the last that wrote a summary."""
    for record in reversed(records):
        if isinstance(record, CompactionEnd) and record.outcome == "ok" and record.summary:
            return record
    return None


def _behind(records: Sequence[AnyRecord], compaction: CompactionEnd) -> Iterator[AnyRecord]:
    """The records that the context consists of."""
    begin = min(compaction.kept_from_seq or compaction.seq, compaction.seq)
    return (record for record in records if record.seq >= begin)


def refused_at(records: Iterable[AnyRecord]) -> int | None:
    """The record from which on the model's server is asked for nothing but replies."""
    for record in records:
        if isinstance(record, Settings) and record.server_side is False:
            return record.seq
    return None


def _behind_block(
    block: Block, messages: list[ProjectedMessage], summary: ProjectedMessage, compacted: int
) -> list[ProjectedMessage]:
    """``block``, what was kept, code's part of the summary, and what came since.

    Between the block and what was kept there must be nothing, or its thinking would not be valid.
    """
    since = next(
        (
            index
            for index, message in enumerate(messages)
            if message.first_seq > compacted and not message.is_answer
        ),
        len(messages),
    )
    # The numbers of the messages go up.
    code = replace(summary, first_seq=compacted, last_seq=compacted)
    first = ProjectedMessage("assistant", [block], summary.first_seq, summary.last_seq)
    return [first, *messages[:since], code, *messages[since:]]


def _kept(
    records: Sequence[AnyRecord], compaction: CompactionEnd, refused: int | None = None
) -> list[AnyRecord]:
    """What stands in the context beside the summary.

    Thinking is bound to what stood before it. That has been replaced for what was kept; for what
    came since, if the summary is not sent any more as it was then.
    """
    kept_from = compaction.kept_from_seq
    bound = compaction.seq
    if compaction.keeps_thinking and refused is None:
        bound = 0
    elif compaction.block is not None and refused is not None:
        bound = max(bound, refused)
    kept: list[AnyRecord] = []
    for record in records[1:]:
        if record.seq > compaction.seq or (kept_from is not None and record.seq >= kept_from):
            kept.append(record if record.seq > bound else _without_thinking(record))
    return kept


def _without_thinking(record: AnyRecord) -> AnyRecord:
    """Thinking is bound to what stood before it, and that has just been replaced."""
    if not isinstance(record, AssistantMessage):
        return record
    return msgspec.structs.replace(record, content=without_thinking(record.content))


def without_thinking(content: Sequence[Block]) -> list[Block]:
    """``content`` as it can be sent behind another beginning than it was written behind."""
    return [block for block in content if block["type"] not in THINKING]


def _after(head: Projection, records: Sequence[AnyRecord], compaction: CompactionEnd) -> Projection:
    """Model, system prompt and tools as the compaction froze them anew."""
    frozen = head
    for record in records:
        if record.seq > compaction.seq:
            break
        if isinstance(record, CompactionEnd) and record.outcome == "ok":
            frozen = replace(
                frozen,
                provider=record.provider or frozen.provider,
                model=record.model or frozen.model,
                system=record.system if record.system is not None else frozen.system,
                tools=record.tools if record.tools is not None else frozen.tools,
            )
    return frozen


def _with_model(head: Projection, records: Sequence[AnyRecord]) -> Projection:
    """A model chosen before the first reply counts at once: nothing is cached yet."""
    for record in records:
        if isinstance(record, AssistantMessage):
            break
        if isinstance(record, Settings):
            head = replace(
                head,
                provider=record.provider or head.provider,
                model=record.model or head.model,
            )
    return head


def _summary_message(
    compaction: CompactionEnd, log_path: str | None, *, with_block: bool
) -> ProjectedMessage:
    """The summary turn; ``with_block`` has it say what the server's block says."""
    text = compaction.summary or ""
    if compaction.block is not None and with_block:
        text = with_body(text, str(compaction.block["content"]))
    if log_path is not None:
        text = with_log_path(text, log_path)
    # It stands for what is in front of the first record that was kept, not for its own place:
    # the numbers of the messages go up from here.
    kept_from = compaction.kept_from_seq
    seq = compaction.seq if kept_from is None else min(kept_from, compaction.seq) - 1
    return ProjectedMessage("user", [{"type": "text", "text": text}], first_seq=seq, last_seq=seq)


def project_messages(
    records: Iterable[AnyRecord], refused: int | None = None
) -> list[ProjectedMessage]:
    """The messages that ``records`` stand for, without a summary in front of them.

    Parameters
    ----------
    refused:
        The record from which on previews stand for what the model's server had left out.
    """
    records = list(records)
    prunes = [r for r in records if isinstance(r, Prune)]
    left_out: frozenset[int] = frozenset()
    if refused is None:
        left_out = pruned_seqs(p for p in prunes if p.by_server)
        prunes = [p for p in prunes if not p.by_server]
    else:
        prunes = [
            msgspec.structs.replace(p, seq=max(p.seq, refused)) if p.by_server else p
            for p in prunes
        ]
    pruned = pruned_seqs(prunes)
    results = {r.tool_use_id: r for r in records if isinstance(r, ToolResult)}
    messages: list[ProjectedMessage] = []
    for record in records:
        if isinstance(record, UserMessage):
            content = sendable(record.content)
            if content:
                messages.append(ProjectedMessage("user", content, record.seq, record.seq))
        elif isinstance(record, AssistantMessage):
            content = sendable(record.content)
            if prunes and loses_thinking(record, prunes):
                content = without_thinking(content)
            if not content:
                continue
            messages.append(_reply(record, content))
            answer = _answer(content, results, pruned, record.seq)
            if answer is not None:
                ids = [b["tool_use_id"] for b in answer.content] if left_out else []
                cleared = frozenset(i for i in ids if i in results and results[i].seq in left_out)
                messages.append(replace(answer, cleared=cleared) if cleared else answer)
    return messages


def _reply(record: AssistantMessage, content: list[Block]) -> ProjectedMessage:
    seconds = record.duration_ms / 1000
    sent_at = None
    if record.ts:
        # Python 3.10 does not know the Z.
        ended = datetime.fromisoformat(record.ts.replace("Z", "+00:00"))
        sent_at = ended.timestamp() - seconds
    return ProjectedMessage(
        "assistant",
        content,
        record.seq,
        record.seq,
        record.usage or None,
        sent_at=sent_at,
        seconds=seconds,
    )


def _answer(
    content: list[Block], results: dict[str, ToolResult], pruned: frozenset[int], seq: int
) -> ProjectedMessage | None:
    """The user message that answers the calls in ``content``, in their order."""
    blocks: list[Block] = []
    seqs = [seq]
    for call in content:
        if call["type"] != "tool_use":
            continue
        result = results.get(call["id"])
        block: Block = {"type": "tool_result", "tool_use_id": call["id"]}
        if result is None:
            block["content"] = [{"type": "text", "text": LOST_RESULT}]
            block["is_error"] = True
        else:
            body = preview(result) if result.seq in pruned else sendable(result.content)
            block["content"] = body or [{"type": "text", "text": "(no output)"}]
            # The API takes nothing but text in an error. A run that drew before it failed says so
            # in its text.
            if result.is_error and all(b["type"] == "text" for b in result.content):
                block["is_error"] = True
            seqs.append(result.seq)
        blocks.append(block)
    if not blocks:
        return None
    return ProjectedMessage("user", blocks, min(seqs[1:] or seqs), max(seqs))


def sendable(content: Sequence[Block]) -> list[Block]:
    """``content`` as the API takes it: without blank text, and with a note where an image would
    be refused. One refused block would make every later request fail."""
    blocks: list[Block] = []
    for block in content:
        if block.get("type") == "image":
            reason = refusal(block)
            blocks.append(block if reason is None else _note(reason))
        elif block.get("type") != "text" or str(block.get("text", "")).strip():
            blocks.append(block)
    return blocks


def _note(reason: str) -> Block:
    return {"type": "text", "text": f"[An image is left out: {reason}.]"}


def open_calls(records: Sequence[AnyRecord]) -> list[Block]:
    """``tool_use`` blocks that no ``tool_result`` record answers, in order."""
    answered = {r.tool_use_id for r in records if isinstance(r, ToolResult)}
    return [
        block
        for record in records
        if isinstance(record, AssistantMessage)
        for block in record.content
        if block["type"] == "tool_use" and block["id"] not in answered
    ]
