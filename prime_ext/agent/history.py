"""What an agent has to know of its session's past: a fold over the records."""

from __future__ import annotations

from typing import Any

from prime_ext.agent.kernel_events import restore_event
from prime_ext.session.records import (
    AnyRecord,
    Approval,
    ApprovalRequest,
    AssistantMessage,
    CompactionEnd,
    CompactionStart,
    PrefireEnd,
    Queued,
    Restore,
    Settings,
    TurnEnd,
    Unqueued,
    UserMessage,
)


class History:
    """Feed it every record once, in order; it answers without reading the log again."""

    def __init__(self) -> None:
        self.queue: dict[int, Queued] = {}
        """Messages typed while the agent was busy, by ``seq``, oldest first."""
        self.granted: set[str] = set()
        """Tools the person has allowed for the session."""
        self.pending: dict[str, ApprovalRequest] = {}
        """Approvals that wait for a decision, by call id."""
        self.decided: set[str] = set()
        self.open_turn: str | None = None
        """A turn that began and did not end."""
        self.open_compaction: CompactionStart | None = None
        self.compaction_count = 0
        self.kernel_events: list[str] = []
        """What happened to the kernel outside turns since the user last wrote."""
        self.next_model: tuple[str, str] | None = None
        """Provider and model that the next compaction switches to."""
        self.usage: dict[str, int] = {}
        self.cost_usd = 0.0
        self.requests = 0
        self.turns = 0
        self.wait_ms = 0
        self.tokens_saved = 0
        self.notes_made = 0
        self.notes_used = 0

    def observe(self, record: AnyRecord) -> None:
        """Take in one record."""
        if isinstance(record, UserMessage):
            self.open_turn = record.turn
            self.kernel_events.clear()
        elif isinstance(record, AssistantMessage):
            self._count_reply(record)
        elif isinstance(record, TurnEnd):
            self.open_turn = None
            self.pending.clear()
            self.turns += 1
        elif isinstance(record, Queued):
            self.queue[record.seq] = record
        elif isinstance(record, Unqueued):
            self.queue.pop(record.queued_seq, None)
        elif isinstance(record, ApprovalRequest):
            self.pending[record.call_id] = record
        elif isinstance(record, Approval):
            self._settle(record)
        elif isinstance(record, CompactionStart):
            self.open_compaction = record
        elif isinstance(record, PrefireEnd):
            self.notes_made += record.outcome == "ok"
            self._count_usage(record.usage)
        elif isinstance(record, CompactionEnd):
            self._count_compaction(record)
        elif isinstance(record, Settings):
            if record.model is not None or record.provider is not None:
                self.next_model = (record.provider or "", record.model or "")
        elif isinstance(record, Restore) and (
            record.turn is None or record.trigger == "compaction"
        ):
            event = restore_event(record)
            if event:
                self.kernel_events.append(event)

    def _count_reply(self, record: AssistantMessage) -> None:
        self.requests += 1
        self.cost_usd += record.cost_usd or 0.0
        self._count_usage(record.usage)

    def _count_usage(self, usage: dict[str, Any]) -> None:
        for key, value in usage.items():
            if isinstance(value, int):
                self.usage[key] = self.usage.get(key, 0) + value

    def _settle(self, record: Approval) -> None:
        request = self.pending.pop(record.call_id, None)
        self.decided.add(record.call_id)
        if request and request.tool and record.decision == "allow" and record.scope == "session":
            self.granted.add(request.tool)

    def _count_compaction(self, record: CompactionEnd) -> None:
        self.open_compaction = None
        self.wait_ms += record.wait_ms
        self._count_usage(record.usage)
        if record.outcome == "ok":
            self.compaction_count += 1
            self.notes_used += record.path in ("swap", "merge")
            self.tokens_saved += max(0, record.tokens_before - record.tokens_after)
            if record.path != "prune":  # which leaves model, system prompt and tools as they are
                self.next_model = None

    def telemetry(self) -> dict[str, Any]:
        """Sums for ``GET sessions/{id}``. Tokens, milliseconds, US dollars."""
        read = self.usage.get("cache_read_input_tokens", 0)
        total = (
            read
            + self.usage.get("input_tokens", 0)
            + self.usage.get("cache_creation_input_tokens", 0)
        )
        return {
            "turns": self.turns,
            "requests": self.requests,
            "input_tokens": total,
            "output_tokens": self.usage.get("output_tokens", 0),
            "cache_hit_rate": round(read / total, 4) if total else None,
            "cost_usd": round(self.cost_usd, 6),
            "compaction_count": self.compaction_count,
            "compaction_wait_ms": self.wait_ms,
            "tokens_saved": self.tokens_saved,
            "notes_made": self.notes_made,
            "notes_used": self.notes_used,
        }
