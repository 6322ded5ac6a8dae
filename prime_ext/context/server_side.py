"""What a model's server does to a context instead of us: which results it leaves out, which
summary it made. Decisions only; whether it can is asked elsewhere."""

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
    """What a request that holds ``messages`` asks its server to leave out of them.

    The server knows no records: it is told how many of the newest calls keep their results. That
    number grows with each call, so that it is always the same results that are left out, and the
    prompt cache holds.
    """
    if not is_edited(messages):
        return []
    cleared = sum(len(message.cleared) for message in messages)
    calls = sum(block["type"] == "tool_use" for message in messages for block in message.content)
    kept = {"type": "tool_uses", "value": max(1, calls - cleared)}
    return [{"type": CLEAR_TOOL_USES, "trigger": kept, "keep": kept}]


def is_edited(messages: Sequence[ProjectedMessage]) -> bool:
    """Whether anything is left out of them: if so, of the oldest results."""
    oldest = next((message for message in messages if message.is_answer), None)
    return oldest is not None and bool(oldest.cleared)


def was_edited(asked: Sequence[dict[str, Any]], applied: Sequence[dict[str, Any]]) -> bool:
    """Whether the server did what it was asked, by what it says itself."""
    done = sum(
        edit.get("cleared_tool_uses") or 0
        for edit in applied
        if edit.get("type") == CLEAR_TOOL_USES
    )
    return done > 0 or not asked


def clearing(
    messages: Sequence[ProjectedMessage], records: Iterable[AnyRecord], keep_from: int
) -> Pruning | None:
    """Like ``pruning``, by the model's server: it leaves the results out, and no preview stays.

    All results in front of ``keep_from`` go, the short ones too, since the server can only be
    told where to begin; those that the model has not seen, and those of the newest reply with
    calls, stay. Thinking stays valid.
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
    """Whether the thinking of what stays behind a block for ``messages[:cut]`` stays valid.

    It does if what stays follows on what was summarised as another message, and is sent as it was.
    What code wrote behind an earlier block is written anew, and so may not be among it.
    """
    return (
        0 < cut < len(messages)
        and messages[cut].role != messages[cut - 1].role
        and not any(message.is_summary for message in messages[cut:])
    )
