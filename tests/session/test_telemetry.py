"""The sums over a session's records."""

from __future__ import annotations

import msgspec

from prime_ext.agent.spending import Spending
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    PrefireEnd,
    PrefireStart,
    TurnEnd,
)
from prime_ext.session.telemetry import Telemetry


def sums(*records: AnyRecord) -> dict[str, object]:
    telemetry = Telemetry()
    for record in records:
        telemetry.observe(record)
    return telemetry.sums()


def note(identifier: str, outcome: str = "ok", *, rolled: bool = False) -> list[AnyRecord]:
    return [
        PrefireStart(prefire_id=identifier, through_seq=1, fingerprint="f", rolled=rolled),
        PrefireEnd(
            prefire_id=identifier,
            outcome=outcome,
            usage={"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5},
            cost_usd=0.25,
        ),
    ]


def compaction(path: str, wait_ms: int = 0) -> CompactionEnd:
    return CompactionEnd(
        compaction_id="c",
        outcome="ok",
        trigger="threshold",
        path=path,
        tokens_before=100,
        tokens_after=40,
        wait_ms=wait_ms,
    )


def test_an_empty_session_has_no_rates() -> None:
    found = sums()
    assert found["cache_hit_rate"] is None
    assert found["tokens_per_turn"] is None
    assert found["compactions"] == {}


def test_notes_count_once_however_often_they_are_rolled() -> None:
    found = sums(*note("a"), *note("b", rolled=True), *note("c", rolled=True), compaction("swap"))
    assert (found["notes_made"], found["notes_used"], found["notes_wasted"]) == (1, 1, 0)
    assert found["input_tokens"] == 300
    assert found["cache_hit_rate"] == 0.9
    assert found["cost_usd"] == 0.75


def test_a_note_that_is_not_used_is_wasted() -> None:
    assert sums(*note("a"), compaction("single_pass"))["notes_wasted"] == 1
    assert sums(*note("a", "failed"), compaction("single_pass"))["notes_wasted"] == 1
    assert sums(*note("a"), *note("b"), compaction("swap"))["notes_wasted"] == 1
    assert sums(*note("a"))["notes_wasted"] == 0  # it may still be used


def test_waits_are_told_apart_by_path() -> None:
    found = sums(compaction("swap", 4), compaction("swap", 8), compaction("single_pass", 9_000))
    assert found["compactions"] == {
        "swap": {"count": 2, "wait_ms": 12, "longest_wait_ms": 8},
        "single_pass": {"count": 1, "wait_ms": 9_000, "longest_wait_ms": 9_000},
    }
    assert found["compaction_count"] == 3
    assert found["tokens_saved"] == 180


def test_what_a_compaction_cost_counts_whether_or_not_it_came_to_anything() -> None:
    spent = {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 30}
    merge = msgspec.structs.replace(compaction("merge", 300), usage=spent, cost_usd=0.5)
    vain = msgspec.structs.replace(merge, outcome="cancelled", path=None, wait_ms=50)
    found = sums(merge, vain)
    assert (found["input_tokens"], found["output_tokens"]) == (200, 60)
    assert (found["cache_hit_rate"], found["cost_usd"]) == (0.8, 1.0)
    assert found["compaction_wait_ms"] == 350
    assert (found["compaction_count"], found["tokens_saved"]) == (1, 60)


def test_turns_and_summaries_together_are_all_that_was_spent() -> None:
    def reply(stop_reason: str, cost_usd: float | None) -> AssistantMessage:
        usage = {"input_tokens": 30, "output_tokens": 2} if cost_usd else {}
        return AssistantMessage(
            content=[], model="m", stop_reason=stop_reason, usage=usage, cost_usd=cost_usd
        )

    replies = [reply("tool_use", 0.5), reply("end_turn", 0.25), reply("interrupted", None)]
    spent = {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 30}
    summary = msgspec.structs.replace(compaction("single_pass"), usage=spent, cost_usd=1.0)
    turn = Spending()
    for record in replies:
        turn.observe(record)
    found = sums(*replies, summary, *note("a"), TurnEnd(status="interrupted"))
    assert (turn.requests, turn.cost_usd) == (2, 0.75)
    assert found["requests"] == turn.requests
    assert found["cost_usd"] == turn.cost_usd + 1.25
    assert (found["summary_cost_usd"], found["summary_input_tokens"]) == (1.25, 200)
    assert found["input_tokens"] == turn.usage["input_tokens"] + 200


def test_tokens_of_a_turn() -> None:
    reply = AssistantMessage(
        content=[], model="m", usage={"input_tokens": 30, "output_tokens": 2}, cost_usd=1.0
    )
    found = sums(reply, reply, TurnEnd(status="ok"))
    assert (found["requests"], found["turns"], found["tokens_per_turn"]) == (2, 1, 60)


def test_rolls_that_came_to_nothing_are_told_apart() -> None:
    used = sums(*note("a"), *note("b", rolled=True), compaction("swap"))
    assert (used["rolls_made"], used["wasted_rolls"]) == (1, 0)
    given_up = sums(*note("a"), *note("b", "cancelled", rolled=True), compaction("swap"))
    assert (given_up["rolls_made"], given_up["wasted_rolls"], given_up["notes_wasted"]) == (0, 1, 0)
    unused = sums(*note("a"), *note("b", rolled=True), compaction("single_pass"))
    assert (unused["rolls_made"], unused["wasted_rolls"], unused["notes_wasted"]) == (1, 1, 1)
    anew = sums(*note("a"), *note("b", rolled=True), *note("c"), compaction("swap"))
    assert (anew["wasted_rolls"], anew["notes_wasted"]) == (1, 1)
