"""Where the prompt cache is told to write."""

from __future__ import annotations

from typing import Any

from prime_ext.context.breakpoints import LOOK_BACK_MARK, place_marks

SYSTEM = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def message(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def marked(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, m in enumerate(messages)
        for j, block in enumerate(m["content"])
        if "cache_control" in block
    ]


def test_the_end_of_the_system_prompt_lives_an_hour_and_the_input_stays_as_it_was() -> None:
    messages = [message("user", "hi")]
    system, placed = place_marks(SYSTEM, messages)
    assert system[1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in system[0]
    assert placed[0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in SYSTEM[1]
    assert "cache_control" not in messages[0]["content"][0]


def test_a_long_context_has_marks_at_its_end_and_within_the_look_back() -> None:
    messages = [message("user" if i % 2 == 0 else "assistant", str(i)) for i in range(41)]
    _, placed = place_marks(SYSTEM, messages)
    assert marked(placed) == [(40 - LOOK_BACK_MARK, 0), (40, 0)]


def test_a_summary_is_marked_too() -> None:
    summary = message("user", "<compaction-summary>\n…\n</compaction-summary>")
    messages = [summary] + [
        message("user" if i % 2 == 0 else "assistant", str(i)) for i in range(40)
    ]
    _, placed = place_marks(SYSTEM, messages)
    assert marked(placed) == [(0, 0), (40 - LOOK_BACK_MARK, 0), (40, 0)]


def test_a_run_of_calls_counts_as_one_position() -> None:
    calls = [{"type": "tool_use", "id": str(i), "name": "t", "input": {}} for i in range(30)]
    results = [{"type": "tool_result", "tool_use_id": str(i), "content": "1"} for i in range(30)]
    messages = [
        message("user", "q"),
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    _, placed = place_marks(SYSTEM, messages)
    assert marked(placed) == [(2, 29)]


def test_thinking_is_never_marked() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = [message("user", "q"), {"role": "assistant", "content": [thinking]}]
    _, placed = place_marks(SYSTEM, messages)
    assert marked(placed) == [(0, 0)]


def test_nothing_to_mark() -> None:
    assert place_marks([], []) == ([], [])


def test_no_mark_is_placed_where_nothing_could_be_cached() -> None:
    summary = message("user", "<compaction-summary>\n…\n</compaction-summary>")
    messages = [summary, message("assistant", "a"), message("user", "b")]
    system, placed = place_marks(SYSTEM, messages, first=2)
    assert system == SYSTEM
    assert marked(placed) == [(2, 0)]
    assert place_marks(SYSTEM, messages, first=None) == (SYSTEM, messages)
