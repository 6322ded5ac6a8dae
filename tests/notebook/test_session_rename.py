"""A notebook renamed through Jupyter's own API takes its sessions along."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from tests.notebook.conftest import notebook

Fetch = Callable[..., Awaitable[Any]]


@pytest.fixture
def jp_server_config(tmp_path: Path) -> dict[str, Any]:
    return {
        "ServerApp": {"jpserver_extensions": {"prime_ext": True}},
        "PrimeExtension": {"data_dir": str(tmp_path / "prime")},
    }


async def fetch(jp_fetch: Fetch, *path: str, body: Any = None, **options: Any) -> Any:
    if body is not None:
        options["body"] = json.dumps(body)
    response = await jp_fetch(*path, **options)
    return json.loads(response.body) if response.body else None


@pytest.mark.parametrize(
    ("renamed", "to", "expected"),
    [
        ("folder/work.ipynb", "folder/new.ipynb", "folder/new.ipynb"),
        ("folder", "other", "other/work.ipynb"),
    ],
)
async def test_sessions_follow_a_rename(
    renamed: str, to: str, expected: str, jp_fetch: Fetch, jp_root_dir: Path
) -> None:
    (jp_root_dir / "folder").mkdir()
    (jp_root_dir / "folder" / "work.ipynb").write_text(json.dumps(notebook("1")))
    (jp_root_dir / "beside.ipynb").write_text(json.dumps(notebook("1")))
    api = ("prime", "api", "sessions")
    session = await fetch(jp_fetch, *api, method="POST", body={"notebook": "folder/work.ipynb"})
    beside = await fetch(jp_fetch, *api, method="POST", body={"notebook": "beside.ipynb"})

    before = (await fetch(jp_fetch, *api, session["id"], "records"))["last_seq"]
    await fetch(jp_fetch, "api", "contents", renamed, method="PATCH", body={"path": to})

    async def notebook_of(session_id: str) -> str:
        return str((await fetch(jp_fetch, *api, session_id))["notebook"])

    async def follow() -> None:
        # The event is handled behind the answer; there is nothing to wait for but the result.
        while await notebook_of(session["id"]) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    await asyncio.wait_for(follow(), 10)
    # A browser that had the notebook open tells of it too: once is enough.
    await fetch(jp_fetch, *api, session["id"], method="PATCH", body={"notebook": expected})
    records = await fetch(jp_fetch, *api, session["id"], "records", params={"after": before})
    assert [r["notebook"] for r in records["records"] if r["kind"] == "settings"] == [expected]
    assert await notebook_of(beside["id"]) == "beside.ipynb"
    listed = await fetch(jp_fetch, *api, params={"notebook": expected})
    assert [s["id"] for s in listed["sessions"]] == [session["id"]]


async def test_a_rename_that_bypassed_jupyter_is_told_by_the_client(
    jp_fetch: Fetch, jp_root_dir: Path
) -> None:
    (jp_root_dir / "work.ipynb").write_text(json.dumps(notebook("1")))
    api = ("prime", "api", "sessions")
    session = await fetch(jp_fetch, *api, method="POST", body={"notebook": "work.ipynb"})
    other = await fetch(jp_fetch, *api, method="POST", body={"notebook": "work.ipynb"})
    (jp_root_dir / "work.ipynb").rename(jp_root_dir / "new.ipynb")
    # Somebody is at work there already.
    there = await fetch(jp_fetch, *api, method="POST", body={"notebook": "new.ipynb"})

    async def lost() -> set[str]:
        found = await fetch(jp_fetch, *api, params={"missing": "true"})
        return {line["id"] for line in found["sessions"]}

    assert await lost() == {session["id"], other["id"]}
    await fetch(jp_fetch, *api, session["id"], method="PATCH", body={"notebook": "new.ipynb"})
    assert await lost() == set()
    listed = await fetch(jp_fetch, *api, params={"notebook": "new.ipynb"})
    assert {line["id"] for line in listed["sessions"]} == {
        session["id"], other["id"], there["id"]
    }  # fmt: skip
    with pytest.raises(HTTPClientError) as caught:
        await fetch(jp_fetch, *api, params={"missing": "perhaps"})
    assert caught.value.code == 400
