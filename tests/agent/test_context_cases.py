"""The cases a context engine must survive, T1 to T12, each in a live session or on its records.

Every request of these tests goes to the strict test API, which refuses orphaned calls, altered or
stale thinking, blank text and oversized prompts as the real one does.
"""

from __future__ import annotations

import base64
import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from PIL import Image

from prime_ext.agent.service import AgentService
from prime_ext.context.cut import cut_index
from prime_ext.context.note import Note, fingerprint, holds
from prime_ext.context.projection import project
from prime_ext.context.tokens import measure_block
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    Prune,
    Snapshot,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_compaction import LONG, SUMMARY, is_summary_request, summarising
from tests.context.conversations import numbered, start, text_block
from tests.messages_api.received import Received
from tests.messages_api.script import (
    Answer,
    Failure,
    Thinking,
    ToolCall,
    call,
    reply,
    too_long,
)

ROWS = "print('\\n'.join(f'row {i}: {i * 7919 % 10007}' for i in range(380)))"
"""Code whose output takes about 3,600 tokens."""

SMALL = {
    "max_context_tokens": 24_000,
    "prefire_margin_tokens": 1,
    "keep_tail_tokens": 4_000,
    "tool_result_cap_tokens": 6_500,
}
"""A threshold that a few outputs reach, and no note ahead of it."""


def tool_use(identifier: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": "run_code", "input": {"code": "1"}}


def result(identifier: str, text: str = "1") -> ToolResult:
    return ToolResult(tool_use_id=identifier, name="run_code", content=[text_block(text)])


def conversation(*records: AnyRecord) -> list[AnyRecord]:
    return numbered([start(), *records])


def question(text: str) -> UserMessage:
    return UserMessage(text=text, content=[text_block(text)])


def answer(*blocks: dict[str, Any]) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="m")


async def outputs_until(session: Driver, kind: str, *, thinking: bool = False) -> None:
    """Have code run that prints much, one turn each, until there is a record of ``kind``."""
    running = True

    def respond(request: Received) -> Answer:
        nonlocal running
        if is_summary_request(request):
            return reply(SUMMARY)
        running = not running
        thought = [Thinking("Let me see.")] if thinking else []
        return reply(*thought, "Done.") if running else reply(*thought, call("run_code", code=ROWS))

    session.api.respond = respond
    for number in range(12):
        end = await session.ask(f"Rows, part {number}.")
        assert end.status == "ok", session.records("error")
        if session.records(kind):
            return
    raise AssertionError(f"No {kind} came.")


def test_t1_a_cut_does_not_come_between_a_call_and_its_result() -> None:
    records = conversation(
        question("a"),
        answer(tool_use("c1")),
        result("c1"),
        answer(tool_use("c2")),
        result("c2"),
        question("b"),
    )
    messages = project(records).messages
    # The tail may hold the question and the result of c2, but not the call itself.
    cut = cut_index(messages, [10] * len(messages), keep_tail_tokens=25)
    assert [m.content[0]["type"] for m in messages[cut:]] == ["text"]


async def test_t2_a_compaction_asked_for_during_a_call_waits_for_its_result(
    new_session: NewSession,
) -> None:
    session = await new_session(permission_mode="ask")
    session.api.respond = summarising(
        reply(f"Looking. {LONG}", call("run_code", code="1 + 1")), reply("Two.")
    )
    await session.service.compact(session.session, None, "ada")
    await session.record("compaction_end", outcome="skipped")
    await session.send("How much is it?")
    asked = await session.record("approval_request")
    await session.service.compact(session.session, None, "ada")
    assert len(session.records("compaction_start")) == 1
    await session.allow(asked.call_id)
    await session.record("turn_end", status="ok")
    kinds = session.kinds()
    assert kinds.index("tool_result") < len(kinds) - 1 - kinds[::-1].index("compaction_start")
    assert session.records("compaction_end")[-1].outcome == "ok"  # type: ignore[union-attr]


def test_t3_a_call_whose_run_died_is_answered_before_anything_is_sent() -> None:
    records = conversation(question("a"), answer(tool_use("c1")), question("b"))
    messages = project(records).wire_messages()
    assert messages[2]["content"][0]["tool_use_id"] == "c1"
    assert messages[2]["content"][0]["is_error"] is True
    assert messages[3]["content"] == [text_block("b")]


