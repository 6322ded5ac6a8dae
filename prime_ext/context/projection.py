"""Projection of records to the context that the model is sent.

Deterministic: the same records always give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
"""Text of the ``tool_result`` for a call whose result never reached the log."""

LOST_BEGINNING = "[The first message of this conversation cannot be read: its log is damaged.]"
"""Stands for it, because the API takes no conversation that begins with a reply."""

CLEARED = [{"type": "text", "text": "[This old output was left out.]"}]
"""Approximation of the text by which a server replaces a result that it leaves out."""

THINKING = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks that are valid only after exactly the messages they were written after."""


SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
"""Types of calls that the model's server answers itself, within its reply."""


@dataclass(frozen=True)
class ProjectedMessage:
    """One message of the context, and the records that it was made from."""

    role: str
    content: list[Block]
    first_seq: int
    """First of its records. A compaction that keeps this message keeps the records from here."""
    last_seq: int
    """Last of its records."""
    usage: dict[str, Any] | None = None
    """Usage as the API reported it; assistant messages only."""
    sent_at: float | None = None
    """Time at which the request for this reply was sent, in seconds since the epoch, if known."""
    seconds: float = 0.0
    """Duration of that request."""
    cleared: frozenset[str] = frozenset()
    """Ids of the calls whose results in this message the model's server leaves out."""

    @property
    def is_summary(self) -> bool:
        """Whether it is a summary turn or a compaction block, in place of compacted messages."""
        first = self.content[0]
        return first["type"] == "compaction" or (
            first["type"] == "text" and str(first["text"]).startswith(OPEN)
        )

    @property
    def is_answer(self) -> bool:
        """Whether it holds tool results, and so must follow the message before it."""
        return self.role == "user" and any(b["type"] == "tool_result" for b in self.content)

    @cached_property
    def wire(self) -> dict[str, Any]:
        """The message in the Messages API's shape. It is shared; copy it before changing it."""
        return {"role": self.role, "content": self.content}

    @property
    def has_thinking(self) -> bool:
        """Whether it holds thinking."""
        return any(block["type"] in THINKING for block in self.content)

    @property
    def read(self) -> dict[str, Any]:
        """The message as the model reads it, without the results that its server leaves out."""
        if not self.cleared:
            return self.wire
        content = [
            {**block, "content": CLEARED} if block.get("tool_use_id") in self.cleared else block
            for block in self.content
        ]
        return {"role": self.role, "content": content}


@dataclass(frozen=True)
class Projection:
    """The context: content of the next request, before cache marks are placed."""

    provider: str
    model: str
    system: list[Block]
    tools: list[dict[str, Any]]
    messages: list[ProjectedMessage]

    def wire_messages(self) -> list[dict[str, Any]]:
        """Return all messages in the Messages API's shape, in a new list."""
        return list(self._wire)

    @cached_property
    def _wire(self) -> list[dict[str, Any]]:
        return [message.wire for message in self.messages]


def project(records: Sequence[AnyRecord], log_path: str | None = None) -> Projection:
    """Project ``records`` to the context.

    Parameters
    ----------
    records:
        ``session_start``, then all records from the first one that the last successful compaction
        keeps, in order of ``seq`` and including its ``compaction_end``. Older records are ignored.
    log_path:
        Current path of the log, which replaces the one in the summary if the session was moved.

    Returns
    -------
    Projection
        Valid by the Messages API's rules for any input: every ``tool_use`` has its
        ``tool_result`` in the next message, in the order of the calls, and no text is blank.

    Raises
    ------
    ValueError
        If ``records`` does not begin with ``session_start``.
    """
    if not records or not isinstance(records[0], SessionStart):
        raise ValueError("A session's records begin with session_start.")
    start = records[0]
    head = Projection(start.provider, start.model, start.system, start.tools, [])
    compaction = last_compaction(records)
    refused = refused_at(records if compaction is None else _behind(records, compaction))
    if compaction is None:
        messages = _begun(project_messages(records[1:], refused))
        return replace(_with_model(head, records), messages=messages)
    summary = _summary_message(compaction, log_path, with_block=refused is not None)
    if compaction.block is not None and refused is None:
        messages = project_messages(_kept(records, compaction))
        messages = _behind_block(compaction.block, messages, summary, compaction.seq)
    else:
        messages = [summary, *project_messages(_kept(records, compaction, refused), refused)]
    return replace(_after(head, records, compaction), messages=messages)


def _begun(messages: list[ProjectedMessage]) -> list[ProjectedMessage]:
    """Have the messages begin with one of the user's, also if a damaged log has lost it."""
    if not messages or messages[0].role == "user":
        return messages
    seq = messages[0].first_seq
    lost: list[Block] = [{"type": "text", "text": LOST_BEGINNING}]
    return [ProjectedMessage("user", lost, seq, seq), *messages]


def last_compaction(records: Sequence[AnyRecord]) -> CompactionEnd | None:
    """Return the last successful compaction that wrote a summary, with which the context begins."""
    for record in reversed(records):
        if isinstance(record, CompactionEnd) and record.outcome == "ok" and record.summary:
            return record
    return None


def _behind(records: Sequence[AnyRecord], compaction: CompactionEnd) -> Iterator[AnyRecord]:
    """Return the records of the context that ``compaction`` begins."""
    begin = min(compaction.kept_from_seq or compaction.seq, compaction.seq)
    return (record for record in records if record.seq >= begin)


def refused_at(records: Iterable[AnyRecord]) -> int | None:
    """Return the ``seq`` from which on context editing and compaction by the server are off.

    ``None`` if ``records`` holds no ``settings`` record that turned them off.
    """
    for record in records:
        if isinstance(record, Settings) and record.server_side is False:
            return record.seq
    return None


