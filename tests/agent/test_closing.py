"""Sessions that are closed, deleted or opened at the same moment."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.agent import Agent
from prime_ext.agent.attachment_reader import AttachmentReader
from prime_ext.agent.captures import Captures
from prime_ext.agent.lifecycle import Lifecycle, Stage
from prime_ext.agent.service import AgentService
from prime_ext.agent.session_context import SessionContext
from prime_ext.agent.tools import runs
from prime_ext.agent.tools.runs import Runs
from prime_ext.errors import PrimeError
from prime_ext.notebook import cell_run
from prime_ext.notebook.writer import NotebookWriter
from prime_ext.session.store import SessionStore
from tests.agent.conftest import NewSession
from tests.agent.test_recovery import kill, saved
from tests.messages_api.script import call, reply


@pytest.fixture
def store(jp_serverapp: ServerApp) -> SessionStore:
    store: SessionStore = jp_serverapp.web_app.settings["prime_sessions"]
    return store


class HeldUp:
    """A method of every agent, which waits before it begins."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.ended: list[Agent] = []
        method = getattr(Agent, name)

        async def held_up(agent: Agent, *arguments: Any, **options: Any) -> None:
            self.begun.set()
            await self.goes_on.wait()
            await method(agent, *arguments, **options)
            self.ended.append(agent)

        monkeypatch.setattr(Agent, name, held_up)


async def test_whoever_uses_a_session_that_is_being_closed_waits_until_it_is(
    new_session: NewSession, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await new_session()).session
    before = await service.agent(session)
    close = HeldUp("close", monkeypatch)
    closing = asyncio.create_task(service.close_session(session))
    await close.begun.wait()
    using = asyncio.create_task(service.agent(session))
    waits, _ = await asyncio.wait([using], timeout=0.5)
    assert not waits, "two agents would write one session"
    close.goes_on.set()
    await closing
    after = await using
    assert after is not before
    assert close.ended == [before]