class TestPruning:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {
            "ContextConfig": SMALL,
            "ModelConfig": {"thinking_tokens": 1_024, "model": "claude-sonnet-5-5"},
        }

    async def test_old_outputs_give_way_first_without_a_request(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        await outputs_until(session, "prune")
        (prune,) = session.records("prune")
        (end,) = session.records("compaction_end")
        assert isinstance(prune, Prune)
        assert isinstance(end, CompactionEnd)
        assert (end.path, end.outcome, end.request_tokens) == ("prune", "ok", 0)
        assert end.compaction_id == prune.compaction_id
        assert end.tokens_after <= 12_000 < end.tokens_before
        assert end.compaction_count == 1
        (saved,) = [
            record
            for record in session.records("snapshot")
            if isinstance(record, Snapshot) and record.trigger == "compaction"
        ]
        # While the turn's own capture is under way, a compaction does without one, and says so.
        assert end.kernel_state["status"] == "current" or saved.outcome == "skipped"
        assert not [r for r in session.api.requests if is_summary_request(r)]
        sent = session.api.requests[-1].messages if end.trigger == "threshold" else None
        await session.ask("Go on.")
        sent = sent or session.api.requests[-1].messages
        results = {
            block["tool_use_id"]: block["content"][0]["text"]
            for message in sent
            for block in message["content"]
            if block["type"] == "tool_result"
        }
        whole = {
            r.tool_use_id: r for r in session.records("tool_result") if isinstance(r, ToolResult)
        }
        shown = [whole[i].seq for i, text in results.items() if "left out here" in text]
        assert shown == prune.pruned
        for identifier, text in results.items():
            if whole[identifier].seq in prune.pruned:
                assert f"session_read {whole[identifier].seq}" in text
                assert text.startswith("row 0: 0")
        # What was shortened can be read again.
        excerpt = session.session.read(prune.pruned[:1])[0].text
        assert "row 200: " in excerpt

    async def test_who_asks_for_a_compaction_gets_a_summary(self, new_session: NewSession) -> None:
        """Though old outputs would make enough room."""
        session = await new_session()
        await outputs_until(session, "prune")
        session.api.respond = lambda request: (
            reply(SUMMARY)
            if is_summary_request(request)
            else reply("Done.")
            if request.tool_result_text
            else reply(call("run_code", code=ROWS))
        )
        for _ in range(2):
            await session.ask("Once more.")
        await session.service.compact(session.session, None, "ada")
        end = await session.record("compaction_end", trigger="manual")
        assert (end.outcome, end.path) == ("ok", "single_pass")
        assert len(session.records("prune")) == 1

    async def test_t4_thinking_goes_back_whole_or_not_at_all(self, new_session: NewSession) -> None:
        session = await new_session()
        # The strict API refuses altered, partly removed and displaced thinking.
        await outputs_until(session, "prune", thinking=True)
        for _ in range(3):
            assert (await session.ask("And?")).status == "ok"
        assert not session.records("error")

    async def test_t11_a_size_around_the_threshold_is_pruned_once(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        await outputs_until(session, "prune")
        session.api.respond = lambda _request: reply("Yes.")
        await session.ask("Still the same?")
        for _ in range(4):
            before = session.api.requests[-1]
            await session.ask("Still the same?")
            assert session.api.requests[-1].begins_with(before)
        assert len(session.records("prune")) == 1
        assert not session.records("error")


class TestTail:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {
            "ContextConfig": {**SMALL, "keep_tail_tokens": 9_000, "landing_share": 0.85},
            "ModelConfig": {"thinking_tokens": 1_024, "model": "claude-sonnet-5-5"},
        }

    async def test_t5_no_stale_thinking_behind_a_summary(self, new_session: NewSession) -> None:
        session = await new_session()
        texts = [reply(Thinking("Hm."), "\n".join(f"{i}: {i * 7919}" for i in range(400)))] * 12

        def respond(request: Received) -> Answer:
            return reply(SUMMARY) if is_summary_request(request) else texts.pop()

        session.api.respond = respond
        while not session.records("compaction_end"):
            assert (await session.ask("More.")).status == "ok"
        (end,) = session.records("compaction_end")
        assert isinstance(end, CompactionEnd)
        assert end.kept_from_seq is not None
        kept = [
            r
            for r in session.records("assistant_message")
            if end.kept_from_seq <= r.seq < end.seq and isinstance(r, AssistantMessage)
        ]
        assert any(block["type"] == "thinking" for r in kept for block in r.content)
        for _ in range(3):
            assert (await session.ask("And?")).status == "ok"
        assert not session.records("error")


class TestThinking:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"thinking_tokens": 1_024, "model": "claude-sonnet-5-5"}}

    async def test_no_stale_thinking_behind_an_image_that_is_left_out(
        self, new_session: NewSession, jp_root_dir: Path
    ) -> None:
        session = await new_session()
        Image.new("RGB", (60, 40)).save(jp_root_dir / "plot.png")
        session.api.respond = summarising(
            reply(Thinking("An image."), call("read_file", path="plot.png")),
            reply(Thinking("It is black."), f"Black. {LONG}"),
        )
        assert (await session.ask("What is in plot.png?")).status == "ok"
        session.api.enqueue(Failure(413))
        await session.service.compact(session.session, None, "ada")
        end = await session.record("compaction_end")
        assert isinstance(end, CompactionEnd)
        assert (end.outcome, end.path) == ("ok", "single_pass")
        asked = [request for request in session.api.requests if is_summary_request(request)]
        assert [request.status for request in asked] == [413, 200]
        assert len(asked[1].messages) == len(asked[0].messages)

    async def test_a_session_that_was_moved_goes_on_without_its_earlier_thinking(
        self, new_session: NewSession, service: AgentService, jp_serverapp: ServerApp
    ) -> None:
        session = await new_session()
        session.api.respond = summarising(
            reply(Thinking("Rows."), LONG),
            *(reply(Thinking(f"Again {i}."), f"Here, {i}.") for i in range(4)),
        )
        await session.ask("Rows.")
        await session.idle()
        await session.service.compact(session.session, None, "ada")
        await session.record("compaction_end", outcome="ok")
        await session.idle()
        assert (await session.ask("And?")).status == "ok"
        await session.idle()
        await service.close_session(session.session)
        # Another path of the log in the summary turn, which stands before the thinking.
        folder = session.session.folder
        moved = folder.with_name("20260714-093012-5f0c2a9b71de")
        shutil.copytree(folder, moved, ignore=shutil.ignore_patterns("session.lock"))
        store = jp_serverapp.web_app.settings["prime_sessions"]
        session = Driver(service, await store.opened(moved.name), session.api)
        assert (await session.ask("Still there?")).status == "ok"
        assert (await session.ask("And there?")).status == "ok"
        assert [request.status for request in session.api.requests[-3:]] == [400, 200, 200]
        blocks = [
            block["thinking"]
            for message in session.api.requests[-1].messages
            for block in message["content"]
            if block["type"] == "thinking"
        ]
        assert blocks == ["Again 1."]
        assert not session.records("error")


