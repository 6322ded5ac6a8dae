"""Cost and compaction statistics of a session, computed from its records.

A request belongs to a turn and was answered with a whole reply. So the requests of a session are
those of its turns together, as their ``turn_end`` records have them, and likewise their tokens and
cost. Summaries, made for a compaction or as a note ahead of one, belong to no turn. Their tokens
and cost are part of the session's sums, and are also given by themselves.
"""

from __future__ import annotations

from typing import Any

from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    PrefireEnd,
    PrefireStart,
    TurnEnd,
)

KINDS = ("assistant_message", "turn_end", "prefire_start", "prefire_end", "compaction_end")
"""Kinds of records that ``Telemetry`` needs."""

_BY_NOTE = ("swap", "merge")


class _Spent:
    """Tokens, by the names of the API, and US dollars."""

    def __init__(self) -> None:
        self.cost_usd = 0.0
        self._usage: dict[str, int] = {}

    def add(self, usage: dict[str, Any], cost_usd: float | None) -> None:
        self.cost_usd += cost_usd or 0.0
        for key, value in usage.items():
            if isinstance(value, int):
                self._usage[key] = self._usage.get(key, 0) + value

    def of(self, key: str) -> int:
        return self._usage.get(key, 0)

    @property
    def input_tokens(self) -> int:
        read, written = "cache_read_input_tokens", "cache_creation_input_tokens"
        return self.of("input_tokens") + self.of(read) + self.of(written)


class Telemetry:
    """Accumulates statistics. Pass each record of ``KINDS`` to ``observe`` once, in order."""

    def __init__(self) -> None:
        self.turns = 0
        self.requests = 0
        self.compaction_count = 0
        self._replies = _Spent()
        self._summaries = _Spent()
        self._wait_ms = 0
        self._tokens_saved = 0
        self._paths: dict[str, dict[str, int]] = {}
        self._notes = {"made": 0, "used": 0, "wasted": 0}
        self._note_ready = False
        self._rolls_made = 0
        self._rolls_wasted = 0
        self._rolls_ready = 0
        """Successful rolls of the note that is ready."""
        self._rolls: set[str] = set()

    def observe(self, record: AnyRecord) -> None:
        """Process one record. Records of other kinds are ignored."""
        if isinstance(record, AssistantMessage):
            self.requests += record.is_whole
            self._replies.add(record.usage, record.cost_usd)
        elif isinstance(record, TurnEnd):
            self.turns += 1
        elif isinstance(record, PrefireStart):
            if record.rolled:
                self._rolls.add(record.prefire_id)
        elif isinstance(record, PrefireEnd):
            self._summaries.add(record.usage, record.cost_usd)
            if record.prefire_id in self._rolls:
                self._roll_ended(record.outcome == "ok")
            else:
                self._note_ended(record.outcome == "ok")
        elif isinstance(record, CompactionEnd):
            self._compacted(record)

    def _note_ended(self, ok: bool) -> None:
        """Count a first note. Rolling it forward later does not make it another note."""
        self._notes["made"] += ok
        self._notes["wasted"] += self._note_ready or not ok
        self._note_ready = ok
        self._rolls_wasted += self._rolls_ready
        self._rolls_ready = 0

    def _roll_ended(self, ok: bool) -> None:
        """Count a roll. One that was cancelled or failed leaves the note as it was."""
        self._rolls_made += ok
        self._rolls_ready += ok
        self._rolls_wasted += not ok

    def _compacted(self, record: CompactionEnd) -> None:
        self._wait_ms += record.wait_ms
        self._summaries.add(record.usage, record.cost_usd)
        if record.outcome != "ok":
            return
        self.compaction_count += 1
        self._tokens_saved += max(0, record.tokens_before - record.tokens_after)
        path = self._paths.setdefault(
            record.path or "unknown", {"count": 0, "wait_ms": 0, "longest_wait_ms": 0}
        )
        path["count"] += 1
        path["wait_ms"] += record.wait_ms
        path["longest_wait_ms"] = max(path["longest_wait_ms"], record.wait_ms)
        used = record.path in _BY_NOTE
        self._notes["used"] += used
        self._notes["wasted"] += self._note_ready and not used
        self._note_ready = False
        self._rolls_wasted += 0 if used else self._rolls_ready
        self._rolls_ready = 0

    def sums(self) -> dict[str, Any]:
        """Return the statistics as JSON values, in tokens, milliseconds and US dollars.

        ``input_tokens`` includes tokens read from and written to the cache; ``cache_hit_rate`` is
        the share read from it. ``summary_input_tokens`` and ``summary_cost_usd`` are the part of
        these sums that went into summaries. ``compactions`` maps each path to the number of
        compactions and the time that the agent waited for them. A note that was started is wasted
        if it never replaced a prefix. A roll is wasted if its note was, or if it was cancelled or
        failed.
        """
        replies, summaries = self._replies, self._summaries
        read = replies.of("cache_read_input_tokens") + summaries.of("cache_read_input_tokens")
        total = replies.input_tokens + summaries.input_tokens
        return {
            "turns": self.turns,
            "requests": self.requests,
            "input_tokens": total,
            "output_tokens": replies.of("output_tokens") + summaries.of("output_tokens"),
            "tokens_per_turn": round(total / self.turns) if self.turns else None,
            "cache_hit_rate": round(read / total, 4) if total else None,
            "cost_usd": round(replies.cost_usd + summaries.cost_usd, 6),
            "summary_input_tokens": summaries.input_tokens,
            "summary_cost_usd": round(summaries.cost_usd, 6),
            "compaction_count": self.compaction_count,
            "compaction_wait_ms": self._wait_ms,
            "compactions": self._paths,
            "tokens_saved": self._tokens_saved,
            "notes_made": self._notes["made"],
            "notes_used": self._notes["used"],
            "notes_wasted": self._notes["wasted"],
            "rolls_made": self._rolls_made,
            "wasted_rolls": self._rolls_wasted,
        }
