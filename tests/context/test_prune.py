"""Pruning: which outputs give way, what stays, and when it is worth it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.limits import Limits
from prime_ext.context.plan import Measured, choose_prune
from prime_ext.context.preview import is_prunable, preview
from prime_ext.context.projection import Projection, project
from prime_ext.context.prune import Rates, is_cheaper, pruning
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    Prune,
    ToolResult,
    UserMessage,
)
from tests.context.conversations import image_block, numbered, sessions, start, text_block
from tests.messages_api import shape
from tests.messages_api.conversation import check_pairing

LIMITS = Limits.resolve(window=200_000, max_output=8_000, max_context_tokens=10_000)


def step(number: int, output: str, *, is_error: bool = False) -> list[AnyRecord]:
    call = {"type": "tool_use", "id": f"c{number}", "name": "run_code", "input": {"code": "x"}}
    return [
        AssistantMessage(content=[call], model="m"),
        ToolResult(
            tool_use_id=f"c{number}",
            name="run_code",
            content=[text_block(output)],
            is_error=is_error,
        ),
    ]


def working(*outputs: str) -> list[AnyRecord]:
    """A turn in which each of ``outputs`` came, the last of them not seen by the model yet."""
    records: list[AnyRecord] = [start(), UserMessage(text="q", content=[text_block("q")])]
    for number, output in enumerate(outputs):
        records += step(number, output)
    return numbered(records)


def chars(records: list[AnyRecord]) -> list[int]:
    return [len(str(message.content)) for message in project(records).messages]


def test_a_preview_shows_both_ends_and_where_the_rest_is() -> None:
    result = ToolResult(
        seq=7,
        tool_use_id="c",
        name="run_code",
        content=[text_block("begin" + "." * 9_000 + "end"), image_block()],
    )
    (block,) = preview(result)
    assert block["text"].startswith("begin")
    assert block["text"].endswith("end")
    assert "an image" in block["text"]
    assert "session_read 7" in block["text"]
    assert len(block["text"]) < 700


def test_short_outputs_stay_and_errors_keep_their_end() -> None:
    short = ToolResult(tool_use_id="c", name="t", content=[text_block("x" * 900)])
    assert not is_prunable(short)
    trace = "x" * 20_000 + "\nKeyError: 'price' in " + "y" * 900
    (block,) = preview(
        ToolResult(tool_use_id="c", name="t", content=[text_block(trace)], is_error=True)
    )
    assert "KeyError: 'price'" in block["text"]


def test_the_newest_outputs_and_what_the_model_has_not_seen_stay_whole() -> None:
    records = working(*["x" * 5_000] * 4)
    messages = project(records).messages
    found = pruning(messages, records, keep_from=len(messages))
    assert found is not None
    assert found.seqs == [4, 6, 8]  # the fourth is not seen yet
    assert found.first == 2
    found = pruning(messages, records, keep_from=4)
    assert found is not None
    assert found.seqs == [4]


def test_nothing_is_pruned_twice() -> None:
    records = working(*["x" * 5_000] * 3)
    messages = project(records).messages
    found = pruning(messages, records, len(messages))
    assert found is not None
    prune = Prune(compaction_id="p", pruned=found.seqs, tokens_before=2, tokens_after=1)
    after = numbered([*records, prune])
    assert project(after).messages == found.messages
    assert pruning(project(after).messages, after, len(messages)) is None


@given(sessions(), st.data())
def test_a_prune_changes_nothing_but_outputs_and_thinking_bound_to_them(
    records: list[AnyRecord], data: st.DataObject
) -> None:
    grown = [
        msgspec.structs.replace(r, content=[*r.content, text_block("x" * 3_000)])
        if isinstance(r, ToolResult) and data.draw(st.booleans())
        else r
        for r in records
    ]
    before = project(grown)
    keep = data.draw(st.integers(0, len(before.messages)))
    found = pruning(before.messages, grown, keep)
    if found is None:
        return
    prune = Prune(compaction_id="p", pruned=found.seqs, tokens_before=2, tokens_after=1)
    after = project(numbered([*grown, prune]))
    check_pairing(after.wire_messages())
    shape.messages(after.wire_messages())
    assert after.messages[: found.first] == before.messages[: found.first]
    assert [
        m for m in after.messages if m.is_answer and m.first_seq >= kept_from(before, keep)
    ] == [m for m in before.messages if m.is_answer and m.first_seq >= kept_from(before, keep)]
    first = min(found.seqs)
    for message in after.messages:
        if message.role == "assistant" and message.first_seq > first:
            assert all(block["type"] != "thinking" for block in message.content)
    texts = [m.content for m in after.messages if m.role == "user" and not m.is_answer]
    assert texts == [m.content for m in before.messages if m.role == "user" and not m.is_answer]


def kept_from(projection: Projection, index: int) -> int:
    messages = projection.messages
    return messages[index].first_seq if index < len(messages) else 10**9


def choice(records: list[AnyRecord]) -> object:
    projection = project(records)
    sizes = [size // 4 for size in chars(records)]
    context = Measured(projection.messages, sizes, 500, 500 + sum(sizes))
    return choose_prune(
        context,
        records,
        LIMITS,
        Rates(),
        lambda messages: sum(len(str(m.content)) // 4 for m in messages),
    )


def test_a_prune_is_chosen_where_outputs_are_most_of_the_context() -> None:
    assert choice(working(*["x" * 6_000] * 7)) is not None


def test_no_prune_is_chosen_that_would_not_land() -> None:
    begun, *work = working(*["x" * 6_000] * 5)

    def behind(talk: int) -> list[AnyRecord]:
        """The same outputs behind a conversation, which stays in the cache and makes it cheap."""
        said: list[AnyRecord] = []
        for _ in range(talk):
            said += [
                UserMessage(text="q", content=[text_block("q " * 2_000)]),
                AssistantMessage(content=[text_block("a " * 2_000)], model="m"),
            ]
        return numbered([begun, *said, *work])

    assert choice(behind(1)) is not None
    assert choice(behind(4)) is None


def test_no_prune_is_chosen_that_costs_more_than_a_summary() -> None:
    cost = {
        "before": 300_000,
        "unchanged": 10_000,
        "after_summary": 40_000,
        "summary_output": 3_000,
        "written_after_summary": 30_000,
        "rates": Rates(),
    }
    assert is_cheaper(after_prune=50_000, **cost)  # type: ignore[arg-type]
    assert not is_cheaper(after_prune=150_000, **cost)  # type: ignore[arg-type]
    assert not is_cheaper(after_prune=300_000, **cost)  # type: ignore[arg-type]
