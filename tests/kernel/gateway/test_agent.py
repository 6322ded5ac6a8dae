"""The whole agent, from a message to the record of a restore, with its kernel behind a gateway."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.driver import Driver
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], messages_api: MessagesAPI, tmp_path: Path
) -> dict[str, Any]:
    return {
        **jp_server_config,
        "ServerApp": {
            **jp_server_config["ServerApp"],
            "jpserver_extensions": {"prime_ext": True},
            "allow_unauthenticated_access": False,
        },
        "PrimeExtension": {"data_dir": str(tmp_path / "prime")},
        "ModelConfig": {"base_url": messages_api.url, "api_key": messages_api.key},
    }


@pytest.fixture
def session(
    jp_serverapp: Any,
    jp_asyncio_loop: Any,
    messages_api: MessagesAPI,
    make_notebook: Callable[..., str],
) -> Iterator[Driver]:
    service = jp_serverapp.web_app.settings["prime_agent"]
    start = service.start_session(make_notebook(kernel="bare"), user="ada", permission_mode="auto")
    yield Driver(service, jp_asyncio_loop.run_until_complete(start), messages_api)
    jp_asyncio_loop.run_until_complete(jp_serverapp.kernel_manager.shutdown_all())


async def ran(session: Driver, code: str) -> str:
    """What a run of the agent prints."""
    session.api.enqueue(reply(call("run_code", code=code)), reply("Done."))
    end = await session.ask("Go on.")
    assert end.status == "ok"
    outputs = session.records("tool_result")[-1].outputs  # type: ignore[union-attr]
    return "".join(output.get("text", "") for output in outputs)


async def test_a_crash_is_restored(session: Driver) -> None:
    pid = int(await ran(session, "import os; rows = [1, 2, 3]; print(os.getpid())"))
    saved = await session.record("snapshot")
    assert saved.outcome == "ok", saved.reason
    assert set(saved.names) == {"os", "rows"}
    os.kill(pid, signal.SIGKILL)
    restored = await session.record("restore")
    assert (restored.outcome, restored.trigger) == ("ok", "crash")
    assert await ran(session, "print(rows, os.getpid() != " + str(pid) + ")") == "[1, 2, 3] True\n"
