"""What is left to the model's server, where it offers that: old results, and summaries."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from prime_ext.session.records import CompactionEnd, Prune
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_compaction import SUMMARY, is_summary_request
from tests.agent.test_prefire import (
    CONTEXT,
    background_done,
    compacted,
    is_rolled,
    note_made,
    rows,
)
from tests.messages_api.received import Received
from tests.messages_api.script import Answer, Thinking, call, reply

MODEL = "claude-sonnet-5-5"
COMPACTION_BETA = "compact-2026-09-04"


def is_on_server(request: Received) -> bool:
    return request.body.get("compaction") is not None


def betas(request: Received) -> str:
    return request.headers.get("anthropic-beta", "")


def kinds(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]


def refusals(session: Driver) -> list[str]:
    return [request.error for request in session.api.requests if request.error is not None]


class Model:
    """Thinks, and answers with rows; a request for a summary, of either kind, with ``summary``."""

    def __init__(self, summary: Answer | None = None) -> None:
        self.summary = summary or reply(SUMMARY)

    def __call__(self, request: Received) -> Answer:
        if is_on_server(request) or is_summary_request(request):
            return self.summary
        return reply(Thinking("Rows, then."), rows(200))


class TestCompaction:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {**CONTEXT, "server_side": "compaction"}}

    async def test_the_servers_block_stands_for_what_it_summarised(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = Model()
        note = await note_made(session)
        assert note.outcome == "ok"
        (asked,) = [r for r in session.api.requests if is_on_server(r)]
        assert asked.begins_with(session.api.requests[0])
        assert asked.usage["cache_read_input_tokens"] > 0.8 * asked.usage["input_tokens"]
        assert note.usage["cache_read_input_tokens"] > 1_000  # not the zeros of the sums

        end = await compacted(session)
        assert (end.path, end.request_tokens) == ("swap", 0)
        assert end.block == asked.reply[0]
        assert end.summary is not None
        assert SUMMARY not in end.summary
        await session.ask("And now?")
        sent = session.api.requests[-1].messages
        assert _unmarked(sent[0]) == {"role": "assistant", "content": [end.block]}
        # What was kept follows at once, thinking and all; code's part stands behind it.
        assert kinds(sent[1]) == ["thinking", "text"]
        (place,) = [
            i for i, message in enumerate(sent) if message["content"][0].get("text") == end.summary
        ]
        assert place > 1
        for part in ("<recovery_hint>", "<ledger>", "<kernel_state>", "Rows, part 0."):
            assert part in end.summary
        assert betas(session.api.requests[-1]) == COMPACTION_BETA
        assert betas(session.api.requests[0]) == ""
        assert refusals(session) == []

    async def test_a_block_is_compacted_again_and_survives_a_restart(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        model = Model()
        session.api.respond = model
        first = await compacted(session)
        await session.service.close_session(session.session)
        model.summary = reply("## Goal\nRows, again.")
        for number in range(20):
            await session.ask(f"Rows, later part {number}.")
            ends = session.records("compaction_end")
            if len(ends) == 2:
                break
        last = ends[-1]
        assert isinstance(last, CompactionEnd)
        assert last.block is not None
        assert last.block["content"] == "## Goal\nRows, again."
        asked = [r for r in session.api.requests if is_on_server(r)][-1]
        assert _unmarked(asked.messages[0])["content"] == [first.block]
        await session.ask("And now?")
        sent = session.api.requests[-1].messages
        blocks = [b for m in sent for b in m["content"] if b["type"] == "compaction"]
        assert [b["content"] for b in blocks] == ["## Goal\nRows, again."]
        assert str(sent).count("<recovery_hint>") == 1
        assert refusals(session) == []

    async def test_a_server_that_refuses_its_block_gets_the_text(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = Model()
        end = await compacted(session)
        spec = session.api.models[MODEL]
        session.api.models[MODEL] = replace(spec, compacts=False)
        assert (await session.ask("And now?")).status == "ok"
        # A note may have been begun behind the answer.
        asked = [r for r in session.api.requests if not (is_on_server(r) or is_summary_request(r))]
        refused, answered = asked[-2:]
        assert (refused.status, answered.status) == (400, 200)
        text = answered.messages[0]["content"][0]["text"]
        assert SUMMARY in text
        assert "<recovery_hint>" in text
        assert "thinking" not in [k for m in answered.messages for k in kinds(m)]
        assert betas(answered) == ""
        (settings,) = session.records("settings")
        assert settings.server_side is False  # type: ignore[union-attr]
        assert end.block is not None

    @pytest.mark.parametrize("why", ["not offered", "no summary"])
    async def test_the_clients_own_way_is_the_fallback(
        self, new_session: NewSession, why: str
    ) -> None:
        session = await new_session()
        if why == "not offered":
            spec = session.api.models[MODEL]
            session.api.models[MODEL] = replace(spec, compacts=False)
        model = Model()

        def respond(request: Received) -> Answer:
            if is_on_server(request):
                return reply(call("list_variables"))
            return model(request)

        session.api.respond = respond
        end = await compacted(session)
        assert (end.path, end.block) == ("swap", None)
        assert SUMMARY in str(end.summary)
        asked = [is_on_server(r) for r in session.api.requests if betas(r)]
        assert asked == ([] if why == "not offered" else [True])
        assert refusals(session) == []


class TestTextNotes:
    """The server makes no block for the first note, so that this is a text."""

    @pytest.fixture(params=["rolled", "merged"])
    def way(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def prime_config(self, way: str) -> dict[str, Any]:
        tail = 6_000 if way == "rolled" else 300
        context = {**CONTEXT, "keep_tail_tokens": tail, "server_side": "compaction"}
        return {"ContextConfig": context}

    async def test_thinking_is_never_behind_a_block_that_was_made_of_one(
        self, new_session: NewSession, way: str
    ) -> None:
        session = await new_session()
        model = Model()

        def respond(request: Received) -> Answer:
            begun = session.records("prefire_end")
            return model(request) if begun or not is_on_server(request) else reply(" ")

        session.api.respond = respond
        note = await note_made(session)
        assert (note.outcome, note.block) == ("ok", None)
        for number in range(30):
            await session.ask(f"Rows, later part {number}.")
            if way == "rolled":
                await background_done(session)
        rolls = [r for r in session.records("prefire_start") if is_rolled(r)]
        paths = [r.path for r in session.records("compaction_end") if isinstance(r, CompactionEnd)]
        assert rolls if way == "rolled" else "merge" in paths
        assert refusals(session) == []


class TestEditing:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        limits = {"max_context_tokens": 20_000, "keep_tail_tokens": 4_000}
        return {"ContextConfig": {**limits, "server_side": "context_editing"}}

    @staticmethod
    def looking(times: int) -> Any:
        """A model that looks at much output, so many times, and then is done."""
        code = "print('\\n'.join(f'row {i}: {i * 7919 % 10007}' for i in range(120)))"
        answers = [reply(Thinking("Look."), call("run_code", code=code)) for _ in range(times)]

        def respond(request: Received) -> Answer:
            if is_summary_request(request):
                return reply(SUMMARY)
            return answers.pop(0) if answers else reply("Done.")

        return respond

    async def test_the_server_leaves_out_the_same_results_from_then_on(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = self.looking(16)
        assert (await session.ask("Look at all rows.")).status == "ok"
        prunes = [r for r in session.records("prune") if isinstance(r, Prune)]
        assert prunes
        assert all(prune.by_server for prune in prunes)
        assert refusals(session) == []
        requests = [r for r in session.api.requests if not is_summary_request(r)]
        edited = [r for r in requests if r.body.get("context_management")]
        # What is sent never changes; what is read does, once for each prune.
        for before, after in pairwise(requests):
            assert after.begins_with(before)
        steps = {
            applied["cleared_tool_uses"]
            for record in session.records("assistant_message")
            for applied in record.applied_edits  # type: ignore[union-attr]
        }
        assert len(steps) == len(prunes)
        (first, *_) = prunes
        size = sum(position.tokens for position in edited[0].positions)
        assert size < first.tokens_before / 2
        assert edited[1].usage["cache_read_input_tokens"] > 0.8 * size
        assert any("thinking" in kinds(message) for message in edited[-1].messages)

    async def test_previews_take_over_where_the_server_does_not_do_it(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        respond = self.looking(24)

        def refusing(request: Received) -> Answer:
            if request.body.get("context_management"):
                spec = session.api.models[MODEL]
                session.api.models[MODEL] = replace(spec, clears_tool_uses=False)
            answer: Answer = respond(request)
            return answer

        session.api.respond = refusing
        assert (await session.ask("Look at all rows.")).status == "ok"
        (refused,) = [i for i, r in enumerate(session.api.requests) if r.status == 400]
        after = session.api.requests[refused + 1]
        assert "of this old output left out here" in str(after.messages)
        assert not any(
            r.body.get("context_management") for r in session.api.requests[refused + 1 :]
        )
        assert not session.records("error")


def _unmarked(message: dict[str, Any]) -> dict[str, Any]:
    return {
        **message,
        "content": [
            {k: v for k, v in b.items() if k != "cache_control"} for b in message["content"]
        ],
    }
