"""The state that an agent derives from its session's records, by a fold over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prime_ext.agent.kernel_events import restore_event, withdrawn_event
from prime_ext.agent.revert import revert_event
from prime_ext.agent.spending import Spending
from prime_ext.session import telemetry, waiting
from prime_ext.session.records import (
    AnyRecord,
    Approval,
    ApprovalRequest,
    CompactionEnd,
    CompactionStart,
    Queued,
    Restore,
    Revert,
    RunEnd,
    Settings,
    Snapshot,
    ToolResult,
    TurnEnd,
    UserMessage,
)

if TYPE_CHECKING:
    from prime_ext.session.log import SessionLog

HISTORY_KINDS = tuple(
    {
        *telemetry.KINDS,
        *waiting.KINDS,
        "user_message",
        "compaction_start",
        "settings",
        "snapshot",
        "restore",
        "revert",
        "run_end",
    }
)
"""Kinds of records that ``History`` always needs.

The others, above all most tool results, need not be read.
"""


def history_seqs(log: SessionLog) -> list[int]:
    """Return ``seq`` of the records in a log that ``History`` needs, oldest first."""
    messages = log.seqs_of("user_message")
    # A user message reports all run ends so far; after the last message, tool results may do so.
    untold = [seq for seq in log.seqs_of("run_end") if messages and seq > messages[-1]]
    telling = [seq for seq in log.seqs_of("tool_result") if untold and seq > untold[0]]
    return sorted([*log.seqs_of(*HISTORY_KINDS), *telling])


class History:
    """State of a session, derived from its records without reading the log again.

    ``observe`` must be called once for each record, in order.
    """

    def __init__(self) -> None:
        self._waiting = waiting.Waiting()
        self.granted: set[str] = set()
        """Names of the tools that the person has allowed for the whole session."""
        self.decided: dict[str, str] = {}
        """Decisions on approval requests, by call id."""
        self.open_turn: str | None = None
        """Id of a turn that has begun but not ended."""
        self.spent = Spending()
        """Spending of that turn so far."""
        self.open_compaction: CompactionStart | None = None
        self.kernel_events: list[str] = []
        """Texts about what happened to the kernel outside of turns since the last user message."""
        self.run_ends: dict[int, RunEnd] = {}
        """Ends of runs that outlasted their calls, by ``seq``, not yet reported to the model."""
        self._offer: Restore | None = None
        """A restore that is on offer: neither accepted nor withdrawn."""
        self.notebook_events: list[str] = []
        """Texts about what the user reverted since the last user message."""
        self.next_model: tuple[str, str] | None = None
        """Provider and model to which the next compaction switches."""
        self.telemetry = telemetry.Telemetry()

    @property
    def queue(self) -> dict[int, Queued]:
        """Queued messages by ``seq``, oldest first."""
        return self._waiting.queue

    @property
    def pending(self) -> dict[str, ApprovalRequest]:
        """Approval requests without a decision, by call id."""
        return self._waiting.approvals

    @property
    def waiting_turn(self) -> str | None:
        """Id of the open turn if it waits for a person; the answer resumes the turn."""
        waits = any(request.turn == self.open_turn for request in self.pending.values())
        return self.open_turn if waits else None

    def describe(self) -> dict[str, Any]:
        """Return pending items and telemetry, for ``GET sessions/{id}``."""
        return {**self._waiting.describe(), "telemetry": self.telemetry.sums()}

    def observe(self, record: AnyRecord) -> None:
        """Update the state with one record."""
        self.telemetry.observe(record)
        self.spent.observe(record)
        if isinstance(record, Approval):
            self._settle(record)
        self._waiting.observe(record)
        if isinstance(record, UserMessage):
            self.open_turn, self.spent = record.turn, Spending()
            self.kernel_events.clear()
            self.notebook_events.clear()
            self.run_ends.clear()
        elif isinstance(record, RunEnd):
            self.run_ends[record.seq] = record
        elif isinstance(record, ToolResult):
            for seq in record.tells:
                self.run_ends.pop(seq, None)
        elif isinstance(record, TurnEnd):
            self.open_turn = None
        elif isinstance(record, CompactionStart):
            self.open_compaction = record
        elif isinstance(record, CompactionEnd):
            self.open_compaction = None
            # A prune keeps model, system prompt and tools.
            if record.outcome == "ok" and record.path != "prune":
                self.next_model = None
        elif isinstance(record, Settings):
            if record.model is not None or record.provider is not None:
                self.next_model = (record.provider or "", record.model or "")
        elif isinstance(record, Restore):
            event = restore_event(record, self._offer)
            self._offer = record if record.outcome == "offered" else None
            if event and (record.turn is None or record.trigger == "compaction"):
                self.kernel_events.append(event)
        elif isinstance(record, Snapshot) and record.outcome == "removed" and self._offer:
            offered = restore_event(self._offer)
            self.kernel_events = [event for event in self.kernel_events if event != offered]
            self.kernel_events.append(withdrawn_event(self._offer, record))
            self._offer = None
        elif isinstance(record, Revert):
            event = revert_event(record)
            if event:
                self.notebook_events.append(event)

    def _settle(self, record: Approval) -> None:
        request = self.pending.get(record.call_id)
        self.decided[record.call_id] = record.decision
        if request and request.tool and record.decision == "allow" and record.scope == "session":
            self.granted.add(request.tool)
