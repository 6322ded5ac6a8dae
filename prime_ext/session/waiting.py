"""What in a session waits: messages for their turn, questions for a person."""

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
"""Kinds that ``Waiting`` looks at."""


class Waiting:
    """A fold: feed it the records of ``KINDS`` once, in order."""

    def __init__(self) -> None:
        self.queue: dict[int, Queued] = {}
        """Messages typed while the agent was busy, by ``seq``, oldest first."""
        self.approvals: dict[str, ApprovalRequest] = {}
        """Questions without an answer, by call id."""

    def observe(self, record: AnyRecord) -> None:
        """Take in one record."""
        if isinstance(record, Queued):
            self.queue[record.seq] = record
        elif isinstance(record, Unqueued):
            self.queue.pop(record.queued_seq, None)
        elif isinstance(record, ApprovalRequest):
            self.approvals.pop(record.call_id, None)  # the order is that of the newest
            self.approvals[record.call_id] = record
        elif isinstance(record, Approval):
            self.approvals.pop(record.call_id, None)
        elif isinstance(record, TurnEnd):
            self.approvals.clear()

    def describe(self) -> dict[str, Any]:
        """As the REST doors say it: ``{queue, approvals}``, contents of attachments left out."""
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
