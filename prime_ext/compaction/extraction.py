"""Extraction from all raw records of a session, to correct errors of repeated summaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prime_ext.context.digest import digest
from prime_ext.session.records import AssistantMessage, ToolResult, UserMessage

if TYPE_CHECKING:
    from prime_ext.session.log import SessionLog

REBUILD_EVERY = 5
"""Every this many compactions, the summary is corrected by an extraction from the raw records."""

EXTRACTION_CHARS = 24_000
BATCH_RECORDS = 500


def rebuild_is_due(compactions: int) -> bool:
    """Return whether the compaction after ``compactions`` earlier ones uses the raw records."""
    return (compactions + 1) % REBUILD_EVERY == 0


def extraction(log: SessionLog, through_seq: int) -> str:
    """Return an extractive summary of all records up to ``through_seq``. Call it in a thread."""
    return digest(_messages(log, through_seq), max_chars=EXTRACTION_CHARS)


def _messages(log: SessionLog, through_seq: int) -> Iterator[dict[str, Any]]:
    """Yield one message for each record with content.

    ``digest`` does not need the order of calls and results that the Messages API requires.
    """
    seqs = [
        seq
        for seq in log.seqs_of("user_message", "assistant_message", "tool_result")
        if seq <= through_seq
    ]
    for start in range(0, len(seqs), BATCH_RECORDS):
        for record in log.get_all(seqs[start : start + BATCH_RECORDS]):
            if isinstance(record, UserMessage):
                yield {"role": "user", "content": record.content}
            elif isinstance(record, AssistantMessage):
                yield {"role": "assistant", "content": record.content}
            elif isinstance(record, ToolResult):
                yield {"role": "user", "content": [_result(record)]}


def _result(record: ToolResult) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": record.tool_use_id,
        "content": record.content,
        "is_error": record.is_error,
    }