def _behind_block(
    block: Block, messages: list[ProjectedMessage], summary: ProjectedMessage, compacted: int
) -> list[ProjectedMessage]:
    """Return ``block``, the kept messages, the summary turn, and the messages since the compaction.

    The summary turn holds what code adds to the block. Nothing may stand between the block and the
    kept messages, or their thinking would be invalid.
    """
    since = next(
        (
            index
            for index, message in enumerate(messages)
            if message.first_seq > compacted and not message.is_answer
        ),
        len(messages),
    )
    # The `seq` of the messages must not decrease.
    code = replace(summary, first_seq=compacted, last_seq=compacted)
    first = ProjectedMessage("assistant", [block], summary.first_seq, summary.last_seq)
    return [first, *messages[:since], code, *messages[since:]]


def _kept(
    records: Sequence[AnyRecord], compaction: CompactionEnd, refused: int | None = None
) -> list[AnyRecord]:
    """Return the records of the context other than the summary, without invalid thinking.

    Thinking is valid only after the messages it was written after. For kept messages the
    compaction has replaced those; for later messages they have changed if the server's block is
    now sent as text.
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
    """Return ``record`` without its thinking blocks."""
    if not isinstance(record, AssistantMessage):
        return record
    return msgspec.structs.replace(record, content=without_thinking(record.content))


def without_thinking(content: Sequence[Block]) -> list[Block]:
    """Return ``content`` without thinking blocks, so that it can follow any other messages."""
    return [block for block in content if block["type"] not in THINKING]


def _after(head: Projection, records: Sequence[AnyRecord], compaction: CompactionEnd) -> Projection:
    """Return ``head`` with model, system prompt and tools as compactions have frozen them."""
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
    """Return ``head`` with the model chosen before the first reply.

    A choice takes effect at once until then, because nothing is cached yet.
    """
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
    """Return the summary turn; with ``with_block`` it includes the text of the server's block."""
    text = compaction.summary or ""
    if compaction.block is not None and with_block:
        text = with_body(text, str(compaction.block["content"]))
    if log_path is not None:
        text = with_log_path(text, log_path)
    # The summary replaces the records before the first kept one, so its `seq` is the one before
    # that, and the `seq` of the messages increase.
    kept_from = compaction.kept_from_seq
    seq = compaction.seq if kept_from is None else min(kept_from, compaction.seq) - 1
    return ProjectedMessage("user", [{"type": "text", "text": text}], first_seq=seq, last_seq=seq)


def project_messages(
    records: Iterable[AnyRecord], refused: int | None = None
) -> list[ProjectedMessage]:
    """Project ``records`` to messages, without a summary before them.

    Parameters
    ----------
    refused:
        ``seq`` from which on previews replace the results that the model's server had left out;
        ``None`` if the server still leaves them out.
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
    drops = [r.seq for r in records if isinstance(r, Settings) and r.drops_thinking]
    valid_from = max(drops, default=0)
    results = {r.tool_use_id: r for r in records if isinstance(r, ToolResult)}
    messages: list[ProjectedMessage] = []
    for record in records:
        if isinstance(record, UserMessage):
            content = sendable(record.content)
            if content:
                messages[-1:] = finished(messages[-1:])
                messages.append(ProjectedMessage("user", content, record.seq, record.seq))
        elif isinstance(record, AssistantMessage):
            content = sendable(record.content)
            if record.seq < valid_from or (prunes and loses_thinking(record, prunes)):
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


def finished(messages: Sequence[ProjectedMessage]) -> list[ProjectedMessage]:
    """Return ``messages`` such that a question of the user may follow.

    A reply that was paused in a call of its server's own tools may only be followed by its
    continuation. If that has not come, the call is left out.
    """
    if not messages or messages[-1].role == "user":
        return list(messages)
    last = messages[-1]
    answered = {block.get("tool_use_id") for block in last.content}
    content = [b for b in last.content if b["type"] not in SERVER_CALLS or b["id"] in answered]
    if len(content) == len(last.content):
        return list(messages)
    while content and content[-1]["type"] in THINKING:  # which may not be the end of a message
        content.pop()
    return [*messages[:-1], *([replace(last, content=content)] if content else [])]


def may_begin(messages: Sequence[ProjectedMessage], index: int) -> bool:
    """Return whether the message at ``index`` may follow other messages than those before it.

    Neither may the results of calls, nor the continuation of a reply that was paused.
    """
    message = messages[index]
    goes_on = index > 0 and message.role == messages[index - 1].role == "assistant"
    return not message.is_answer and not goes_on


def _reply(record: AssistantMessage, content: list[Block]) -> ProjectedMessage:
    seconds = record.duration_ms / 1000
    sent_at = None
    if record.ts:
        sent_at = record.time.timestamp() - seconds
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
    """Return the user message with the results of the calls in ``content``, in their order."""
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
            # The API accepts only text in a result with `is_error`. The text of a failed run with
            # images says by itself that it failed.
            if result.is_error and all(b["type"] == "text" for b in result.content):
                block["is_error"] = True
            seqs.append(result.seq)
        blocks.append(block)
    if not blocks:
        return None
    return ProjectedMessage("user", blocks, min(seqs[1:] or seqs), max(seqs))


def sendable(content: Sequence[Block]) -> list[Block]:
    """Return ``content`` in a form that the API accepts.

    Blank text is dropped, and an image that would be refused is replaced by a short text. A refused
    block would make every later request fail.
    """
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
    """Return the ``tool_use`` blocks that have no ``tool_result`` record, in order."""
    answered = {r.tool_use_id for r in records if isinstance(r, ToolResult)}
    return [
        block
        for record in records
        if isinstance(record, AssistantMessage)
        for block in record.content
        if block["type"] == "tool_use" and block["id"] not in answered
    ]
