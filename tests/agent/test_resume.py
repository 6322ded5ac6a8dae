"""What a crash leaves behind: of the server, and of the kernel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.prompts import system_prompt
from prime_ext.agent.service import AgentService
from prime_ext.context.projection import LOST_RESULT
from prime_ext.session.records import (
    AssistantMessage,
    CompactionStart,
    Queued,
    Restore,
    SessionStart,
    ToolResult,
    UserMessage,
)
from prime_ext.session.session import Session
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI


@pytest.fixture
def crashed(jp_serverapp: ServerApp, service: AgentService, notebook: str) -> Session:
    """A session whose server was killed inside a turn, in the middle of two calls."""
    store = jp_serverapp.web_app.settings["prime_sessions"]
    session: Session = store.create(
        SessionStart(
            version="0",
            notebook=notebook,
            provider="anthropic",
            model="claude-sonnet-5-5",
            permission_mode="auto",
            system=system_prompt(notebook, "Python 3"),
            tools=[
                {
                    "name": "run_code",
                    "description": "Run code.",
                    "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}},
                }
            ],
        )
    )
    calls = [
        {"type": "tool_use", "id": f"toolu_{i}", "name": "run_code", "input": {"code": f"{i}"}}
        for i in range(2)
    ]
    session.append(UserMessage(text="q", content=[{"type": "text", "text": "q"}], turn="t"))
    session.append(
        AssistantMessage(
            content=calls,
            model="claude-sonnet-5-5",
            turn="t",
            stop_reason="tool_use",
            usage={"input_tokens": 7},
            cost_usd=0.5,
        )
    )
    session.append(
        ToolResult(
            tool_use_id="toolu_0",
            name="run_code",
            content=[{"type": "text", "text": "0"}],
            turn="t",
        )
    )
    session.append(Queued(text="later"))
    session.append(
        CompactionStart(compaction_id="k", trigger="threshold", tokens_before=9, turn="t")
    )
    return session


async def test_a_turn_that_was_cut_off_is_closed_and_the_session_goes_on(
    crashed: Session, service: AgentService, messages_api: MessagesAPI
) -> None:
    session = Driver(service, crashed, messages_api)
    await service.agent(crashed)
    kinds = session.kinds()
    assert kinds[-3:] == ["compaction_end", "tool_result", "turn_end"]
    end = await session.record("turn_end")
    assert end.status == "crashed"
    assert (end.requests, end.usage, end.cost_usd) == (1, {"input_tokens": 7}, 0.5)
    lost = session.records("tool_result")[-1]
    assert isinstance(lost, ToolResult)
    assert (lost.tool_use_id, lost.content[0]["text"]) == ("toolu_1", LOST_RESULT)
    assert [q["text"] for q in service.describe(crashed)["queue"]] == ["later"]

    messages_api.enqueue(reply("Later it is."), reply("Back."))
    await session.send("Go on.")
    await session.requests(2)
    await session.record("turn_end", after=session.records("unqueued")[-1].seq)
    assert [r.user_text for r in messages_api.requests] == ["later", "Go on."]


async def test_opening_a_session_that_ended_well_changes_nothing(
    new_session: NewSession, service: AgentService
) -> None:
    session = await new_session()
    session.api.enqueue(reply("Hello."))
    await session.ask("Hi")
    before = session.kinds()
    await service.close_session(session.session)
    await service.agent(session.session)
    assert session.kinds() == before
    assert service.describe(session.session)["telemetry"]["requests"] == 1


async def test_a_kernel_that_dies_in_a_call_comes_back_with_its_variables(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(
        reply(call("run_code", code="frame = [1, 2, 3]\ndef total():\n    return sum(frame)")),
        reply("Defined."),
    )
    await session.ask("Define a frame.")
    await session.record("snapshot", outcome="ok")
    session.api.enqueue(
        reply(call("run_code", code="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")),
        reply(call("run_code", code="print(total())")),
        reply("Six."),
    )
    end = await session.ask("Crash and sum.")
    assert end.status == "ok"
    (restore,) = session.records("restore")
    assert isinstance(restore, Restore)
    assert (restore.outcome, restore.mode, restore.trigger) == ("ok", "cold", "crash")
    died, after = session.records("tool_result")[-2:]
    assert isinstance(died, ToolResult)
    assert died.is_error
    assert "frame" in died.content[-1]["text"]
    assert "6" in str(after)


async def test_a_kernel_that_dies_between_turns_comes_back_and_the_model_is_told(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="left = 7")), reply("Defined."))
    await session.ask("Define it.")
    await session.record("snapshot", outcome="ok")
    kernel = await jp_serverapp.session_manager.get_session(path=notebook)
    manager: Any = jp_serverapp.kernel_manager.get_kernel(kernel["kernel"]["id"])
    await manager.signal_kernel(9)
    restore = await session.record("restore")
    assert restore.outcome == "ok"
    session.api.enqueue(reply(call("run_code", code="print(left)")), reply("Seven."))
    await session.ask("Is it still there?")
    request = session.api.requests[-1]
    assert "kernel-event" in str(request.messages)
    assert "7" in request.tool_result_text


async def test_a_kernel_restarted_by_the_user_is_offered_its_variables(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="left = 7")), reply("Defined."))
    await session.ask("Define it.")
    await session.record("snapshot", outcome="ok")
    kernel = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.kernel_manager.restart_kernel(kernel["kernel"]["id"])
    offer = await session.record("restore")
    assert offer.outcome == "offered"
    done = await session.service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert done["outcome"] == "ok"
    session.api.enqueue(reply(call("run_code", code="print(left)")), reply("Seven."))
    await session.ask("Is it there?")
    assert "7" in session.api.requests[-1].tool_result_text


async def test_a_session_whose_kernel_is_gone_is_offered_its_variables(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="left = 7")), reply("Defined."))
    await session.ask("Define it.")
    await session.record("snapshot", outcome="ok")
    await session.service.close_session(session.session)
    kernel = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.session_manager.delete_session(kernel["id"])

    for _ in range(2):
        await session.service.agent(session.session)
        assert len(session.records("restore")) == 1
        await session.service.close_session(session.session)

    await session.service.agent(session.session)
    (offer,) = session.records("restore")
    assert isinstance(offer, Restore)
    assert (offer.outcome, offer.trigger) == ("offered", "resume")
    assert offer.snapshot_id is not None
    done = await session.service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert done["outcome"] == "ok"
    session.api.enqueue(reply(call("run_code", code="print(left)")), reply("Seven."))
    await session.ask("Is it there?")
    assert "7" in session.api.requests[-1].tool_result_text
    assert "kernel-event" in str(session.api.requests[-1].messages)


async def test_what_the_user_runs_is_saved_while_the_session_is_open(
    new_session: NewSession, service: AgentService
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="ours = 1")), reply("Defined."))
    await session.ask("Define it.")
    agent = await service.agent(session.session)
    await session.record("snapshot", outcome="ok")
    last = session.session.log.last_seq
    watching = asyncio.ensure_future(session.record("snapshot", outcome="ok", after=last))
    await session.frame(lambda f: f["type"] == "ready")
    await agent.kernel.execute("mine = 7", store_history=True)
    snapshot = await watching
    assert {"ours", "mine"} <= set(snapshot.names)


class TestWithoutSnapshots:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"SnapshotConfig": {"enabled": False}}

    async def test_a_restart_with_nothing_saved_is_no_news(
        self, new_session: NewSession, jp_serverapp: ServerApp, notebook: str
    ) -> None:
        session = await new_session()
        session.api.enqueue(reply(call("run_code", code="left = 7")), reply("Defined."))
        await session.ask("Define it.")
        kernel = await jp_serverapp.session_manager.get_session(path=notebook)
        await jp_serverapp.kernel_manager.restart_kernel(kernel["kernel"]["id"])
        session.api.enqueue(
            reply(call("run_code", code="print('left' in globals())")), reply("Gone.")
        )
        await session.ask("Is it there?")
        assert "False" in session.api.requests[-1].tool_result_text
        assert session.records("restore") == []