async def test_t6_a_summary_refused_as_too_long_steps_down(new_session: NewSession) -> None:
    session = await new_session()
    asked: list[Received] = []

    def respond(request: Received) -> Answer:
        if not is_summary_request(request):
            return reply(LONG)
        asked.append(request)
        return too_long(205_030, 200_000)

    session.api.respond = respond
    for _ in range(4):
        await session.ask(f"The code is 4711-abc. {LONG}")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.path) == ("ok", "digest")
    assert end.tokens_after < end.tokens_before
    assert "4711-abc" in str(end.summary)
    assert 2 <= len(asked) <= 4
    sizes = [len(str(request.messages)) for request in asked]
    assert sizes == sorted(sizes, reverse=True)
    # What the server said of its window holds from now on, after a restart too.
    (settings,) = session.records("settings")
    assert settings.windows == {session.session.model: 200_000}  # type: ignore[union-attr]
    threshold = session.service.describe(session.session)["state"]["threshold"]
    assert threshold < 200_000


async def test_t6_a_smaller_request_that_is_taken_makes_the_summary(
    new_session: NewSession,
) -> None:
    session = await new_session()
    refused = [too_long(205_030, 200_000)]

    def respond(request: Received) -> Answer:
        if is_summary_request(request):
            return refused.pop() if refused else reply(SUMMARY)
        return reply(LONG)

    session.api.respond = respond
    for _ in range(4):
        await session.ask(LONG)
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.path) == ("ok", "single_pass")
    assert not session.records("error")


@pytest.mark.parametrize("factor", [1, 3])
async def test_t6_what_is_sent_after_a_refusal_fits_as_the_server_counts(
    new_session: NewSession, factor: int
) -> None:
    session = await new_session()
    session.api.respond = lambda r: reply(SUMMARY if is_summary_request(r) else LONG)
    for _ in range(4):
        await session.ask(LONG)
    # The server's window is smaller than it said, and a text has more tokens than ever before.
    spec = session.api.models[session.session.model]
    session.api.models[spec.id] = replace(spec, factor=spec.factor * factor, window=34_000 * factor)
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.path) == ("ok", "single_pass")
    asked = [request for request in session.api.requests if is_summary_request(request)]
    assert [request.status for request in asked] == [400, 200]
    assert [LONG in str(request.messages) for request in asked] == [True, True]


