"""What one turn spends: requests, tokens, dollars, and the caps on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_ext.session.records import AnyRecord, Approval, AssistantMessage


@dataclass(frozen=True)
class TurnCaps:
    """What one turn may spend before a person is asked. 0: no limit."""

    requests: int
    cost_usd: float


@dataclass
class Spending:
    """What a turn has spent so far."""

    requests: int = 0
    cost_usd: float = 0.0
    priced: bool = False
    """Some of its requests have a known price."""
    usage: dict[str, int] = field(default_factory=dict)
    asked_at_requests: int = 0
    asked_at_cost: float = 0.0

    def add(self, usage: dict[str, Any], cost: float | None) -> None:
        """Count one request; ``cost`` in US dollars, ``None`` if it is not known."""
        self.requests += 1
        if cost is not None:
            self.cost_usd += cost
            self.priced = True
        for key, value in usage.items():
            if isinstance(value, int):
                self.usage[key] = self.usage.get(key, 0) + value

    @classmethod
    def so_far(cls, records: Sequence[AnyRecord]) -> Spending:
        """What the records of a turn say that it has spent."""
        spent = cls()
        for record in records:
            if isinstance(record, AssistantMessage):
                spent.add(record.usage, record.cost_usd)
            elif isinstance(record, Approval) and record.call_id.startswith("limit-"):
                spent.asked()
        return spent

    def over(self, caps: TurnCaps) -> str | None:
        """Which cap is reached since the person was last asked, in words."""
        if caps.requests and self.requests - self.asked_at_requests >= caps.requests:
            return f"{self.requests} request{'s' if self.requests > 1 else ''} to the model"
        if caps.cost_usd and self.cost_usd - self.asked_at_cost >= caps.cost_usd:
            return f"about ${self.cost_usd:.2f}"
        return None

    def asked(self) -> None:
        """The person was asked: the caps count anew from here."""
        self.asked_at_requests = self.requests
        self.asked_at_cost = self.cost_usd
