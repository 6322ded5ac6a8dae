"""From records to what the model is sent."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.breakpoints import place_marks
from prime_ext.context.cut import cut_index
from prime_ext.context.projection import LOST_BEGINNING, LOST_RESULT, open_calls, project
from prime_ext.context.projector import Projector
from prime_ext.context.reduce import fitting
from prime_ext.context.server_side import edits
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    Prune,
    Settings,
    ToolResult,
    UserMessage,
)
from tests.context.conversations import BLOCK, histories, numbered, sessions, start, text_block
from tests.messages_api import server_side, shape
from tests.messages_api.catalogue import MODELS
from tests.messages_api.conversation import (
    check_marks,
    check_order,
    check_own_tools,
    check_pairing,
    marks,
)


def question(number: int = 0) -> UserMessage:
    return UserMessage(text="q", content=[text_block(f"question {number}")])


def calling(*ids: str) -> AssistantMessage:
    calls = [{"type": "tool_use", "id": i, "name": "run_code", "input": {}} for i in ids]
    return AssistantMessage(content=[text_block("Running."), *calls], model="m")


def result(call_id: str, text: str = "1") -> ToolResult:
    return ToolResult(tool_use_id=call_id, name="run_code", content=[text_block(text)])


def compacted(records: list[AnyRecord], kept_from: int | None) -> CompactionEnd:
    return CompactionEnd(
        seq=records[-1].seq + 1,
        compaction_id="k",
        outcome="ok",
        trigger="manual",
        path="single_pass",
        tokens_before=100,
        tokens_after=10,
        summary="<compaction-summary>\nwhat was\n</compaction-summary>",
        kept_from_seq=kept_from,
    )


def test_parallel_results_go_into_one_message_in_the_order_of_the_calls() -> None:
    records = numbered([start(), question(), calling("a", "b"), result("b"), result("a")])
    answer = project(records).messages[-1]
    assert [block["tool_use_id"] for block in answer.content] == ["a", "b"]


def test_a_call_without_result_is_answered_with_an_error() -> None:
    records = numbered([start(), question(), calling("a", "b"), result("a"), question(1)])
    messages = project(records).messages
    assert messages[-2].content[1]["is_error"] is True
    assert messages[-2].content[1]["content"][0]["text"] == LOST_RESULT
    assert [call["id"] for call in open_calls(records)] == ["b"]


def test_a_conversation_whose_first_message_is_lost_still_begins_as_the_api_wants() -> None:
    records = numbered([start(), question(), calling("a"), result("a"), question(1)])
    damaged = [records[0], *records[2:]]
    shown = 2
    projector = Projector(lambda: damaged[:shown])
    for shown in range(2, len(damaged) + 1):
        assert projector.now() == project(damaged[:shown])
    messages = project(damaged).wire_messages()
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "user"]
    assert messages[0]["content"][0]["text"] == LOST_BEGINNING
    check_pairing(messages)


def searching(*, found: bool) -> AssistantMessage:
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    answer = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    content = [text_block("Searching."), call, *([answer] if found else [])]
    return AssistantMessage(content=content, model="m", stop_reason="pause_turn")


def test_a_paused_reply_stays_with_its_continuation() -> None:
    answer = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    goes_on = AssistantMessage(content=[answer, text_block("Found.")], model="m")
    records = numbered([start(), question(), searching(found=False), goes_on, question(1)])
    messages = project(records).messages
    assert [m.role for m in messages] == ["user", "assistant", "assistant", "user"]
    assert messages[1].content[-1]["type"] == "server_tool_use"
    check_own_tools([message.wire for message in messages])
    assert cut_index(messages, [10] * 4, keep_tail_tokens=25) == 3
    assert cut_index(messages, [10] * 4, keep_tail_tokens=35) == 1
    older = fitting(messages, [10] * 4, 25, digest_chars=0)
    assert [message.role for message in older] == ["user", "user"]


def test_a_late_result_takes_its_place_behind_its_call() -> None:
    records = numbered([start(), question(), calling("a"), question(1), result("a", "late")])
    messages = project(records).messages
    assert messages[2].content[0]["content"][0]["text"] == "late"


def test_blank_text_is_left_out_and_a_blank_reply_altogether() -> None:
    blank = AssistantMessage(content=[text_block(" \n")], model="m")
    records = numbered([start(), question(), blank, question(1)])
    assert [message.role for message in project(records).messages] == ["user", "user"]


def test_an_empty_result_says_that_there_was_no_output() -> None:
    records = numbered([start(), question(), calling("a"), result("a", "")])
    assert project(records).messages[-1].content[0]["content"][0]["text"] == "(no output)"


def test_the_summary_stands_for_what_was_compacted_and_the_tail_stays() -> None:
    records = numbered([start(), question(), calling("a"), result("a"), question(1)])
    records.append(compacted(records, kept_from=5))
    messages = project(records).messages
    assert messages[0].content[0]["text"].startswith("<compaction-summary>")
    assert messages[1].content == [text_block("question 1")]
    assert len(messages) == 2


def test_a_kept_tail_loses_its_thinking_and_later_replies_keep_theirs() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    before = AssistantMessage(content=[thinking, text_block("before")], model="m")
    records = numbered([start(), question(), before])
    records.append(compacted(records, kept_from=2))
    after = AssistantMessage(seq=5, content=[thinking, text_block("after")], model="m")
    kept, later = project([*records, after]).messages[2:]
    assert kept.content == [text_block("before")]
    assert later.content == [thinking, text_block("after")]


def test_a_failed_compaction_changes_nothing() -> None:
    records = numbered([start(), question(), calling("a"), result("a")])
    failed = CompactionEnd(
        seq=5,
        compaction_id="k",
        outcome="failed",
        trigger="manual",
        tokens_before=1,
        tokens_after=1,
    )
    assert project([*records, failed]).messages == project(records).messages


def test_a_model_chosen_before_the_first_reply_counts_at_once_and_a_later_one_does_not() -> None:
    chosen = Settings(model="claude-opus-5-5")
    early = numbered([start(), chosen, question()])
    late = numbered([start(), question(), calling("a"), result("a"), chosen])
    assert project(early).model == "claude-opus-5-5"
    assert project(late).model == "claude-sonnet-5-5"


def test_a_compaction_brings_in_the_model_that_was_chosen() -> None:
    records = numbered([start(), question(), calling("a"), result("a")])
    end = compacted(records, None)
    records.append(msgspec.structs.replace(end, model="claude-opus-5-5"))
    records.append(msgspec.structs.replace(end, seq=end.seq + 1))
    assert project(records).model == "claude-opus-5-5"


def test_records_that_do_not_begin_with_a_start_are_refused() -> None:
    with pytest.raises(ValueError, match="session_start"):
        project([question()])


@given(histories())
def test_every_context_is_a_conversation_the_api_takes(records: list[AnyRecord]) -> None:
    projection = project(records)
    assert projection == project(records)
    messages = projection.wire_messages()
    check_pairing(messages)
    check_own_tools(messages)
    if messages and messages[-1]["role"] == "user":
        check_order(messages)
    if messages:
        system, marked = place_marks(projection.system, messages)
        check_marks(marks(system, projection.tools, marked), None)
        shape.messages(messages, compacted=True)
    places = [
        (i, j)
        for i, message in enumerate(messages)
        for j, block in enumerate(message["content"])
        if block["type"] == "compaction"
    ]
    assert places in ([], [(0, 0)])
    asked = edits(projection.messages)
    if asked:
        server_side.check_edits({"edits": asked}, MODELS[0])


def test_what_is_kept_follows_at_once_on_a_block_of_the_servers() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    before = AssistantMessage(content=[thinking, text_block("before")], model="m")
    records = numbered([start(), question(), question(1), before])
    end = msgspec.structs.replace(compacted(records, kept_from=4), block=BLOCK, keeps_thinking=True)
    later = numbered([*records, end, question(2)])
    block, kept, code, asked = project(later).messages
    assert (block.role, block.content) == ("assistant", [BLOCK])
    assert kept.content == [thinking, text_block("before")]
    assert code.content == [text_block(end.summary or "")]
    assert asked.content == [text_block("question 2")]
    # Once the server has refused it, it is a summary like any other.
    text, kept, asked = project(numbered([*later, Settings(server_side=False)])).messages
    assert text.role == "user"
    assert kept.content == [text_block("before")]


@pytest.mark.parametrize("refused", [False, True])
def test_what_the_server_leaves_out_is_sent_whole_until_it_refuses(refused: bool) -> None:
    long = result("a", "row " * 1_000)
    records: list[AnyRecord] = [start(), question(), calling("a"), long, calling("b"), result("b")]
    prune = Prune(compaction_id="p", pruned=[4], tokens_before=2, tokens_after=1, by_server=True)
    after = numbered([*records, prune, *([Settings(server_side=False)] if refused else [])])
    messages = project(after).messages
    whole = messages[2].content[0]["content"][0]["text"] == "row " * 1_000
    assert whole is not refused
    assert messages[2].cleared == (frozenset() if refused else {"a"})
    kept = {"type": "tool_uses", "value": 1}
    expected = [{"type": "clear_tool_uses_20250919", "trigger": kept, "keep": kept}]
    assert edits(messages) == ([] if refused else expected)


@given(sessions(), st.data())
def test_a_context_only_grows_at_its_end(records: list[AnyRecord], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(records)))
    # A request is only ever sent when every call has its result.
    if not open_calls(records[:cut]):
        before = project(records[:cut]).wire_messages()
        assert project(records).wire_messages()[: len(before)] == before


@given(sessions(), st.integers(0, 2_000))
def test_no_cut_separates_a_call_from_its_result(records: list[AnyRecord], keep: int) -> None:
    projection = project(records)
    sizes = [len(str(message.content)) for message in projection.messages]
    cut = cut_index(projection.messages, sizes, keep)
    kept = projection.messages[cut].first_seq if cut < len(projection.messages) else None
    check_pairing([message.wire for message in projection.messages[:cut]])
    after = project([*records, compacted(records, kept)])
    check_pairing(after.wire_messages())
    tail = [m.content for m in after.messages[1:]]
    bare = [[b for b in m.content if b["type"] != "thinking"] for m in projection.messages[cut:]]
    assert tail == [content for content in bare if content]


@given(sessions())
def test_the_question_without_a_reply_is_never_cut_away(records: list[AnyRecord]) -> None:
    asked = [*records, UserMessage(seq=records[-1].seq + 1, text="?", content=[text_block("?")])]
    messages = project(asked).messages
    sizes = [1_000] * len(messages)
    assert cut_index(messages, sizes, keep_tail_tokens=10) <= len(messages) - 1
