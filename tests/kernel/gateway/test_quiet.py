"""A gateway culls kernels that nobody is connected to: we let go, and still miss nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.gateway.managers import GatewayKernelManager

from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.notebook_kernels import NotebookKernels
from tests.kernel.conftest import text_of, until

from .conftest import value
from .process import TOKEN, Gateway
from .test_running import another_client, heard


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prime_ext.kernel.idle_connection.QUIET_SECONDS", 0.5)
    monkeypatch.setattr("prime_ext.kernel.idle_connection.LOOK_SECONDS", 0.3)
    monkeypatch.setattr("prime_ext.kernel.idle_connection._PATIENCE_SECONDS", 3.0)
    monkeypatch.setattr("prime_ext.kernel.connection._POLL_SECONDS_REMOTE", 0.1)


def model(gateway: Gateway, kernel: NotebookKernel, method: str = "GET") -> dict[str, Any]:
    request = urllib.request.Request(
        f"{gateway.url}/api/kernels/{kernel.kernel_id}",
        headers={"Authorization": f"token {TOKEN}"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        found: dict[str, Any] = json.loads(response.read() or "{}")
        return found


async def test_the_connection_is_given_back_and_made_anew(
    kernel: NotebookKernel, gateway: Gateway
) -> None:
    await value(kernel, "'begun'")
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    runs = kernel.runs
    assert kernel.state == "idle"
    # What somebody else runs meanwhile counts.
    other = await another_client(gateway, str(kernel.kernel_id))
    await other.write_message(json.dumps(execute_request("shared = 42")))
    await heard(other, "idle", "execute_request")
    other.close()
    await until(lambda: kernel.runs > runs)
    assert await value(kernel, "shared") == "42"
    assert kernel.generation == 0


async def test_a_crash_meanwhile_is_noticed(kernel: NotebookKernel, gateway: Gateway) -> None:
    reasons: list[str] = []
    kernel.on_restarted.append(reasons.append)
    pid = int(await value(kernel, "__import__('os').getpid()"))
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: reasons == ["crash"])
    assert kernel.generation == 1
    assert await value(kernel, "1 + 1") == "2"


async def test_a_crash_is_noticed_if_the_connection_is_not_made_at_once(
    kernel: NotebookKernel, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = int(await value(kernel, "__import__('os').getpid()"))
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    open_channels, failures = KernelChannels.open, [OSError("It restarts.")]

    async def fail(*arguments: Any, **options: Any) -> KernelChannels:
        if failures:
            raise failures.pop()
        return await open_channels(*arguments, **options)

    monkeypatch.setattr(KernelChannels, "open", fail)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: kernel.generation == 1)
    assert not failures
    assert kernel.loss == "crash"


async def test_a_crash_that_the_gateway_does_not_hear_of_is_noticed(
    kernel: NotebookKernel, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = int(await value(kernel, "__import__('os').getpid()"))
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    hear_nothing(monkeypatch)
    for generation in (1, 2):
        os.kill(pid, signal.SIGKILL)
        await until(lambda expected=generation: kernel.generation == expected)  # type: ignore[misc]
        assert kernel.loss == "crash"
        pid = int(await value(kernel, "__import__('os').getpid()"))
        await until(lambda: model(gateway, kernel)["connections"] == 0)


async def test_a_crash_of_a_kernel_of_another_language_is_noticed(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calculator = Path(__file__).parent.parent / "calculator_kernel.py"
    sums = shutil.copytree(gateway.home / "share/kernels/bare", gateway.home / "share/kernels/sums")
    spec = json.loads((sums / "kernel.json").read_text())
    spec["argv"][1:3] = [str(calculator)]
    (sums / "kernel.json").write_text(json.dumps({**spec, "language": "calculator"}))
    kernel = kernels.for_notebook(make_notebook("sums.ipynb", kernel="sums"))
    run = await kernel.execute("pid", store_history=False)
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    hear_nothing(monkeypatch)
    os.kill(int(text_of(run.outputs)), signal.SIGKILL)
    await until(lambda: kernel.generation == 1)
    assert kernel.loss == "crash"


async def test_looks_leave_no_trace(
    kernel: NotebookKernel, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await value(kernel, "'begun'")
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    activity, runs = model(gateway, kernel)["last_activity"], kernel.runs
    looks = count_looks(monkeypatch)
    await until(lambda: len(looks) > 3)
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    assert model(gateway, kernel)["last_activity"] == activity
    assert kernel.runs == runs
    assert kernel.generation == 0


async def test_one_that_was_culled_is_gone(kernel: NotebookKernel, gateway: Gateway) -> None:
    await value(kernel, "'begun'")
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    model(gateway, kernel, "DELETE")
    await until(lambda: kernel.state == "none")
    assert kernel.loss != "crash"


def hear_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the last activity stay as it is.

    It does if a kernel that was started again says so before the gateway listens to it.
    """
    refresh = GatewayKernelManager.refresh_model

    async def refresh_all_but_activity(self: Any, model: Any = None) -> Any:
        activity = self.last_activity
        found = await refresh(self, model)  # type: ignore[no-untyped-call]
        self.last_activity = activity
        return found

    monkeypatch.setattr(GatewayKernelManager, "refresh_model", refresh_all_but_activity)


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[KernelChannels]:
    """Return a list that grows with each connection that is made."""
    open_channels = KernelChannels.open
    opened: list[KernelChannels] = []

    async def open_and_count(*arguments: Any, **options: Any) -> KernelChannels:
        channels = await open_channels(*arguments, **options)
        opened.append(channels)
        return channels

    monkeypatch.setattr(KernelChannels, "open", open_and_count)
    return opened


def execute_request(code: str) -> dict[str, Any]:
    return {
        "channel": "shell",
        "header": {
            "msg_id": "of-another",
            "msg_type": "execute_request",
            "session": "another",
            "username": "",
            "version": "5.3",
            "date": "2026-01-01T00:00:00Z",
        },
        "parent_header": {},
        "metadata": {},
        "content": {"code": code, "silent": False},
        "buffers": [],
    }