class TestT7:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {"max_context_tokens": 1_500}}

    async def test_t7_an_overhead_over_the_threshold_is_one_error_and_no_compaction(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = lambda _request: reply("Hello.")
        await session.ask("Hi")
        await session.ask("Hi again")
        assert not session.records("compaction_start")
        (error,) = session.records("error")
        assert error.code == "threshold_too_small"  # type: ignore[union-attr]
        assert "max_context_tokens" in error.hint  # type: ignore[union-attr]


class TestT8:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {"max_context_tokens": 60_000}}

    async def test_t8_a_huge_result_is_capped_before_it_is_sent(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = summarising(
            reply(call("run_code", code="print('\\n'.join(str(i * 7919) for i in range(40_000)))")),
            reply("Long."),
        )
        assert (await session.ask("Print.")).status == "ok"
        (record,) = session.records("tool_result")
        assert isinstance(record, ToolResult)
        assert record.output_file is not None
        whole = (session.session.folder / "outputs" / record.output_file).read_text("utf-8")
        assert str(39_999 * 7919) in whole
        sent = [position.tokens for position in session.api.requests[-1].positions[-1:]]
        # As the model counts: 5 % of the threshold, which its estimate may miss a little.
        assert 2_000 < sent[0] < 3_300
        assert len(session.records("compaction_start")) <= 1


async def test_t9_after_a_compaction_the_size_is_unknown_until_the_next_reply(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = summarising(reply(LONG), reply("Hi."))
    await session.ask("Hello")
    assert session.service.describe(session.session)["state"]["context_tokens"] > 0
    await session.service.compact(session.session, None, "ada")
    await session.record("compaction_end", outcome="ok")
    assert session.service.describe(session.session)["state"]["context_tokens"] is None
    end = await session.ask("And?")
    assert isinstance(end, TurnEnd)
    assert end.context_tokens
    assert len(session.records("compaction_start")) == 1


def test_t10_a_note_outlives_what_is_appended_and_no_edit_of_its_prefix() -> None:
    records = conversation(
        question("a"), answer(tool_use("c1")), result("c1", "x" * 5_000), answer(text_block("b"))
    )
    before = project(records)
    note = Note("…", records[-1].seq, fingerprint(before, len(before.messages)))
    grown = numbered([*records, question("c"), answer(text_block("d"))])
    assert holds(note, project(grown))
    pruned = numbered(
        [*records, Prune(compaction_id="p", pruned=[4], tokens_before=2, tokens_after=1)]
    )
    assert not holds(note, project(pruned))


def test_t12_what_dense_content_weighs() -> None:
    picture = io.BytesIO()
    noise = bytes(range(256)) * (1_600 * 1_200 * 3 // 256)
    Image.frombytes("RGB", (1_600, 1_200), noise).save(picture, "PNG", compress_level=0)
    image = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(picture.getvalue()).decode(),
        },
    }
    assert len(picture.getvalue()) > 2.5 * 2**20
    assert measure_block(image, 4_784).raw <= 4_784
    dense = base64.b64encode(bytes((i * i * 31) % 251 for i in range(750_000))).decode()
    assert measure_block(text_block(dense)).raw >= 700_000
    assert measure_block(text_block("模型数据分析" * 1_667)).raw >= 10_000


class TestRefill:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {
            "ContextConfig": {
                "max_context_tokens": 16_000,
                "prefire_margin_tokens": 1,
                "tool_result_cap_tokens": 9_000,
            }
        }

    async def test_a_context_that_refills_at_once_stops_and_names_what_fills_it(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        code = ROWS.replace("380", "900")

        def respond(request: Received) -> Answer:
            if is_summary_request(request):
                return reply(SUMMARY)
            return reply(ToolCall("run_code", {"code": code}))

        session.api.respond = respond
        end = await session.ask("Print for ever.")
        assert end.status == "error"
        (error,) = session.records("error")
        assert error.code == "context_refills"  # type: ignore[union-attr]
        assert "results of run_code" in error.message  # type: ignore[union-attr]
        automatic = [r for r in session.records("compaction_end") if r.outcome == "ok"]  # type: ignore[union-attr]
        assert len(automatic) == 3
        # A person can go on.
        session.api.respond = summarising(reply("Stopped printing."))
        assert (await session.ask("Stop that.")).status == "ok"
