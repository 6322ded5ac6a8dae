"""Pending items of a session: queued messages and unanswered approval requests."""

from __future__ import annotations

from typing import Any

from prime_ext.session.records import (
    AnyRecord,
    Approval,
    ApprovalRequest,
    Queued,
    TurnEnd,
    Unqueued,
)

KINDS = ("queued", "unqueued", "approval_request", "approval", "turn_end")
"""Kinds of records that ``Waiting`` needs."""


class Waiting:
    """Tracks pending items. Pass each record of ``KINDS`` to ``observe`` once, in order."""

    def __init__(self) -> None:
        self.queue: dict[int, Queued] = {}
        """Messages sent while the agent was busy, by ``seq``, oldest first."""
        self.approvals: dict[str, ApprovalRequest] = {}
        """Unanswered approval requests, by call id."""

    def observe(self, record: AnyRecord) -> None:
        """Process one record. Records of other kinds are ignored."""
        if isinstance(record, Queued):
            self.queue[record.seq] = record
        elif isinstance(record, Unqueued):
            self.queue.pop(record.queued_seq, None)
        elif isinstance(record, ApprovalRequest):
            self.approvals.pop(record.call_id, None)  # A repeated request moves to the end.
            self.approvals[record.call_id] = record
        elif isinstance(record, Approval):
            self.approvals.pop(record.call_id, None)
        elif isinstance(record, TurnEnd):
            self.approvals.clear()

    def describe(self) -> dict[str, Any]:
        """Return ``{queue, approvals}`` as in REST responses, without contents of attachments."""
        return {
            "queue": [
                {
                    "seq": message.seq,
                    "text": message.text,
                    "attachments": [
                        {key: value for key, value in attachment.items() if key != "content"}
                        for attachment in message.attachments
                    ],
                }
                for message in self.queue.values()
            ],
            "approvals": [
                {
                    "call_id": request.call_id,
                    "what": request.what,
                    "tool": request.tool,
                    "summary": request.summary,
                    "turn": request.turn,
                }
                for request in self.approvals.values()
            ],
        }
