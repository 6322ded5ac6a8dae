"""Turns: requests, tools, errors, limits, Stop and the queue, over HTTP against the test API."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from prime_ext.agent.calls import NOT_RUN, STOPPED
from prime_ext.agent.permissions import DECLINED, PLAN_REFUSAL
from prime_ext.agent.titles import title_of
from prime_ext.context.image_limits import decoded_size
from prime_ext.context.projection import open_calls
from prime_ext.errors import PrimeError
from prime_ext.kernel.stream_text import MAX_STREAM_CHARS
from prime_ext.session.records import AssistantMessage, Error, ToolResult, UserMessage
from tests.agent.conftest import NewSession
from tests.messages_api.script import (
    Answer,
    Failure,
    Fault,
    Found,
    Search,
    Thinking,
    call,
    overloaded,
    rate_limited,
    reply,
)
from tests.messages_api.server import MessagesAPI
from tests.notebook.browser import FakeBrowser


async def test_a_question_and_its_answer(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(reply("Two cells: a heading and an assignment."))
    end = await session.ask("What is in the notebook?")
    assert (end.status, end.requests) == ("ok", 1)
    assert end.cost_usd is not None
    assert end.context_tokens is not None
    assert end.context_tokens > 1_000
    assert session.kinds() == [
        "session_start",
        "user_message",
        "title",
        "assistant_message",
        "checkpoint",
        "turn_end",
    ]
    assert session.session.title == "What is in the notebook?"
    message = session.records("user_message")[0]
    assert message.user == "ada"
    (request,) = session.api.requests
    assert request.user_text == "What is in the notebook?"


async def test_an_open_page_looks_at_the_file_before_a_turn_changes_the_notebook(
    new_session: NewSession, jp_serverapp: Any
) -> None:
    session = await new_session()
    hub = jp_serverapp.web_app.settings["prime_leases"]
    page = FakeBrowser(hub, "work.ipynb", {"cells": []}).connect()
    page.received.clear()
    session.api.enqueue(reply(call("insert_cell", source="x = 1")), reply("Inserted."))
    assert (await session.ask("Insert.")).status == "ok"
    frames = [frame["type"] for frame in page.received]
    assert frames[0] == "lease"
    assert "op" in frames


async def test_the_reply_streams_before_it_is_recorded(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(reply("One two three.", fault=Fault("pause", after=4)))
    await session.send("Count.")
    delta = await session.frame(lambda f: f["type"] == "delta" and f["block"] == "text")
    assert delta["text"]
    assert not session.records("assistant_message")
    session.api.resume()
    await session.record("turn_end")


async def test_code_runs_in_the_kernel_and_its_output_reaches_the_model(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(
        reply("Let me see.", call("run_code", code="print(6 * 7)")), reply("It is 42.")
    )
    end = await session.ask("What is six times seven?")
    assert end.requests == 2
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    assert "42" in session.api.requests[1].tool_result_text
    assert result.outputs[0]["text"].strip() == "42"
    assert session.api.requests[1].begins_with(session.api.requests[0])


async def test_of_more_output_than_is_kept_it_is_said_how_much_is_lost(
    new_session: NewSession,
) -> None:
    session = await new_session()
    code = "for number in range(20): print(str(number) * 1_000_000)"
    session.api.enqueue(reply(call("run_code", code=code)), reply("Much."))
    await session.ask("Print.")
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    assert result.output_file is not None
    kept = (session.session.folder / "outputs" / result.output_file).read_text()
    assert kept.startswith("000")
    assert kept.endswith("191919")
    written = sum(len(str(number) * 1_000_000) + 1 for number in range(20))
    assert result.left_out == written - MAX_STREAM_CHARS > 0
    said = session.api.requests[1].tool_result_text
    assert f"but for {result.left_out:,} characters that were too many to keep" in said


async def test_a_large_figure_is_sent_smaller_and_shown_as_it_is(new_session: NewSession) -> None:
    session = await new_session()
    code = "from PIL import Image\ndisplay(Image.new('L', (3000, 90)))\nImage.new('L', (60, 90))"
    session.api.enqueue(reply(call("run_code", code=code)), reply("Grey."))
    await session.ask("Draw.")
    (answer,) = session.api.requests[1].tool_results
    text, wide, narrow, note = answer["content"]
    assert "[image 1]" in text["text"]
    assert decoded_size(wide["source"]["data"]) == (2000, 60)
    assert decoded_size(narrow["source"]["data"]) == (60, 90)
    assert note["text"] == "[Image 1 is shown with 2000 × 60 pixels, smaller than its 3000 × 90.]"
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    shown = [output["data"]["image/png"] for output in result.outputs]
    assert decoded_size(shown[0]) == (3000, 90)
    assert shown[1] == {"content_index": 2}


async def test_parallel_calls_are_answered_together_in_order(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(
        reply(
            call("list_variables"),
            call("run_code", code="a = 5"),
            call("list_variables"),
            call("read_notebook"),
        ),
        reply("Done."),
    )
    await session.ask("Look around.")
    results = session.api.requests[1].tool_results
    called = session.api.requests[1].calls
    assert [r["tool_use_id"] for r in results] == [c["id"] for c in called]
    texts = [str(r["content"]) for r in results]
    assert "'a'" not in texts[0]
    assert "a" in texts[2]


async def test_an_unknown_tool_and_wrong_arguments_are_errors_the_model_can_act_on(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("launch_rocket"), call("run_code", source="1")), reply("Sorry."))
    end = await session.ask("Go.")
    assert end.status == "ok"
    unknown, wrong = session.api.requests[1].tool_results
    assert unknown["is_error"]
    assert wrong["is_error"]
    assert "run_code" in str(unknown["content"])
    assert "code" in str(wrong["content"])


async def test_input_that_is_not_json_is_an_error_the_model_can_act_on(
    new_session: NewSession,
) -> None:
    from tests.messages_api.script import ToolCall

    session = await new_session()
    session.api.enqueue(reply(ToolCall("run_code", {}, raw_json='{"code": "pri')), reply("Again."))
    end = await session.ask("Go.")
    assert end.status == "ok"
    (result,) = session.api.requests[1].tool_results
    assert result["is_error"]


async def test_a_call_cut_off_by_the_output_limit_is_not_run(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(
        reply(call("run_code", code="cut = 1"), stop_reason="max_tokens"),
        reply(call("run_code", code="'cut' in globals()")),
        reply("Not run."),
    )
    await session.ask("Go.")
    first, second = session.records("tool_result")
    assert isinstance(first, ToolResult)
    assert isinstance(second, ToolResult)
    assert first.is_error
    assert first.synthetic
    assert "False" in str(second.content)


SEARCH = (Thinking("Where?"), "Let me search.", Search("kernel of Jupyter", id="srvtoolu_1"))


async def test_a_reply_that_the_models_server_pauses_goes_on(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(
        reply(*SEARCH, stop_reason="pause_turn"),
        reply(
            Found("srvtoolu_1", ("ipykernel",)),
            Search("its version", id="srvtoolu_2"),
            stop_reason="pause_turn",
        ),
        reply(Found("srvtoolu_2", ("7.1",)), "It is ipykernel 7.1."),
        reply("You are welcome."),
    )
    end = await session.ask("Which kernel is it?")
    assert (end.status, end.requests) == ("ok", 3)
    first, second, third = session.api.requests
    assert second.messages[-1]["role"] == "assistant"
    assert [b["type"] for b in second.messages[-1]["content"]][-1] == "server_tool_use"
    assert second.messages[-1]["content"][-1]["input"] == {"query": "kernel of Jupyter"}
    assert second.begins_with(first)
    assert third.begins_with(second)
    assert (await session.ask("Thanks.")).status == "ok"
    assert session.api.requests[3].begins_with(third)
    assert not session.records("error")


@pytest.mark.parametrize("has_more", [True, False])
async def test_a_paused_reply_that_did_not_go_on_does_not_spoil_the_conversation(
    has_more: bool, new_session: NewSession
) -> None:
    session = await new_session()
    parts = SEARCH if has_more else SEARCH[2:]
    session.api.enqueue(
        reply(*parts, stop_reason="pause_turn"), Failure(400, "It cannot go on."), reply("Hello.")
    )
    assert (await session.ask("Which kernel is it?")).status == "error"
    assert (await session.ask("Hello?")).status == "ok"
    (error,) = session.records("error")
    assert isinstance(error, Error)
    assert error.code == "bad_request"
    assert "Let me search." in str(session.api.requests[-1].messages) or not has_more
    assert "server_tool_use" not in str(session.api.requests[-1].messages)


async def test_a_paused_reply_that_finds_the_window_full_is_summarised(
    new_session: NewSession,
) -> None:
    session = await new_session()
    answers: list[Answer] = [
        reply("Rows. " * 3_000, *SEARCH, stop_reason="pause_turn"),
        Failure(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        reply("## Goal\nFind out which kernel it is.\n\n## Data\nNone.\n\n## Next\nSearch."),
        reply("It is ipykernel."),
    ]
    session.api.enqueue(*answers)
    assert (await session.ask("Which kernel is it?")).status == "ok"
    (end,) = session.records("compaction_end")
    assert (end.trigger, end.outcome, end.path) == ("overflow", "ok", "single_pass")  # type: ignore[union-attr]
    assert session.api.requests[-1].messages[-1]["role"] == "user"


async def test_retries_are_shown_and_leave_no_trace(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(rate_limited(0.01), overloaded(), reply("Here."))
    await session.send("Hello?")
    shown = await session.frame(lambda f: f["type"] == "progress" and f["what"] == "retry")
    assert shown["attempt"] == 1
    assert shown["message"]
    await session.record("turn_end", status="ok")
    assert not session.records("error")


async def test_a_stream_cut_half_way_is_sent_again_and_what_came_is_void(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply("Half an ans", fault=Fault("cut", after=4)), reply("A whole one."))
    await session.send("Tell me.")
    await session.frame(lambda f: f["type"] == "delta_reset")
    await session.record("turn_end", status="ok")
    (message,) = session.records("assistant_message")
    assert isinstance(message, AssistantMessage)
    assert message.content[-1]["text"] == "A whole one."


async def test_a_wrong_key_ends_the_turn_with_what_to_do(
    new_session: NewSession, messages_api: MessagesAPI
) -> None:
    session = await new_session()
    messages_api.key = "another"
    end = await session.ask("Hello?")
    assert end.status == "error"
    error = await session.record("error", code="bad_credentials")
    assert error.hint
    messages_api.key = "test-key-0123456789"
    messages_api.enqueue(reply("Back."))
    assert (await session.ask("And now?")).status == "ok"


# --- Stop -------------------------------------------------------------------------------------


async def test_stop_while_the_model_streams_keeps_what_came(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(reply("Once upon a time", fault=Fault("pause", after=5)), reply("Fine."))
    await session.send("A story.")
    await session.frame(lambda f: f["type"] == "delta" and f["block"] == "text")
    await session.stop()
    await session.record("turn_end", status="interrupted")
    assert session.kinds()[-3:] == ["assistant_message", "interrupt", "turn_end"]
    assert (await session.ask("Something else.")).status == "ok"


async def test_stop_while_code_runs_interrupts_the_kernel_and_closes_the_calls(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(
        reply(
            call("run_code", code="import time\nprint('going')\ntime.sleep(600)"),
            call("run_code", code="never = 1"),
        ),
        reply("All right."),
        reply(call("run_code", code="1 + 1")),
        reply("Two."),
    )
    await session.send("Wait long.")
    await session.frame(lambda f: f["type"] == "progress" and bool(f.get("outputs")), after=0)
    await session.stop()
    await session.record("turn_end", status="interrupted")
    running, waiting = session.records("tool_result")
    assert isinstance(running, ToolResult)
    assert isinstance(waiting, ToolResult)
    assert STOPPED in running.content[0]["text"]
    assert NOT_RUN in waiting.content[0]["text"]
    assert running.outputs[0]["text"] == "going\n"
    await session.ask("Go on.")
    end = await session.ask("Is the kernel free?")
    assert end.status == "ok"
    assert "2" in str(session.records("tool_result")[-1])


async def test_a_key_that_code_puts_out_is_not_shown_on_the_way_either(
    new_session: NewSession, messages_api: MessagesAPI
) -> None:
    session = await new_session()
    code = f"import time\nprint({messages_api.key!r}[::1], flush=True)\ntime.sleep(0.5)"
    hidden = code.replace(messages_api.key, "' + '".join(messages_api.key.partition("-")))
    session.api.enqueue(reply(call("run_code", code=hidden)), reply("Done."))
    shown = asyncio.create_task(
        session.frame(lambda f: f["type"] == "progress" and bool(f.get("outputs")))
    )
    await session.send("Print it.")
    assert (await shown)["outputs"][0]["text"] == "[key]\n"
    await session.record("turn_end")


async def test_stop_before_anything_has_happened(new_session: NewSession) -> None:
    session = await new_session()
    await session.send("Hello")
    await session.stop()
    end = await session.record("turn_end")
    assert end.status == "interrupted"
    (interrupt,) = session.records("interrupt")
    assert interrupt.user == "ada"


async def test_stop_while_a_person_is_asked(new_session: NewSession) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(reply(call("run_code", code="x = 1")))
    await session.send("Set it.")
    await session.record("approval_request")
    await session.stop()
    await session.record("turn_end", status="interrupted")
    assert (await session.record("interrupt")).phase == "approval"


async def test_stop_while_a_retry_waits(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(rate_limited(50))
    await session.send("Hello")
    await session.frame(lambda f: f["type"] == "progress" and f["what"] == "retry", after=0)
    await session.stop()
    await session.record("turn_end", status="interrupted")
    assert (await session.record("interrupt")).phase == "retry"


async def test_stop_at_any_moment_leaves_a_conversation_that_goes_on(
    new_session: NewSession,
) -> None:
    session = await new_session()
    for moment in range(0, 24, 2):
        session.api.respond = lambda request: (
            reply("Looking.", call("list_variables"), call("run_code", code="x = 1"))
            if not request.calls or request.user_text.startswith("Look")
            else reply("Done.")
        )
        after = session.session.log.last_seq
        async with session.session.subscribe(after) as frames:
            await session.send(f"Look, {moment}.")
            seen = 0
            async for _ in frames:
                seen += 1
                if seen > moment:
                    break
        await session.stop()
        await session.record("turn_end", after=after, status="interrupted")
        assert not open_calls(session.session.log.read())
        session.api.respond = lambda _request: reply("Fine.")
        assert (await session.ask(f"Go on, {moment}.")).status == "ok"


async def test_stop_when_nothing_runs(new_session: NewSession) -> None:
    session = await new_session()
    assert await session.service.interrupt(session.session, "ada") is False


# --- the queue --------------------------------------------------------------------------------


async def test_messages_sent_while_busy_wait_and_are_answered_in_order(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(
        reply("First.", fault=Fault("pause", after=4)), reply("Second."), reply("Third.")
    )
    assert (await session.send("one"))[1] is False
    second, queued = await session.send("two")
    assert queued
    third, _ = await session.send("three")
    assert [q["seq"] for q in session.service.describe(session.session)["queue"]] == [second, third]
    await session.frame(lambda f: f["type"] == "delta", after=0)
    session.api.resume()
    await session.requests(3)
    await session.record("turn_end", after=session.records("unqueued")[-1].seq)
    assert [r.user_text for r in session.api.requests] == ["one", "two", "three"]
    assert session.service.describe(session.session)["queue"] == []


async def test_a_queued_message_can_be_taken_back(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(reply("First.", fault=Fault("pause", after=4)))
    await session.send("one")
    seq, _ = await session.send("two")
    await session.service.unqueue(session.session, seq, "ada")
    with pytest.raises(PrimeError) as error:
        await session.service.unqueue(session.session, seq, "ada")
    assert error.value.code == "not_queued"
    await session.frame(lambda f: f["type"] == "delta", after=0)
    session.api.resume()
    await session.record("turn_end")
    assert len(session.api.requests) == 1


async def test_stop_keeps_the_queue_and_the_next_message_goes_behind_it(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply("First.", fault=Fault("pause", after=4)))
    await session.send("one")
    await session.frame(lambda f: f["type"] == "delta", after=0)
    await session.send("two")
    await session.stop()
    await session.record("turn_end", status="interrupted")
    assert len(session.service.describe(session.session)["queue"]) == 1
    session.api.enqueue(reply("Second."), reply("Third."))
    _, queued = await session.send("three")
    assert queued
    await session.requests(3)
    await session.record("turn_end", after=session.records("unqueued")[-1].seq)
    assert [r.user_text for r in session.api.requests] == ["one", "two", "three"]


async def test_what_a_stop_holds_back_is_sent_on_request(new_session: NewSession) -> None:
    session = await new_session()
    assert not await session.service.send_queued(session.session)
    session.api.enqueue(reply("First.", fault=Fault("pause", after=4)))
    await session.send("one")
    await session.frame(lambda f: f["type"] == "delta", after=0)
    await session.send("two")
    await session.send("three")
    assert not await session.service.send_queued(session.session)
    await session.stop()
    await session.record("turn_end", status="interrupted")
    await session.idle()
    session.api.enqueue(reply("Second."), reply("Third."))
    assert await session.service.send_queued(session.session)
    await session.requests(3)
    await session.record("turn_end", after=session.records("unqueued")[-1].seq)
    assert [r.user_text for r in session.api.requests] == ["one", "two", "three"]
    assert session.service.describe(session.session)["queue"] == []


# --- approvals --------------------------------------------------------------------------------


async def test_running_code_waits_for_approval_and_a_denial_is_respected(
    new_session: NewSession,
) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(
        reply(call("run_code", code="denied = 1")),
        reply(call("run_code", code="'denied' in globals()")),
        reply("As you like."),
    )
    await session.send("Run it.")
    request = await session.record("approval_request")
    assert request.tool == "run_code"
    assert "denied = 1" in (request.detail or "")
    assert session.service.describe(session.session)["approvals"][0]["call_id"] == request.call_id
    await session.deny(request.call_id)
    with pytest.raises(PrimeError) as error:
        await session.allow(request.call_id)
    assert error.value.status == 409
    second = await session.record("approval_request", after=request.seq)
    await session.allow(second.call_id)
    await session.record("turn_end", status="ok")
    first, again = session.records("tool_result")
    assert isinstance(first, ToolResult)
    assert first.content[0]["text"] == DECLINED
    assert "False" in str(again)


async def test_an_approval_for_the_session_is_asked_once(new_session: NewSession) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(
        reply(call("run_code", code="1")), reply(call("run_code", code="2")), reply("Done.")
    )
    await session.send("Run both.")
    request = await session.record("approval_request")
    await session.allow(request.call_id, "session")
    await session.record("turn_end", status="ok")
    assert len(session.records("approval_request")) == 1


async def test_plan_mode_runs_nothing(new_session: NewSession) -> None:
    session = await new_session(permission_mode="plan")
    session.api.enqueue(reply(call("run_code", code="1")), reply("I would run 1."))
    await session.ask("Do it.")
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    assert result.content[0]["text"] == PLAN_REFUSAL


async def test_plan_mode_holds_for_a_question_that_waited(new_session: NewSession) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(reply(call("run_code", code="1")), reply("I would run 1."))
    await session.send("Run it.")
    request = await session.record("approval_request")
    await session.service.update(session.session, permission_mode="plan", user="ada")
    await session.allow(request.call_id)
    result = await session.record("tool_result")
    assert result.content[0]["text"] == PLAN_REFUSAL


async def test_stop_reaches_a_pending_approval(new_session: NewSession) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(reply(call("run_code", code="1")))
    await session.send("Run it.")
    request = await session.record("approval_request")
    await session.stop()
    await session.record("turn_end", status="interrupted")
    with pytest.raises(PrimeError) as error:
        await session.allow(request.call_id)
    assert error.value.code == "approval_not_found"


async def test_an_approval_that_was_never_asked_for(new_session: NewSession) -> None:
    session = await new_session()
    with pytest.raises(PrimeError) as error:
        await session.allow("nothing")
    assert error.value.status == 404


# --- caps -------------------------------------------------------------------------------------


class TestCaps:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"max_requests_per_turn": 2}}

    async def test_a_runaway_turn_stops_and_asks(self, new_session: NewSession) -> None:
        session = await new_session()
        session.api.respond = lambda _request: reply(call("list_variables"))
        await session.send("Loop.")
        request = await session.record("approval_request", what="limit")
        assert len(session.api.requests) == 2
        await session.allow(request.call_id)
        again = await session.record("approval_request", what="limit", after=request.seq)
        assert len(session.api.requests) == 4
        await session.deny(again.call_id)
        end = await session.record("turn_end")
        assert end.status == "limit"
        assert end.requests == 4


class TestConsent:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"consent": "always"}}

    async def test_nothing_leaves_before_the_person_agreed_and_they_are_asked_once(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.enqueue(reply("Hello."), reply("Again."))
        await session.send("Hi")
        request = await session.record("approval_request", what="consent")
        assert "127.0.0.1" in request.detail
        assert session.api.requests == []
        await session.allow(request.call_id)
        await session.record("turn_end", status="ok")
        other = await new_session()
        assert (await other.ask("Hi")).status == "ok"
        assert not other.records("approval_request")

    async def test_a_person_who_declines_is_asked_again_next_time(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        await session.send("Hi")
        request = await session.record("approval_request", what="consent")
        await session.deny(request.call_id)
        await session.record("error", code="consent_declined")
        await session.record("turn_end", status="error")
        assert session.api.requests == []
        await session.send("Hi")
        await session.record("approval_request", what="consent", after=request.seq)
        await session.stop()


# --- one kernel -------------------------------------------------------------------------------


@pytest.mark.parametrize("renamed", [False, True])
async def test_two_sessions_of_one_notebook_take_turns(
    new_session: NewSession, jp_fetch: Any, notebook: str, renamed: bool
) -> None:
    first, second = await new_session(), await new_session()
    first.api.enqueue(reply("One.", fault=Fault("pause", after=4)), reply("Two."))
    await first.send("one")
    await first.frame(lambda f: f["type"] == "delta", after=0)
    if renamed:
        body = '{"path": "renamed.ipynb"}'
        await jp_fetch("api", "contents", notebook, method="PATCH", body=body)
        await second.record("settings", notebook="renamed.ipynb")
    await second.send("two")
    waiting = await second.frame(lambda f: f["type"] == "progress" and f["what"] == "wait", after=0)
    assert waiting["message"]
    first.api.resume()
    await asyncio.gather(first.record("turn_end"), second.record("turn_end"))
    assert [r.user_text for r in first.api.requests] == ["one", "two"]


async def test_a_request_that_does_not_begin_with_the_one_before_is_told(
    new_session: NewSession, caplog: pytest.LogCaptureFixture
) -> None:
    session = await new_session()
    session.api.enqueue(reply("One."), reply("Two."), reply("Three."))
    await session.ask("First.")
    await session.ask("Second.")
    assert session.records("error") == []
    first = session.session.context_records()[1]
    assert isinstance(first, UserMessage)
    first.content[0]["text"] = "Changed."  # as no code may do
    end = await session.ask("Third.")
    (error,) = session.records("error")
    assert isinstance(error, Error)
    assert (end.status, error.code, error.where) == ("ok", "prefix_changed", "session")
    assert "Prompt cache missed: messages_changed" in caplog.text


async def test_bad_messages_are_refused(new_session: NewSession) -> None:
    session = await new_session()
    for text, code, status in (
        ("  \n", "empty_message", 400),
        ("x" * 2**21, "message_too_large", 413),
    ):
        with pytest.raises(PrimeError) as error:
            await session.send(text)
        assert (error.value.code, error.value.status) == (code, status)
        assert error.value.hint
    assert session.kinds() == ["session_start"]


async def test_a_tour_is_played_whatever_the_model(new_session: NewSession) -> None:
    session = await new_session(permission_mode="plan")
    session.api.enqueue(reply("Hello."), reply("Back."))
    await session.ask("Hi")
    await session.ask("/tour")
    assert len(session.api.requests) == 1
    message = session.records("assistant_message")[1]
    assert isinstance(message, AssistantMessage)
    assert message.model == "offline"
    end = await session.ask("And now?")
    assert end.status == "ok"
    assert session.api.requests[1].begins_with(session.api.requests[0])


def test_titles() -> None:
    assert title_of("Load penguins.csv,\nplease") == "Load penguins.csv, please"
    assert title_of("word " * 40) == " ".join(["word"] * 11) + "…"
    assert len(title_of("x" * 500)) == 60
    assert title_of("Run this:\n```python\nx = 1\n```\nand tell.") == "Run this: x = 1 and tell."
    assert title_of("~~~\nx = 1\n~~~") == "x = 1"
    assert title_of("```") == "```"


async def test_a_page_and_the_agent_that_start_a_kernel_at_once_get_the_same(
    new_session: NewSession, jp_fetch: Any, notebook: str
) -> None:
    session = await new_session()
    agent = await session.service.agent(session.session)
    # By a random path: the page gives the session the notebook's once the kernel is there.
    page = {"path": str(uuid.uuid4()), "name": notebook, "type": "notebook"}
    opened, used = await asyncio.gather(
        jp_fetch("api", "sessions", method="POST", body=json.dumps(page)), agent.kernel.ensure()
    )
    model = json.loads(opened.body)
    assert model["kernel"]["id"] == used
    path = json.dumps({"path": notebook})
    await jp_fetch("api", "sessions", model["id"], method="PATCH", body=path)
    assert len(json.loads((await jp_fetch("api", "sessions")).body)) == 1
    assert len(json.loads((await jp_fetch("api", "kernels")).body)) == 1


@pytest.mark.parametrize("outside", [True, False], ids=["outside of Jupyter", "through Jupyter"])
async def test_a_notebook_that_is_moved_keeps_its_kernel(
    new_session: NewSession, jp_root_dir: Path, jp_fetch: Any, outside: bool
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="kept = 42")), reply("Done."))
    await session.ask("Set it.")
    if outside:
        (jp_root_dir / "work.ipynb").rename(jp_root_dir / "moved.ipynb")
        await session.service.update(session.session, notebook="moved.ipynb")
    else:
        body = '{"path": "moved.ipynb"}'
        await jp_fetch("api", "contents", "work.ipynb", method="PATCH", body=body)
        await session.record("settings", notebook="moved.ipynb")
    session.api.enqueue(reply(call("run_code", code="kept")), reply("It is 42."))
    await session.ask("Is it there?")
    (result,) = session.api.requests[-1].tool_results
    assert result["content"] == [{"type": "text", "text": "42"}]
    assert not session.records("restore")
    (known,) = json.loads((await jp_fetch("api", "sessions")).body)
    assert known["path"] == "moved.ipynb"
