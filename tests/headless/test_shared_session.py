"""The session of a run, used in a Jupyter server that keeps its sessions in the same folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import HTTPClientError

from tests.agent.driver import Driver
from tests.headless.conftest import Start
from tests.messages_api.script import Fault, reply
from tests.messages_api.server import MessagesAPI


@pytest.fixture
def jp_root_dir(folder: Path) -> Path:
    """The folder in which runs are started."""
    return folder


async def test_a_message_to_the_session_of_a_run_is_refused_until_the_run_has_ended(
    start: Start,
    jp_serverapp: ServerApp,
    jp_fetch: Any,
    messages_api: MessagesAPI,
    tmp_path: Path,
) -> None:
    messages_api.enqueue(reply("Let me look.", fault=Fault("pause", after=4)))
    run = start("work.ipynb", "Go.", "--yes", "--json", "--data-dir", tmp_path / "prime")
    await asyncio.to_thread(messages_api.wait_for_requests, 1)

    async def fetch(*path: str, **options: Any) -> Any:
        return json.loads((await jp_fetch("prime", "api", "sessions", *path, **options)).body)

    (listed,) = (await fetch())["sessions"]
    assert listed["notebook"] == "work.ipynb"
    message = {"method": "POST", "body": json.dumps({"text": "And now?"})}
    with pytest.raises(HTTPClientError) as refused:
        await fetch(listed["id"], "messages", **message)
    assert refused.value.code == 409
    assert refused.value.response is not None
    error = json.loads(refused.value.response.body)
    assert error["code"] == "session_locked"
    assert "open in another Jupyter server or `jupyter prime run`" in error["message"]
    assert "A run ends by itself: try again then." in error["hint"]

    messages_api.resume()
    assert await asyncio.to_thread(run.end) == 0
    assert run.json["session"] == listed["id"]
    messages_api.enqueue(reply("Mine."))
    sent = await fetch(listed["id"], "messages", **message)
    assert not sent["queued"]
    settings = jp_serverapp.web_app.settings
    session = settings["prime_sessions"].get(listed["id"])
    in_lab = Driver(settings["prime_agent"], session, messages_api)
    assert (await in_lab.record("turn_end", after=sent["seq"])).status == "ok"
    texts = [request.user_text for request in messages_api.requests]
    assert texts[0].endswith("Go.")
    assert texts[1].endswith("And now?")
    # What the run has said is in the context, and nothing of the refused attempt.
    assert "Let me look." in str(messages_api.requests[1].messages)
    records = (await fetch(listed["id"], "records"))["records"]
    kinds = [record["kind"] for record in records]
    assert kinds.count("user_message") == 2
