"""A turn that waits for a person across the end of the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.errors import PrimeError
from prime_ext.events.emitter import SCHEMA_ID, SESSION_ACTIVITY
from prime_ext.session.records import Approval, AssistantMessage, TurnEnd, UserMessage
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.script import call, reply


@pytest.fixture
def notebook(jp_root_dir: Path) -> str:
    node = nbformat.v4.new_notebook()
    node.cells = [nbformat.v4.new_code_cell("x = 1", id="one")]
    nbformat.write(node, jp_root_dir / "work.ipynb")
    return "work.ipynb"


async def waiting(new_session: NewSession, *calls: Any, **options: Any) -> tuple[Driver, str]:
    """A session that asks about the first of ``calls``, and the id of that call."""
    session = await new_session(permission_mode="ask", **options)
    session.api.enqueue(reply(*calls))
    await session.send("Do it.")
    return session, (await session.record("approval_request")).call_id


async def restart(session: Driver) -> None:
    """The server stops, and its successor opens the session."""
    await session.end_server()
    await session.service.agent(session.session)


async def test_everyone_is_told_of_what_waits(
    new_session: NewSession, jp_serverapp: ServerApp, jp_root_dir: Path
) -> None:
    events = jp_serverapp.event_logger
    assert events is not None
    told: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    async def listen(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        told.put_nowait((data["session_id"], data["notebook"], data["activity"]))

    events.add_listener(schema_id=SCHEMA_ID.format(SESSION_ACTIVITY), listener=listen)

    async def tells(activity: str) -> None:
        event = await asyncio.wait_for(told.get(), 10)
        assert event == (session.session.id, "work.ipynb", activity)

    async def active() -> list[tuple[str, list[str]]]:
        return [
            (session.service.activity(one), [a["call_id"] for a in one.approvals])
            for one in await session.service.active()
        ]

    session, first = await waiting(new_session, call("run_code", code="print(6 * 7)"))
    await tells("working")
    await tells("waiting")
    assert await active() == [("waiting", [first])]
    # A server that stops takes nothing back, and its successor knows without opening the session.
    await session.end_server()
    assert await active() == [("waiting", [first])]
    notebook = jp_root_dir / "work.ipynb"
    notebook.rename(jp_root_dir / "away")
    assert await active() == []
    (jp_root_dir / "away").rename(notebook)

    session.api.enqueue(reply("Done."))
    await session.service.agent(session.session)
    await tells("waiting")
    await session.deny(first)
    await session.idle()
    assert await active() == []
    while (await asyncio.wait_for(told.get(), 10))[2] != "idle":
        pass
    assert told.empty()


async def test_the_rest_of_the_turn_follows_the_answer(new_session: NewSession) -> None:
    session, first = await waiting(
        new_session, call("run_code", code="print(6 * 7)"), call("run_code", code="print(2)")
    )
    await restart(session)
    assert session.records("turn_end") == []
    assert [a["call_id"] for a in session.service.describe(session.session)["approvals"]] == [first]
    assert (await session.service.agent(session.session)).state()["phase"] == "approval"

    session.api.enqueue(reply("Done."))
    last = session.session.log.last_seq
    await session.allow(first)
    second = await session.record("approval_request", after=last)
    assert second.call_id != first
    await session.deny(second.call_id)
    end = await session.record("turn_end")
    assert isinstance(end, TurnEnd)
    assert (end.status, end.requests) == ("ok", 2)
    assert "42" in session.api.requests[-1].tool_result_text
    kinds = session.kinds()
    assert kinds.count("user_message") == kinds.count("turn_end") == 1


async def test_more_than_one_restart_and_then_a_no(new_session: NewSession) -> None:
    session, call_id = await waiting(new_session, call("run_code", code="print(1)"))
    await restart(session)
    await restart(session)
    session.api.enqueue(reply("As you wish."))
    await session.deny(call_id)
    assert (await session.record("turn_end")).status == "ok"
    assert session.kinds().count("approval_request") == 1
    with pytest.raises(PrimeError) as caught:
        await session.allow(call_id)
    assert caught.value.code == "approval_decided"
    assert caught.value.message == "Already answered in another tab: denied."


async def test_allowed_for_the_session(new_session: NewSession) -> None:
    session, call_id = await waiting(new_session, call("run_code", code="print(1)"))
    await restart(session)
    session.api.enqueue(reply(call("run_code", code="print(2)")), reply("Done."))
    await session.allow(call_id, "session")
    assert (await session.record("turn_end")).status == "ok"
    assert session.kinds().count("approval_request") == 1


async def test_stop_and_the_queue(new_session: NewSession) -> None:
    session, _ = await waiting(new_session, call("run_code", code="print(1)"))
    await session.send("And then this.")
    await restart(session)
    await session.stop()
    end = await session.record("turn_end")
    assert end.status == "interrupted"
    (result,) = session.records("tool_result")
    assert result.is_error  # type: ignore[union-attr]
    described = session.service.describe(session.session)
    assert [q["text"] for q in described["queue"]] == ["And then this."]
    session.api.enqueue(reply("Fine."), reply("Fine too."))
    await session.send("Go on.")
    await session.requests(3)


async def test_an_edit_is_made_if_the_cell_is_as_it_was(
    new_session: NewSession, jp_root_dir: Path
) -> None:
    session, call_id = await waiting(new_session, call("edit_cell", cell_id="one", source="x = 2"))
    await restart(session)
    session.api.enqueue(reply("Done."))
    await session.allow(call_id)
    await session.record("turn_end")
    node = nbformat.read(jp_root_dir / "work.ipynb", as_version=4)
    assert node.cells[0].source == "x = 2"


async def test_what_was_approved_is_not_done_to_something_else(
    new_session: NewSession, jp_root_dir: Path
) -> None:
    session, call_id = await waiting(new_session, call("edit_cell", cell_id="one", source="x = 2"))
    await restart(session)
    path = jp_root_dir / "work.ipynb"
    node = nbformat.read(path, as_version=4)
    node.cells[0].source = "x = 1  # mine"
    nbformat.write(node, path)
    session.api.enqueue(reply("I see."))
    await session.allow(call_id)
    await session.record("turn_end")
    assert "changed since" in session.api.requests[-1].tool_result_text
    assert nbformat.read(path, as_version=4).cells[0].source == "x = 1  # mine"


@pytest.mark.parametrize(
    ("answer", "told"), [("allow", "changed since"), ("deny", "The user declined")]
)
async def test_what_can_only_fail_by_now_is_told_once_it_is_answered(
    answer: str, told: str, new_session: NewSession, jp_root_dir: Path
) -> None:
    session, call_id = await waiting(new_session, call("edit_cell", cell_id="one", source="x = 2"))
    path = jp_root_dir / "work.ipynb"
    node = nbformat.read(path, as_version=4)
    node.cells[0].metadata["editable"] = False
    nbformat.write(node, path)
    await restart(session)
    assert session.records("tool_result") == []
    session.api.enqueue(reply("I see."))
    await (session.allow(call_id) if answer == "allow" else session.deny(call_id))
    await session.record("turn_end")
    assert told in session.api.requests[-1].tool_result_text
    assert session.kinds().count("approval_request") == 1


class TestLimit:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"max_requests_per_turn": 1}}

    async def test_a_limit_is_asked_about_once(self, new_session: NewSession) -> None:
        session = await new_session()
        session.api.enqueue(reply(call("run_code", code="print(1)")))
        await session.send("Do it.")
        call_id = (await session.record("approval_request", what="limit")).call_id
        await restart(session)
        session.api.enqueue(reply("Done."))
        await session.allow(call_id)
        assert (await session.record("turn_end")).status == "ok"
        assert session.kinds().count("approval_request") == 1


class TestConsent:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"consent": "always"}}

    async def test_nothing_is_sent_before_the_answer(self, new_session: NewSession) -> None:
        session = await new_session()
        await session.send("Hello.")
        call_id = (await session.record("approval_request", what="consent")).call_id
        await restart(session)
        assert session.api.requests == []
        session.api.enqueue(reply("Hello."))
        await session.allow(call_id)
        assert (await session.record("turn_end")).status == "ok"

    async def test_asked_outside_of_a_turn_it_is_declined(self, new_session: NewSession) -> None:
        session = await new_session()
        session.session.append(
            UserMessage(text="q", content=[{"type": "text", "text": "q"}], turn="t")
        )
        session.session.append(
            AssistantMessage(
                content=[{"type": "text", "text": "a"}], model="m", turn="t", stop_reason="end_turn"
            )
        )
        session.session.append(TurnEnd(status="ok", turn="t"), sync=True)
        await session.service.compact(session.session, None, "ada")
        call_id = (await session.record("approval_request", what="consent")).call_id
        await restart(session)
        assert (await session.record("approval", call_id=call_id)).decision == "deny"
        assert session.service.describe(session.session)["approvals"] == []


async def test_a_crash_in_the_middle_of_a_call_is_still_repaired(
    new_session: NewSession, service: AgentService
) -> None:
    session, call_id = await waiting(new_session, call("run_code", code="print(1)"))
    await session.end_server()
    # Allowed, and then the server was killed: nobody knows whether it ran.
    turn = session.records("user_message")[0].turn
    session.session.append(Approval(call_id=call_id, decision="allow", turn=turn))
    await service.agent(session.session)
    assert (await session.record("turn_end")).status == "crashed"
