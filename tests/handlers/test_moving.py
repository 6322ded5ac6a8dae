"""Variables across the end of a server, in another folder, and on another machine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import websocket

from tests.handlers.test_restart import HEADERS, Server, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")

PATIENCE = 60.0

# What changes after the last run of code is known to nobody but the kernel.
LATE = """
import pathlib, threading, time
folder, late = pathlib.Path({folder!r}), []
def wait_for_go():
    while not (folder / "go").exists():
        time.sleep(0.01)
    late.append("seen at the end")
    (folder / "gone").touch()
threading.Thread(target=wait_for_go, daemon=True).start()
"""


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail("It did not happen.")


def record(server: Server, at: str, kind: str, **fields: Any) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        records = server.call("GET", f"{at}/records?limit=1000")["records"]
        return next(
            (
                r
                for r in reversed(records)
                if r["kind"] == kind and all(r.get(k) == v for k, v in fields.items())
            ),
            None,
        )

    found: dict[str, Any] = until(find)
    return found


def opened(server: Server, at: str) -> None:
    """Open the session as a page does."""
    url = f"ws://127.0.0.1:{server.port}/prime/api/{at}/stream"
    with closing(websocket.create_connection(url, header=HEADERS, timeout=30)) as page:
        while json.loads(page.recv())["type"] != "ready":
            pass


def run(server: Server, at: str, code: str) -> str:
    """Have the agent run ``code``; what it printed."""
    seq = server.call("POST", f"{at}/messages", {"text": f"```python\n{code}\n```"})["seq"]
    until(lambda: record(server, at, "turn_end")["seq"] > seq)
    return json.dumps(record(server, at, "tool_result"))


def command(reason: str) -> list[str]:
    """The command in what was told."""
    return shlex.split(reason[reason.index("jupyter prime import") :])


def moved(source: Path, target: Path, *, same_machine: bool) -> Path:
    """The sessions of ``source`` in another folder, with the server's secret or without."""
    shutil.copytree(source / "prime", target / "prime")
    if same_machine:
        (target / "data").mkdir()
        for secret in (source / "data").glob("notebook_secret*"):
            shutil.copy2(secret, target / "data")
    return target


def test_variables_survive_the_server_and_a_move(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for folder in (first, second, third):
        folder.mkdir()
    with running(first) as server:
        new = {"notebook": "a.ipynb", "permission_mode": "auto"}
        session = server.call("POST", "sessions", new)["id"]
        at = f"sessions/{session}"
        run(server, at, LATE.format(folder=str(tmp_path)))
        record(server, at, "snapshot", outcome="ok")
        (tmp_path / "go").touch()
        until((tmp_path / "gone").exists)
        server.stop(signal.SIGTERM)
    log = first / "prime" / "sessions" / session / "session.jsonl"
    snapshots = [json.loads(line) for line in log.read_text().splitlines() if '"snapshot"' in line]
    last = [line for line in snapshots if line["kind"] == "snapshot"][-1]
    assert (last["trigger"], last["outcome"]) == ("shutdown", "ok")

    with running(moved(first, second, same_machine=True)) as server:
        assert server.call("GET", at)["snapshots"]["bytes"] > 0
        assert server.call("GET", f"{at}/snapshots")["snapshots"][0]["id"] == last["snapshot_id"]
        opened(server, at)
        offer = record(server, at, "restore")
        assert (offer["outcome"], offer["trigger"]) == ("offered", "resume")
        restored = server.call("POST", f"{at}/snapshots/{offer['snapshot_id']}/restore")
        assert restored["outcome"] in ("ok", "partial")
        assert "seen at the end" in run(server, at, "print(late)")
        server.stop(signal.SIGTERM)

    with running(moved(first, third, same_machine=False)) as server:
        (foreign, *_) = server.call("GET", f"{at}/snapshots")["snapshots"]
        assert (foreign["id"], foreign["generation"]) == (last["snapshot_id"], "foreign")
        opened(server, at)
        assert foreign in server.call("GET", f"{at}/snapshots")["snapshots"]
        refused = record(server, at, "restore")
        assert refused["outcome"] == "failed"
        assert "False" in run(server, at, "print('late' in globals())")
        # What is saved from now on takes the place of nothing that can still be imported.
        for number in range(3):
            run(server, at, f"y = {number}")
            until(lambda: "y" in server.call("GET", f"{at}/snapshots")["snapshots"][0]["names"])
        assert foreign in server.call("GET", f"{at}/snapshots")["snapshots"]
        answer = server.call("POST", f"{at}/snapshots/{foreign['id']}/restore")
        assert answer["code"] == "snapshot_foreign"
        assert command(answer["hint"]) == command(refused["reason"])
        server.stop(signal.SIGTERM)

    def jupyter_prime(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "JUPYTER_NO_CONFIG": "1",
            "JUPYTER_DATA_DIR": str(third / "data"),
            "HOME": str(third),
        }
        return subprocess.run(
            [sys.executable, "-m", "prime_ext.cli.main", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    # The very command that was told.
    given = [*command(refused["reason"])[2:-1], "--data-dir", str(third / "prime")]
    distrusted = jupyter_prime(*given)
    assert distrusted.returncode == 1
    assert "runs code" in distrusted.stderr
    trusted = jupyter_prime(*given, "--trust")
    assert trusted.returncode == 0, trusted.stderr

    with running(third) as server:
        (entry, *_) = server.call("GET", f"{at}/snapshots")["snapshots"]
        assert "late" in entry["names"]
        assert {name["status"] for name in entry["names"].values()} != {"verified"}
        opened(server, at)
        offer = record(server, at, "restore", outcome="offered")
        assert offer["snapshot_id"] == entry["id"]
        restored = server.call("POST", f"{at}/snapshots/{offer['snapshot_id']}/restore")
        assert restored["outcome"] in ("ok", "partial")
        assert "seen at the end" in run(server, at, "print(late)")
        server.stop(signal.SIGTERM)
