"""Context editing and compaction by the model's server, as decisions without I/O.

Whether the server supports either is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from prime_ext.context.preview import is_prunable
from prime_ext.context.projection import ProjectedMessage
from prime_ext.context.prune import Pruning
from prime_ext.session.records import AnyRecord, ToolResult

CLEAR_TOOL_USES = "clear_tool_uses_20250919"


def edits(messages: Sequence[ProjectedMessage]) -> list[dict[str, Any]]:
    """Return the context edits that a request with ``messages`` asks for.

    The server does not know our records, so the edit says how many of the newest calls keep their
    results. That number grows with each call, so the same results are left out in every request
    and the prompt cache stays valid.
    """
    if not is_edited(messages):
        return []
    cleared = sum(len(message.cleared) for message in messages)
    calls = sum(block["type"] == "tool_use" for message in messages for block in message.content)
    kept = {"type": "tool_uses", "value": max(1, calls - cleared)}
    return [{"type": CLEAR_TOOL_USES, "trigger": kept, "keep": kept}]


def is_edited(messages: Sequence[ProjectedMessage]) -> bool:
    """Return whether results are left out, which always includes the oldest ones."""
    oldest = next((message for message in messages if message.is_answer), None)
    return oldest is not None and bool(oldest.cleared)


def was_edited(asked: Sequence[dict[str, Any]], applied: Sequence[dict[str, Any]]) -> bool:
    """Return whether the server reports that it applied the edits, if any were asked for."""
    done = sum(
        edit.get("cleared_tool_uses") or 0
        for edit in applied
        if edit.get("type") == CLEAR_TOOL_USES
    )
    return done > 0 or not asked


def clearing(
    messages: Sequence[ProjectedMessage], records: Iterable[AnyRecord], keep_from: int
) -> Pruning | None:
    """Like ``pruning``, but have the model's server leave the results out, without previews.

    All results before ``keep_from`` are left out, even short ones, since the server can only be
    told how many of the newest to keep. Results that the model has not seen, and those of the
    newest reply with tool calls, stay. Thinking blocks stay valid.
    """
    seen = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=0)
    newest = max((i for i, m in enumerate(messages) if m.is_answer), default=0)
    ids = {
        block["tool_use_id"]
        for message in messages[: min(keep_from, seen, newest)]
        if message.is_answer
        for block in message.content
        if block["type"] == "tool_result" and block["tool_use_id"] not in message.cleared
    }
    results = [r for r in records if isinstance(r, ToolResult) and r.tool_use_id in ids]
    if not any(is_prunable(result) for result in results):
        return None
    after = [
        replace(message, cleared=message.cleared | found)
        if (found := ids & {block.get("tool_use_id") for block in message.content})
        else message
        for message in messages
    ]
    first = next(i for i, message in enumerate(after) if message is not messages[i])
    return Pruning(sorted(result.seq for result in results), first, after, by_server=True)


def keeps_thinking(messages: Sequence[ProjectedMessage], cut: int) -> bool:
    """Return whether the thinking in ``messages[cut:]`` stays valid after a compaction block.

    The block replaces ``messages[:cut]``. The thinking stays valid if the cut does not separate
    two messages of the same role, and if the kept messages are sent unchanged. The part that code
    adds to a summary is rewritten at each compaction, so it must not be among them.
    """
    return (
        0 < cut < len(messages)
        and messages[cut].role != messages[cut - 1].role
        and not any(message.is_summary for message in messages[cut:])
    )
