"""The doors of the whole extension, with the offline agent and without a stand-in."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]

NOTEBOOK = "analysis.ipynb"


@pytest.fixture
def jp_server_config(tmp_path: Path) -> dict[str, Any]:
    return {
        "ServerApp": {
            "jpserver_extensions": {"prime_ext": True, "jupyter_server_terminals": False},
            "allow_unauthenticated_access": False,
        },
        "PrimeExtension": {"data_dir": str(tmp_path / "prime")},
        # Whatever base URL a fuzzed request names, nothing is sent there.
        "ModelConfig": {"provider": "offline"},
    }


@pytest.fixture
def jp_web_app(jp_serverapp: Any, jp_create_notebook: Callable[[str], Any]) -> Any:
    jp_create_notebook(NOTEBOOK)
    return jp_serverapp.web_app


@pytest.mark.timeout(600)  # some 270 requests from a second process, on a machine with other work
async def test_no_request_breaks_the_server(
    jp_web_app: Any,
    http_server: Any,
    jp_auth_header: dict[str, str],
    jp_http_port: int,
    jp_base_url: str,
) -> None:
    base_url = f"http://127.0.0.1:{jp_http_port}{jp_base_url}prime/api"
    fuzz = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.handlers.fuzz", base_url, NOTEBOOK, "8"),
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    out, errors = await fuzz.communicate(json.dumps(jp_auth_header).encode())
    assert fuzz.returncode == 0, errors.decode()
    seen = {operation: set(statuses) for operation, statuses in json.loads(out).items()}
    assert all(status < 500 for statuses in seen.values() for status in statuses), seen
    # It must have come past the first checks, or it has tried nothing.
    seen.pop("PUT /credentials")  # no made-up key passes
    for operation, statuses in seen.items():
        assert statuses & {200, 201, 202, 204, 404}, operation
    assert {202, 400} <= seen["POST /sessions/{session_id}/messages"]
    assert {200, 404} <= seen["GET /sessions/{session_id}/records"]
    assert 200 in seen["PATCH /sessions/{session_id}"]


async def test_bad_input(request_api: Callable[..., Any], jp_root_dir: Path) -> None:
    async def refused(method: str, path: str, body: Any = None) -> tuple[int, str]:
        answer = await request_api(method, path, body)
        assert answer.json["message"]
        assert answer.json["hint"]
        return answer.status, answer.json["code"]

    missing = {"notebook": "no/such.ipynb"}
    assert await refused("POST", "sessions", missing) == (404, "notebook_not_found")
    cells = [{"id": "a", "metadata": {}, "source": "x"}]
    damaged = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (jp_root_dir / "damaged.ipynb").write_text(json.dumps(damaged))
    body = {"notebook": "damaged.ipynb"}
    assert await refused("POST", "sessions", body) == (400, "notebook_invalid")
    made = await request_api("POST", "sessions", {"notebook": NOTEBOOK})
    assert made.status == 201
    at = f"sessions/{made.json['id']}"
    assert await refused("POST", f"{at}/messages", {"text": "  "}) == (400, "empty_message")
    long = {"text": "x" * (2 << 20)}
    assert await refused("POST", f"{at}/messages", long) == (413, "message_too_large")
    allow = {"decision": "allow"}
    assert await refused("POST", f"{at}/approvals/nope", allow) == (404, "approval_not_found")
    assert await refused("DELETE", f"{at}/queue/99") == (404, "not_queued")
    assert await refused("PATCH", at, missing) == (404, "notebook_not_found")
    records = (await request_api("GET", f"{at}/records")).json
    assert [record["kind"] for record in records["records"]][:1] == ["session_start"]


async def test_a_message_and_its_answer(
    jp_web_app: Any, request_api: Callable[..., Any], jp_ws_fetch: Any
) -> None:
    made = await request_api("POST", "sessions", {"notebook": NOTEBOOK})
    session_id = made.json["id"]
    stream = await jp_ws_fetch("prime", "api", "sessions", session_id, "stream")
    sent = await request_api("POST", f"sessions/{session_id}/messages", {"text": "/help"})
    assert sent.status == 202
    kinds: list[str] = []
    while "turn_end" not in kinds:
        frame = json.loads(await asyncio.wait_for(stream.read_message(), 30))
        if frame["type"] == "record":
            kinds.append(frame["record"]["kind"])
    assert kinds.index("user_message") < kinds.index("assistant_message")
    stream.close()
    described = (await request_api("GET", f"sessions/{session_id}")).json
    assert described["records"] >= len(kinds)
    assert described["state"]["kernel"]["state"] == "none"


@pytest.mark.parametrize(
    "refused",
    [
        {"PermissionConfig": {"default_mode": "bogus"}},
        {"PrimeExtension": {"data_dir": os.devnull + "/prime"}},
    ],
)
async def test_a_server_that_cannot_start_it_can_be_stopped(
    jp_configurable_serverapp: Callable[..., Any],
    jp_server_config: dict[str, Any],
    refused: dict[str, Any],
) -> None:
    app = jp_configurable_serverapp(config={**jp_server_config, **refused})
    assert "prime_agent" not in app.web_app.settings
    await app.extension_manager.stop_all_extensions()


async def test_streams_end_as_the_server_stops(jp_web_app: Any, jp_serverapp: Any) -> None:
    session = await jp_web_app.settings["prime_agent"].start_session(NOTEBOOK)
    is_ready = asyncio.Event()

    async def follow() -> str:
        async with session.subscribe() as frames:
            async for frame in frames:
                if frame["type"] == "ready":
                    is_ready.set()
            return str(frames.ended)

    following = asyncio.create_task(follow())
    await is_ready.wait()
    # In debug mode, the loop refuses what another thread does to it.
    asyncio.get_running_loop().set_debug(True)
    for app in jp_serverapp.extension_manager.extension_apps["prime_ext"]:
        await app.stop_extension()
    assert await asyncio.wait_for(following, 10) == "closed"
    assert jp_web_app.settings["prime_sessions"].open_ids() == frozenset()
