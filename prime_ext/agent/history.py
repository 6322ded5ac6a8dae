"""What an agent has to know of its session's past: a fold over the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prime_ext.agent.kernel_events import restore_event, withdrawn_event
from prime_ext.agent.revert import revert_event
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
"""Kinds that ``History`` looks at; the others, most tool results above all, need not be read."""


def history_seqs(log: SessionLog) -> list[int]:
    """``seq`` of the records that ``History`` has to see of a log, oldest first."""
    messages = log.seqs_of("user_message")
    # A message tells the model of every run that has ended; behind the last one, results may.
    untold = [seq for seq in log.seqs_of("run_end") if messages and seq > messages[-1]]
    telling = [seq for seq in log.seqs_of("tool_result") if untold and seq > untold[0]]
    return sorted([*log.seqs_of(*HISTORY_KINDS), *telling])


class History:
    """Feed it every record once, in order; it answers without reading the log again."""

    def __init__(self) -> None:
        self._waiting = waiting.Waiting()
        self.granted: set[str] = set()
        """Tools the person has allowed for the session."""
        self.decided: dict[str, str] = {}
        """What was answered, by call id."""
        self.open_turn: str | None = None
        """A turn that began and did not end."""
        self.open_compaction: CompactionStart | None = None
        self.kernel_events: list[str] = []
        """What happened to the kernel outside turns since the user last wrote."""
        self.run_ends: dict[int, RunEnd] = {}
        """What became of runs that outlasted their calls, by ``seq``, as far as the model has not
        been told."""
        self._offer: Restore | None = None
        """A restore that the person was offered, and has neither taken nor lost."""
        self.notebook_events: list[str] = []
        """What the user reverted since they last wrote."""
        self.next_model: tuple[str, str] | None = None
        """Provider and model that the next compaction switches to."""
        self.telemetry = telemetry.Telemetry()

    @property
    def queue(self) -> dict[int, Queued]:
        """Messages typed while the agent was busy, by ``seq``, oldest first."""
        return self._waiting.queue

    @property
    def pending(self) -> dict[str, ApprovalRequest]:
        """Approvals that wait for a decision, by call id."""
        return self._waiting.approvals

    @property
    def waiting_turn(self) -> str | None:
        """A turn that waits for a person, and goes on with the answer."""
        waits = any(request.turn == self.open_turn for request in self.pending.values())
        return self.open_turn if waits else None

    def describe(self) -> dict[str, Any]:
        """What waits, and the sums, for ``GET sessions/{id}``."""
        return {**self._waiting.describe(), "telemetry": self.telemetry.sums()}

    def observe(self, record: AnyRecord) -> None:
        """Take in one record."""
        self.telemetry.observe(record)
        if isinstance(record, Approval):
            self._settle(record)
        self._waiting.observe(record)
        if isinstance(record, UserMessage):
            self.open_turn = record.turn
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
            # A prune leaves model, system prompt and tools as they are.
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
