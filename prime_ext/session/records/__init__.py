"""The records of ``session.jsonl``: one typed, immutable record for each event of a session.

Records are the only source of truth: the model's context, the panel and the search are projections
of them. A record is written once and never changed; ``seq`` counts from 1 without gaps. Message
content is stored as the Messages API's JSON blocks, so that it can be sent again byte for byte.
"""

from __future__ import annotations

from prime_ext.session.records.changes import FileChange, NotebookOp, Revert
from prime_ext.session.records.compaction import (
    CompactionEnd,
    CompactionStart,
    PrefireEnd,
    PrefireStart,
    Prune,
)
from prime_ext.session.records.conversation import (
    Approval,
    ApprovalRequest,
    AssistantMessage,
    Interrupt,
    Queued,
    RunEnd,
    ToolResult,
    TurnEnd,
    Unqueued,
    UserMessage,
)
from prime_ext.session.records.kernel import NO_KERNEL, Checkpoint, Restore, RestoreStart, Snapshot
from prime_ext.session.records.record import Block, Record
from prime_ext.session.records.session import FORMAT, Error, SessionStart, Settings, Title

__all__ = [
    "FORMAT",
    "NO_KERNEL",
    "AnyRecord",
    "Approval",
    "ApprovalRequest",
    "AssistantMessage",
    "Block",
    "Checkpoint",
    "CompactionEnd",
    "CompactionStart",
    "Error",
    "FileChange",
    "Interrupt",
    "NotebookOp",
    "PrefireEnd",
    "PrefireStart",
    "Prune",
    "Queued",
    "Record",
    "Restore",
    "RestoreStart",
    "Revert",
    "RunEnd",
    "SessionStart",
    "Settings",
    "Snapshot",
    "Title",
    "ToolResult",
    "TurnEnd",
    "Unqueued",
    "UserMessage",
]

AnyRecord = (
    SessionStart
    | Settings
    | UserMessage
    | AssistantMessage
    | ToolResult
    | RunEnd
    | TurnEnd
    | Prune
    | PrefireStart
    | PrefireEnd
    | CompactionStart
    | CompactionEnd
    | Snapshot
    | RestoreStart
    | Restore
    | Checkpoint
    | ApprovalRequest
    | Approval
    | Queued
    | Unqueued
    | Interrupt
    | Error
    | NotebookOp
    | FileChange
    | Revert
    | Title
)
