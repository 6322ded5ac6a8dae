"""What a run of a session comes to: each request, each wait, and the figures made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import mean
from typing import Any, Literal

from tests.messages_api.prompt import Position
from tests.messages_api.script import Latency

CACHE_LIFE_S = 300.0

LATENCY = Latency(first_token_s=2.8, input_tokens_per_s=22_000.0, tokens_per_s=86.0)
"""Of every model here; fitted by least squares to the 465 whole replies of a recorded session."""

Purpose = Literal["turn", "note", "rolled note", "summary"]
"""Of a request: the conversation itself; a summary nobody waits for, of the conversation or of an
earlier such summary and what came since; one that is waited for."""


@dataclass(frozen=True)
class Sent:
    """One request. Tokens are the model's own."""

    purpose: Purpose
    at_s: float
    tokens: int
    """Of its prompt."""
    cached: int
    """Read from the cache."""
    output: int
    cost_usd: float
    resent: int
    """Tokens at its beginning that the conversation's request before had at its own."""
    gap_s: float
    """Since the start of that request."""
    rewritten: str
    """The path of the compaction since that request; empty if there was none."""

    @property
    def cold(self) -> bool:
        return self.gap_s > CACHE_LIFE_S


@dataclass(frozen=True)
class Wait:
    """A compaction, and what a person waited for it."""

    path: str
    seconds: float
    sent_tokens: int
    before: int
    after: int
    processor_s: float = 0.0
    """Processor time of this machine in it, where it was measured."""


@dataclass
class Run:
    """One session under one policy."""

    session: str
    policy: str
    window: int
    threshold: int
    """Tokens at which the policy compacts; 0: never."""
    turns: int = 0
    hours: float = 0.0
    requests: list[Sent] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    """How notes made ahead ended: ``used``, ``wasted``, ``open`` at the end of the session."""
    problems: list[str] = field(default_factory=list)
    """Errors that were recorded, compactions that failed, and requests that were sent again."""
    frozen: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """``system`` and ``tools`` of its first request, without cache marks."""

    def of(self, purpose: Purpose) -> list[Sent]:
        return [sent for sent in self.requests if sent.purpose == purpose]

    def figures(self) -> dict[str, Any]:
        """The figures of the run, for the table and as JSON."""
        turn, note = self.of("turn"), self.of("note")
        sizes = [sent.tokens for sent in turn]
        kept = [s for s in turn[1:] if not s.rewritten]
        warm = [s for s in kept if not s.cold]
        summarised = [s for s in turn if s.rewritten not in ("", "prune")]
        pruned = [s for s in turn if s.rewritten == "prune"]
        total = sum(s.tokens for s in self.requests)
        cached = sum(s.cached for s in self.requests)
        seconds = [wait.seconds for wait in self.waits]
        drops = [a.tokens - b.tokens for a, b in pairwise(turn)]
        finished = self.notes["used"] + self.notes["wasted"]
        return {
            "session": self.session,
            "policy": self.policy,
            "window": self.window,
            "threshold": self.threshold,
            "turns": self.turns,
            "hours": round(self.hours, 2),
            "requests": len(turn),
            "compactions": dict(Counter(wait.path for wait in self.waits)),
            "input_tokens": total,
            "cached_tokens": cached,
            "uncached_tokens": total - cached,
            "output_tokens": sum(s.output for s in self.requests),
            "hit_rate": _share(cached, total),
            "cost_usd": round(sum(s.cost_usd for s in self.requests), 2),
            "tokens_per_turn": round(total / max(1, self.turns)),
            "context_highest": max(sizes, default=0),
            "context_mean": round(mean(sizes)) if sizes else 0,
            "context_largest_drop": max(drops, default=0),
            "resent_tokens_cached": _share(
                sum(min(s.cached, s.resent) for s in warm), sum(s.resent for s in warm)
            ),
            "resent_tokens_missed": sum(max(0, s.resent - s.cached) for s in warm),
            "requests_after_long_gaps": sum(s.cold for s in kept),
            "missed_after_long_gaps": sum(max(0, s.resent - s.cached) for s in kept if s.cold),
            "missed_after_summary_highest": _most_missed(summarised),
            "missed_after_prune_highest": _most_missed(pruned),
            "wait_s_median": round(percentile(seconds, 0.5), 3),
            "wait_s_95": round(percentile(seconds, 0.95), 3),
            "wait_s_total": round(sum(seconds), 3),
            "tokens_while_waiting": sum(wait.sent_tokens for wait in self.waits),
            "notes": dict(self.notes),
            "notes_wasted": _share(self.notes["wasted"], finished) if finished else 0.0,
            "notes_cached": _share(sum(s.cached for s in note), sum(s.tokens for s in note)),
            "rolled_notes_tokens": sum(s.tokens for s in self.of("rolled note")),
            "problems": self.problems,
        }

    def detail(self) -> dict[str, Any]:
        """The size of every tenth request and each wait, as JSON."""
        return {
            "context": [sent.tokens for sent in self.of("turn")[::10]],
            "waits": [asdict(wait) for wait in self.waits],
        }


def common_tokens(prompt: Sequence[Position], earlier: Sequence[Position]) -> int:
    """Tokens of the blocks at the beginning of ``prompt`` that ``earlier`` begins with as well."""
    tokens = 0
    for position, before in zip(prompt, earlier, strict=False):
        if position.section != before.section or position.data != before.data:
            break
        tokens += position.tokens
    return tokens


def _most_missed(requests: Sequence[Sent]) -> int:
    return max((sent.tokens - sent.cached for sent in requests), default=0)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of them do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def _share(part: float, whole: float) -> float:
    return round(part / whole, 5) if whole else 1.0
