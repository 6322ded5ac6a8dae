"""Spending of one turn in requests, tokens and dollars, and the caps on it.

What counts as a request of a turn, and what as a summary, is stated in ``session.telemetry``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prime_ext.session.records import AnyRecord, Approval, AssistantMessage, TurnEnd


@dataclass(frozen=True)
class TurnCaps:
    """Spending after which a turn asks the person whether to go on. 0 means no limit."""

    requests: int
    cost_usd: float


@dataclass
class Spending:
    """Spending of a turn so far."""

    requests: int = 0
    cost_usd: float = 0.0
    priced: bool = False
    """Whether the price of at least one request is known."""
    usage: dict[str, int] = field(default_factory=dict)
    asked_at_requests: int = 0
    asked_at_cost: float = 0.0

    def add(self, usage: dict[str, Any], cost: float | None) -> None:
        """Add one request. ``cost`` is in US dollars, or ``None`` if it is not known."""
        self.requests += 1
        if cost is not None:
            self.cost_usd += cost
            self.priced = True
        for key, value in usage.items():
            if isinstance(value, int):
                self.usage[key] = self.usage.get(key, 0) + value

    def observe(self, record: AnyRecord) -> None:
        """Take in one record of the turn."""
        if isinstance(record, AssistantMessage) and record.is_whole:
            self.add(record.usage, record.cost_usd)
        elif isinstance(record, Approval) and record.call_id.startswith("limit-"):
            self.asked()

    def turn_end(self, status: str, turn: str) -> TurnEnd:
        """Return the record of the turn's end, with what it has spent."""
        return TurnEnd(
            status=status,
            requests=self.requests,
            usage=self.usage,
            cost_usd=self.cost_usd if self.priced else None,
            turn=turn,
        )

    def over(self, caps: TurnCaps) -> str | None:
        """Return in words what was spent, if a cap was reached since the person was last asked.

        ``None`` if no cap was reached.
        """
        if caps.requests and self.requests - self.asked_at_requests >= caps.requests:
            return f"{self.requests} request{'s' if self.requests > 1 else ''} to the model"
        if caps.cost_usd and self.cost_usd - self.asked_at_cost >= caps.cost_usd:
            return f"about ${self.cost_usd:.2f}"
        return None

    def asked(self) -> None:
        """Note that the person was asked, so that the caps apply anew from here."""
        self.asked_at_requests = self.requests
        self.asked_at_cost = self.cost_usd
