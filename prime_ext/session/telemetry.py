"""Cost and compaction statistics of a session, computed from its records."""

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


class Telemetry:
    """Accumulates statistics. Pass each record of ``KINDS`` to ``observe`` once, in order."""

    def __init__(self) -> None:
        self.turns = 0
        self.requests = 0
        self.compaction_count = 0
        self._usage: dict[str, int] = {}
        self._cost_usd = 0.0
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
            self.requests += 1
            self._spend(record.usage, record.cost_usd)
        elif isinstance(record, TurnEnd):
            self.turns += 1
        elif isinstance(record, PrefireStart):
            if record.rolled:
                self._rolls.add(record.prefire_id)
        elif isinstance(record, PrefireEnd):
            self._spend(record.usage, record.cost_usd)
            if record.prefire_id in self._rolls:
                self._roll_ended(record.outcome == "ok")
            else:
                self._note_ended(record.outcome == "ok")
        elif isinstance(record, CompactionEnd):
            self._compacted(record)

    def _spend(self, usage: dict[str, Any], cost_usd: float | None) -> None:
        self._cost_usd += cost_usd or 0.0
        for key, value in usage.items():
            if isinstance(value, int):
                self._usage[key] = self._usage.get(key, 0) + value

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
        self._spend(record.usage, record.cost_usd)
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
        the share read from it. ``compactions`` maps each path to the number of compactions and the
        time that the agent waited for them. A note that was started is wasted if it never replaced
        a prefix. A roll is wasted if its note was, or if it was cancelled or failed.
        """
        read = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        total = read + written + self._usage.get("input_tokens", 0)
        return {
            "turns": self.turns,
            "requests": self.requests,
            "input_tokens": total,
            "output_tokens": self._usage.get("output_tokens", 0),
            "tokens_per_turn": round(total / self.turns) if self.turns else None,
            "cache_hit_rate": round(read / total, 4) if total else None,
            "cost_usd": round(self._cost_usd, 6),
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
