"""Sessions that nobody uses are closed, and are the same when they are opened again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.session.store import SessionStore
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_recovery import kernel_id, kill, saved
from tests.messages_api.script import call, reply


@pytest.fixture
def store(jp_serverapp: ServerApp) -> SessionStore:
    store: SessionStore = jp_serverapp.web_app.settings["prime_sessions"]
    return store


def again(session: Driver, store: SessionStore) -> Driver:
    """The session as a client finds it that comes back."""
    return Driver(session.service, store.get(session.session.id), session.api)


async def left_beside_a_guard(
    new_session: NewSession, service: AgentService, store: SessionStore
) -> tuple[Driver, Driver]:
    """Two sessions about a notebook whose kernel lives: the first, closed since, and the second."""
    left = await new_session()
    await saved(left, "x = 7")
    guard = await new_session()
    await saved(guard, "y = 8")
    await service.close_idle(0)
    assert store.open_ids() == {guard.session.id}
    return left, guard


async def test_a_session_is_closed_and_goes_on(
    new_session: NewSession, service: AgentService, store: SessionStore, jp_root_dir: Path
) -> None:
    session = await new_session(permission_mode="plan")
    session.api.enqueue(reply(call("read_notebook")), reply("Two cells."))
    await session.ask("What is in it?")
    await service.close_idle(3600)
    assert store.open_ids() == {session.session.id}  # not long enough
    await service.close_idle(0)
    assert store.open_ids() == frozenset()
    with store.exclusive(session.session.id) as log:  # another server could have it
        before = log.last_seq

    path = jp_root_dir / "work.ipynb"
    node = nbformat.read(path, as_version=4)
    node.cells[1].source = "x = 2"
    nbformat.write(node, path)
    session = again(session, store)
    session.api.enqueue(reply(call("read_notebook")), reply("One was changed."))
    assert (await session.ask("And now?")).status == "ok"
    first, last = session.api.requests[1], session.api.requests[3]
    assert last.messages[:2] == first.messages[:2]
    assert "edited: " in last.tool_result_text  # what it had seen is known still
    assert session.session.log.last_seq > before


async def test_what_goes_on_or_waits_keeps_it_open(
    new_session: NewSession, service: AgentService, store: SessionStore
) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(reply(call("run_code", code="1")), reply("Done."))
    await session.send("Run it.")
    request = await session.record("approval_request")
    await service.close_idle(0)
    assert store.open_ids() == {session.session.id}
    _, queued = await session.send("Then this.")
    assert queued
    await session.stop()
    await session.record("turn_end")
    await service.close_idle(0)
    assert store.open_ids() == {session.session.id}
    assert request.call_id
    await service.unqueue(session.session, session.records("queued")[0].seq, "ada")
    async with session.session.subscribe() as frames:
        async for frame in frames:
            if frame["type"] == "ready":
                break
        await service.close_idle(0)
        assert store.open_ids() == {session.session.id}
    await service.close_idle(0)
    assert store.open_ids() == frozenset()


async def test_who_asks_while_it_is_closed_gets_one_that_works(
    new_session: NewSession, service: AgentService, store: SessionStore
) -> None:
    session = await new_session()
    session.api.enqueue(*(reply("Yes.") for _ in range(5)))
    for number in range(5):
        closing = asyncio.create_task(service.close_idle(0))
        for _ in range(number):
            await asyncio.sleep(0)
        assert (await again(session, store).ask("There?")).status == "ok"
        await closing
    assert again(session, store).kinds().count("turn_end") == 5


async def test_one_session_stays_for_a_kernel_that_lives(
    new_session: NewSession,
    service: AgentService,
    store: SessionStore,
    jp_serverapp: ServerApp,
    notebook: str,
) -> None:
    _, guard = await left_beside_a_guard(new_session, service, store)
    after = guard.session.log.last_seq
    await kill(jp_serverapp, notebook)
    restored = await guard.record("restore", after=after)
    assert (restored.outcome, restored.trigger) == ("ok", "crash")
    model: Any = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.session_manager.delete_session(model["id"])
    await guard.record("restore", after=restored.seq, outcome="offered")
    await service.close_idle(0)
    assert store.open_ids() == frozenset()


async def test_a_restart_while_it_was_closed_is_noticed(
    new_session: NewSession,
    service: AgentService,
    store: SessionStore,
    jp_serverapp: ServerApp,
    notebook: str,
) -> None:
    left, _ = await left_beside_a_guard(new_session, service, store)
    before = left.session.log.last_seq
    await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
    left = again(left, store)
    await service.agent(left.session)
    offer = await left.record("restore", after=before)
    assert (offer.outcome, offer.trigger) == ("offered", "restart")