async def test_outputs_on_their_way_to_the_file_arrive_though_the_server_stops(
    new_session: NewSession,
    jp_serverapp: ServerApp,
    jp_root_dir: Path,
    notebook: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the disk takes."""
    driver = await new_session()
    writing, goes_on, agent_closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    write, close = NotebookWriter.write_here, Agent.close

    async def slow(writer: NotebookWriter, path: str, operation: Any, **options: Any) -> Any:
        if operation["op"] == "run_result":
            writing.set()
            await goes_on.wait()
        return await write(writer, path, operation, **options)

    async def closed(agent: Agent, **options: Any) -> None:
        await close(agent, **options)
        agent_closed.set()

    monkeypatch.setattr(Agent, "close", closed)
    monkeypatch.setattr(NotebookWriter, "write_here", slow)
    monkeypatch.setattr(cell_run, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(runs, "STOP_SECONDS", 0.01)
    cell = nbformat.read(jp_root_dir / notebook, 4).cells[1]
    driver.api.enqueue(reply(call("run_cell", cell_id=cell.id)))
    await driver.send("Run it.")
    await writing.wait()
    stopping = asyncio.create_task(jp_serverapp.cleanup_extensions())
    await agent_closed.wait()
    ended, _ = await asyncio.wait({stopping}, timeout=0.5)
    assert not ended
    goes_on.set()
    await stopping
    assert nbformat.read(jp_root_dir / notebook, 4).cells[1].execution_count == 1


async def test_a_session_that_is_deleted_meanwhile_gets_no_agent(
    new_session: NewSession, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await new_session()).session
    close = HeldUp("close", monkeypatch)
    deleting = [asyncio.create_task(service.delete_session(session)) for _ in range(2)]
    await close.begun.wait()
    sending = asyncio.create_task(service.submit(session, "Hello?", None, "ada"))
    close.goes_on.set()
    await deleting[0]
    for late in (deleting[1], sending):
        with pytest.raises(PrimeError) as refused:
            await late
        assert (refused.value.code, refused.value.status) == ("session_not_found", 404)
    assert len(close.ended) == 1
    assert not session.folder.exists()


async def test_a_message_that_comes_too_late_begins_no_turn(
    new_session: NewSession, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await new_session()
    reading, goes_on = asyncio.Event(), asyncio.Event()
    read = AttachmentReader.read

    async def slow(*arguments: Any) -> Any:
        reading.set()
        await goes_on.wait()
        return await read(*arguments)

    monkeypatch.setattr(AttachmentReader, "read", slow)
    sending = asyncio.create_task(driver.send("Look at this."))
    await reading.wait()
    await service.close_session(driver.session)
    goes_on.set()
    with pytest.raises(PrimeError) as refused:
        await sending
    assert (refused.value.code, refused.value.status) == ("session_not_found", 404)
    assert driver.records("user_message") == []


async def test_what_is_queued_behind_a_restore_stays_queued_when_the_session_is_closed(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    tmp_path: Path,
) -> None:
    driver = await new_session()
    gate = tmp_path / "gate"
    await saved(
        driver,
        "class Slow:\n    def __reduce__(self): return (slow, ())\n"
        f"def slow(path={str(gate)!r}):\n"
        "    import os, time\n"
        "    while os.path.exists(path): time.sleep(0.01)\n"
        "    return object.__new__(type('Slow', (), {}))\n"
        "slowly = Slow()",
    )
    gate.touch()
    restoring = asyncio.ensure_future(
        driver.frame(lambda f: f["type"] == "progress" and f.get("what") == "kernel")
    )
    await kill(jp_serverapp, notebook)
    await restoring
    _, queued = await driver.send("Is it there?")
    assert queued
    agent = await service.agent(driver.session)
    await service.close_session(driver.session)
    assert (len(agent.history.queue), agent.state()["phase"]) == (1, "idle")


async def test_an_agent_that_is_being_opened_as_the_server_stops_is_closed_as_well(
    new_session: NewSession, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await new_session()).session
    await service.close_session(session)
    opens, close = HeldUp("open", monkeypatch), HeldUp("close", monkeypatch)
    close.goes_on.set()
    opening = asyncio.create_task(service.agent(session))
    await opens.begun.wait()
    stopping = asyncio.create_task(service.close())
    opens.goes_on.set()
    await stopping
    assert close.ended == [await opening]


async def test_no_agent_is_opened_for_a_request_that_waits_while_the_server_stops(
    new_session: NewSession, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await new_session()).session
    opened: list[Agent] = []
    open_agent = Agent.open

    async def noted(agent: Agent) -> None:
        opened.append(agent)
        await open_agent(agent)

    monkeypatch.setattr(Agent, "open", noted)
    close = HeldUp("close", monkeypatch)
    stopping = asyncio.create_task(service.close())
    await close.begun.wait()
    waiting = asyncio.create_task(service.agent(session))
    await asyncio.sleep(0)
    close.goes_on.set()
    await stopping
    for late in (waiting, service.agent(session)):
        with pytest.raises(PrimeError) as refused:
            await late
        assert (refused.value.code, refused.value.status) == ("server_stopping", 503)
    assert opened == []


async def test_an_agent_that_could_not_be_opened_leaves_the_kernel_alone(
    new_session: NewSession, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await new_session()).session
    kernel = (await service.agent(session)).kernel
    await service.close_session(session)
    before = len(kernel.on_state), len(kernel.on_restarted)

    def fail(_agent: Agent) -> None:
        raise OSError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Agent, "publish_state", fail)
        with pytest.raises(OSError, match="broken"):
            await service.agent(session)
    assert (len(kernel.on_state), len(kernel.on_restarted)) == before
    assert (await service.agent(session)).kernel is kernel


@pytest.mark.parametrize("broken", [(Runs, "close"), (Captures, "before_end")])
async def test_what_does_not_close_well_keeps_nothing_else_open(
    new_session: NewSession,
    service: AgentService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: tuple[type, str],
) -> None:
    driver = await new_session()
    driver.api.enqueue(reply(call("run_code", code="x = 1")), reply("Done."))
    await driver.ask("Run it.")
    ended: list[type] = []

    def follow(part: Any) -> None:
        close = part.close

        async def closed(self: Any) -> None:
            ended.append(part)
            await close(self)

        monkeypatch.setattr(part, "close", closed)

    async def fail(*_arguments: Any) -> None:
        raise RuntimeError("broken")

    follow(Captures)
    follow(SessionContext)
    monkeypatch.setattr(*broken, fail)
    await service.close()
    assert ended == [Captures, SessionContext]
    errors = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [str(error) for error in errors] == ["broken"]


async def test_a_store_that_is_held_does_not_hold_up_the_server(
    new_session: NewSession, service: AgentService, store: SessionStore
) -> None:
    other = (await new_session()).session
    await service.close_session(other)
    used = store.used(other.id)
    assert used is not None
    store.release(other.id, used)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> bool:
        with store.exclusive(other.id):
            held.set()
            return let_go.wait(5)

    holding = asyncio.create_task(asyncio.to_thread(hold))
    await asyncio.to_thread(held.wait, 5)
    looking = asyncio.create_task(service.close_idle(0))
    await asyncio.sleep(0)
    let_go.set()
    assert await holding, "the event loop stood still for as long"
    await looking


@pytest.mark.parametrize(
    "stages",
    [
        (Stage.CLOSED,),
        (Stage.OPEN, Stage.OPENING),
        (Stage.OPEN, Stage.CLOSED),
        (Stage.CLOSING, Stage.OPEN),
        (Stage.OPEN, Stage.CLOSING, Stage.CLOSING),
        (Stage.CLOSING, Stage.CLOSED, Stage.OPEN),
    ],
)
async def test_a_stage_that_cannot_follow(stages: tuple[Stage, ...]) -> None:
    lifecycle = Lifecycle()
    *possible, impossible = stages
    for stage in possible:
        lifecycle.move_to(stage)
    with pytest.raises(RuntimeError, match="cannot be"):
        lifecycle.move_to(impossible)
    assert lifecycle.stage is (possible[-1] if possible else Stage.OPENING)
