"""A run and a Jupyter server on one notebook: one agent works, the other does not begin."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.errors import PrimeError
from tests.agent.driver import Driver
from tests.headless.conftest import Process, Start
from tests.messages_api.script import Fault, reply
from tests.messages_api.server import MessagesAPI


@pytest.fixture
def jp_root_dir(folder: Path) -> Path:
    """The folder above the one where runs are started: the paths of sessions differ."""
    return folder.parent


@pytest.fixture
def environment(environment: dict[str, str], jp_data_dir: Path) -> dict[str, str]:
    return {**environment, "JUPYTER_DATA_DIR": str(jp_data_dir)}


@pytest.fixture
def in_lab(
    jp_serverapp: ServerApp, jp_asyncio_loop: asyncio.AbstractEventLoop, messages_api: MessagesAPI
) -> Driver:
    service: AgentService = jp_serverapp.web_app.settings["prime_agent"]
    starting = service.start_session("work/work.ipynb", permission_mode="auto")
    session = jp_asyncio_loop.run_until_complete(starting)
    return Driver(service, session, messages_api)


@pytest.fixture
def run(start: Start, messages_api: MessagesAPI) -> Process:
    """A run in the middle of its model's answer, which goes on with ``messages_api.resume()``."""
    messages_api.enqueue(reply("Let me look.", fault=Fault("pause", after=4)))
    process = start("work.ipynb", "Go.", "--yes")
    messages_api.wait_for_requests(1)
    return process


async def test_a_turn_waits_for_a_run_says_so_and_goes_on_by_itself(
    run: Process, in_lab: Driver, jp_fetch: Any, messages_api: MessagesAPI
) -> None:
    answer = await jp_fetch("prime", "api", "sessions", params={"active": "true"})
    [elsewhere] = json.loads(answer.body)["elsewhere"]
    assert datetime.fromisoformat(elsewhere.pop("since")).tzinfo is not None
    assert elsewhere == {
        "notebook": "work/work.ipynb",
        "url": None,
        "pid": run.popen.pid,
        "host": None,
    }
    messages_api.enqueue(reply("Mine."))
    assert not (await in_lab.send("Go."))[1]
    progress = await in_lab.frame(lambda f: f["type"] == "progress" and f["what"] == "wait")
    assert f"in use by `jupyter prime run` (process {run.popen.pid}, " in progress["message"]
    assert in_lab.session.state["phase"] == "wait"
    assert len(messages_api.requests) == 1
    messages_api.resume()
    end = await in_lab.record("turn_end")
    assert end.status == "ok"
    assert await asyncio.to_thread(run.end) == 0
    assert run.out == "Let me look.\n"
    answer = await jp_fetch("prime", "api", "sessions", params={"active": "true"})
    assert json.loads(answer.body)["elsewhere"] == []


async def test_a_turn_that_waits_can_be_stopped(run: Process, in_lab: Driver) -> None:
    await in_lab.send("Go.")
    await in_lab.frame(lambda f: f["type"] == "progress" and f["what"] == "wait")
    await in_lab.stop()
    assert (await in_lab.record("turn_end")).status == "interrupted"
    assert run.popen.poll() is None


async def test_a_killed_run_is_not_waited_for(
    run: Process, in_lab: Driver, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply("Mine."))
    await in_lab.send("Go.")
    await in_lab.frame(lambda f: f["type"] == "progress" and f["what"] == "wait")
    run.popen.kill()
    assert (await in_lab.record("turn_end")).status == "ok"


async def test_nothing_is_reverted_while_a_run_works(run: Process, in_lab: Driver) -> None:
    with pytest.raises(PrimeError) as refused:
        await in_lab.service.revert(in_lab.session, "t", None)
    assert (refused.value.code, refused.value.status) == ("open_elsewhere", 409)


async def test_a_run_leaves_a_notebook_alone_in_which_a_turn_is_under_way(
    start: Start, in_lab: Driver, jp_serverapp: ServerApp, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply("Let me look.", fault=Fault("pause", after=4)))
    await in_lab.send("Go.")
    await in_lab.requests(1)
    run = start("work.ipynb", "Go.", "--yes", "--json")
    assert await asyncio.to_thread(run.end) == 8
    assert jp_serverapp.connection_url in run.json["error"]["message"]
    messages_api.resume()
    assert (await in_lab.record("turn_end")).status == "ok"
