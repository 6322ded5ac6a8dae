"""The text of a record, as it is searched and read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from prime_ext.session.outputs import is_removed
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    Error,
    NotebookOp,
    RunEnd,
    ToolResult,
    TurnEnd,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prime_ext.session.records import Block

SEARCHABLE_KINDS = (
    "user_message",
    "assistant_message",
    "tool_result",
    "run_end",
    "notebook_op",
    "error",
)
"""Kinds of records with content. The others are bookkeeping or repeat content."""

# Calls and results of these tools are left out, so that a search does not find earlier searches.
_OWN_TOOLS = ("session_search", "session_read")
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def text_of(record: AnyRecord, output: Callable[[str], str | None]) -> str | None:
    """Return the text of a record for searching and reading; ``None`` for bookkeeping.

    Parameters
    ----------
    output:
        Returns the text of a file in ``outputs/`` by its name, or ``None`` if it cannot be read.
        Such a file holds the full text of a result that was capped.
    """
    if isinstance(record, UserMessage):
        return _joined(_block_texts(record.content)) or record.text
    if isinstance(record, AssistantMessage):
        return _joined(_block_texts(record.content)) or None
    if isinstance(record, (ToolResult, RunEnd)):
        if isinstance(record, ToolResult) and record.name in _OWN_TOOLS:
            return None
        whole = output(record.output_file) if record.output_file else None
        if whole and not is_removed(whole):
            return whole
        return _joined([*_block_texts(record.content), whole]) or None
    if isinstance(record, NotebookOp):
        sources = [str((cell or {}).get("source", "")) for cell in (record.before, record.after)]
        changed = sources[:1] if sources[0] == sources[1] else sources
        return _joined([f"{record.op} {record.cell_id} {record.status}", record.reason, *changed])
    if isinstance(record, Error):
        return _joined([f"{record.where} {record.code}".strip(), record.message, record.hint])
    return None


def _block_texts(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        if block.get("type") == "text":
            yield str(block.get("text", ""))
        elif block.get("type") == "thinking":
            yield str(block.get("thinking", ""))
        elif block.get("type") == "tool_use" and block.get("name") not in _OWN_TOOLS:
            yield str(block.get("name", ""))
            arguments = block.get("input")
            for name, value in arguments.items() if isinstance(arguments, dict) else ():
                # Strings are shown raw: in JSON the line feeds of code would be escaped.
                yield f"{name}: {value if isinstance(value, str) else _json(value)}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _joined(parts: Iterable[str | None]) -> str:
    return "\n".join(part for part in parts if part)


def bookkeeping(record: AnyRecord) -> str:
    """Return the text of a bookkeeping record for reading it by ``seq``: one line per field."""
    if isinstance(record, TurnEnd):
        return _turn_end(record)
    values = msgspec.to_builtins(record)
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else _json(value)}"
        for name, value in values.items()
        if name not in ("kind", "seq", "id", "ts")
    )


def _turn_end(record: TurnEnd) -> str:
    usage = record.usage
    read = sum(usage.get(key, 0) for key in _INPUT)
    told = [
        f"The turn ended: {record.status}.",
        f"Requests to the model: {record.requests}, in {record.duration_ms / 1000:.1f} s.",
    ]
    if usage:
        told.append(f"Tokens: {read:,} read, {usage.get('output_tokens', 0):,} written.")
    if record.cost_usd is not None:
        told.append(f"Cost: about ${record.cost_usd:.4f}.")
    if record.context_tokens is not None:
        told.append(f"Size of the context at its end: {record.context_tokens:,} tokens.")
    return "\n".join(told)
