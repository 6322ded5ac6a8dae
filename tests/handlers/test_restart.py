"""A server that is killed, and one that takes over."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTEBOOK = {
    "cells": [],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
HEADERS = {"Authorization": "token for-this-test"}


class Server:
    """A Jupyter server in a process of its own, with nothing of this machine's configuration."""

    def __init__(self, folder: Path) -> None:
        root = folder / "root"
        root.mkdir(exist_ok=True)
        (root / "a.ipynb").write_text(json.dumps(NOTEBOOK))
        self.data_dir = folder / "prime"
        environment = {
            **os.environ,
            "JUPYTER_NO_CONFIG": "1",
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "HOME": str(folder),
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyter_server",
                "--ServerApp.ip=127.0.0.1",
                # The server chooses: one chosen before may be another program's by then.
                "--ServerApp.port=0",
                "--ServerApp.port_retries=0",
                f"--ServerApp.root_dir={root}",
                "--ServerApp.open_browser=False",
                "--ServerApp.allow_root=True",
                "--ServerApp.jpserver_extensions={'prime_ext': True}",
                "--IdentityProvider.token=for-this-test",
                f"--PrimeExtension.data_dir={self.data_dir}",
                "--ModelConfig.provider=offline",
            ],
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.said: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if told := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(told[1])
                break
        else:
            pytest.fail("".join(self.said))
        # A full pipe would stop the server.
        self._drain = threading.Thread(target=self.said.extend, args=[self.process.stderr])
        self._drain.start()
        # It says so a moment before it listens.
        self._http = requests.Session()
        patient = HTTPAdapter(max_retries=Retry(total=20, connect=20, backoff_factor=0.02))
        self._http.mount("http://127.0.0.1", patient)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        response = self._http.request(
            method,
            f"http://127.0.0.1:{self.port}/prime/api/{path}",
            json=body,
            headers=HEADERS,
            timeout=30,
        )
        return response.json() if response.content else None

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(timeout=30)
        self._drain.join()
        self._http.close()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_and_started_again_a_session_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        at = f"sessions/{first.call('POST', 'sessions', {'notebook': 'a.ipynb'})['id']}"
        sent = first.call("POST", f"{at}/messages", {"text": "/help"})
        before = first.call("GET", f"{at}/records")["records"]
        assert sent["seq"] in [record["seq"] for record in before]
        with running(tmp_path) as second:
            refused = second.call("GET", at)
            assert refused["code"] == "session_locked"
            assert [line["id"] for line in second.call("GET", "sessions")["sessions"]] == [
                at.split("/")[1]
            ]
            first.stop(signal.SIGKILL)
            described = second.call("GET", at)
            assert described["records"] >= len(before)
            after = second.call("GET", f"{at}/records")["records"]
            assert after[: len(before)] == before
            again = second.call("POST", f"{at}/messages", {"text": "/help"})
            assert again["seq"] > after[-1]["seq"]
            records = second.call("GET", f"{at}/records")["records"]
            # The turn that was cut off, if it was, is closed before the next one begins.
            open_turns: set[str] = set()
            for record in records:
                if record["kind"] == "user_message":
                    assert not open_turns
                    open_turns.add(record["turn"])
                elif record["kind"] == "turn_end":
                    open_turns.discard(record["turn"])


def waiting_for(server: Server, at: str, kind: str, *, nth: int = 1) -> dict[str, Any]:
    """The ``nth`` record of ``kind``, once it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        records = server.call("GET", f"{at}/records")["records"]
        found: list[dict[str, Any]] = [record for record in records if record["kind"] == kind]
        if len(found) >= nth:
            return found[nth - 1]
        time.sleep(0.05)
    pytest.fail(f"No {kind} came.")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_waits_for_a_person_waits_across_a_restart(
    tmp_path: Path, how: signal.Signals
) -> None:
    with running(tmp_path) as first:
        made = first.call("POST", "sessions", {"notebook": "a.ipynb", "permission_mode": "ask"})
        at = f"sessions/{made['id']}"
        first.call("POST", f"{at}/messages", {"text": "```python\nprint(6 * 7)\n```"})
        call_id = waiting_for(first, at, "approval_request")["call_id"]
        queued = first.call("POST", f"{at}/messages", {"text": "/help"})["seq"]
        before = first.call("GET", at)
        first.stop(how)
    with running(tmp_path) as second:
        # Whoever looks finds the question and what is queued, and changes nothing by looking.
        seen = second.call("GET", at)
        (listed,) = second.call("GET", "sessions")["sessions"]
        assert [a["call_id"] for a in seen["approvals"]] == [call_id]
        assert [q["text"] for q in seen["queue"]] == ["/help"]
        for key in ("approvals", "queue"):
            assert listed[key] == seen[key] == before[key]
        for key in ("running", "phase", "turn"):
            assert seen["state"][key] == before["state"][key]
        assert seen["records"] == before["records"]
        assert second.call("DELETE", f"{at}/queue/{queued}") is None
        answer = {"decision": "allow"}
        assert second.call("POST", f"{at}/approvals/{call_id}", answer) is None
        assert waiting_for(second, at, "turn_end")["status"] == "ok"
        records = second.call("GET", f"{at}/records")["records"]
        assert [r["kind"] for r in records].count("approval_request") == 1
        (result,) = [r for r in records if r["kind"] == "tool_result"]
        assert result["tool_use_id"] == call_id
        assert "42" in str(result["content"])
        assert second.call("POST", f"{at}/approvals/{call_id}", answer)["code"] == (
            "approval_decided"
        )


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_always_tries_once_more_after_a_restore_that_ended_with_the_server(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = (
        "class Slow:\n    def __reduce__(self): return (slow, ())\n"
        f"def slow(path={str(gate)!r}):\n"
        "    import os, time\n"
        "    open(path + '.open', 'w').close()\n"
        "    while os.path.exists(path): time.sleep(0.01)\n"
        "    return object.__new__(type('Slow', (), {}))\n"
        "slowly = Slow(); x = 7"
    )
    asked = {"text": "```python\nprint(x)\n```"}
    with running(tmp_path) as server:
        new = {"notebook": "a.ipynb", "permission_mode": "auto", "restore": "always"}
        at = f"sessions/{server.call('POST', 'sessions', new)['id']}"
        server.call("POST", f"{at}/messages", {"text": f"```python\n{slow}\n```"})
        saved = waiting_for(server, at, "snapshot")
        assert {"slowly", "x"} <= set(saved["names"])
        server.stop(signal.SIGKILL)
    gate.touch()
    loading = tmp_path / "gate.open"
    for begun, how in enumerate((signal.SIGTERM, signal.SIGKILL), 1):
        loading.unlink(missing_ok=True)
        with running(tmp_path) as server:
            server.call("POST", f"{at}/messages", asked)
            waiting_for(server, at, "restore_start", nth=begun)
            deadline = time.monotonic() + 60
            while not loading.exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            server.stop(how)
    with running(tmp_path) as server:
        server.call("POST", f"{at}/messages", asked)
        records = server.call("GET", f"{at}/records")["records"]
        *_, offer = [record for record in records if record["kind"] == "restore"]
        assert (offer["outcome"], offer["trigger"]) == ("offered", "resume")
        assert "cut off by the end of the server" in offer["reason"]
        gate.unlink()
        # What was loaded until then was not saved in the place of all.
        assert offer["snapshot_id"] == saved["snapshot_id"]
        done = server.call("POST", f"{at}/snapshots/{offer['snapshot_id']}/restore", {})
        assert done["outcome"] == "ok"
        assert [record["kind"] for record in records].count("restore_start") == 2
