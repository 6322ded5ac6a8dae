"""A gateway culls kernels that nobody is connected to: we let go, and still miss nothing."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any

import pytest

from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.notebook_kernel import NotebookKernel
from tests.kernel.conftest import until

from .conftest import value
from .process import TOKEN, Gateway
from .test_running import another_client, heard


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prime_ext.kernel.connection.QUIET_SECONDS", 0.5)
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
    await asked_by_another(gateway, kernel)
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
    await asked_by_another(gateway, kernel)
    await until(lambda: kernel.generation == 1)
    assert not failures
    assert kernel.loss == "crash"


async def test_one_that_was_culled_is_gone(kernel: NotebookKernel, gateway: Gateway) -> None:
    await value(kernel, "'begun'")
    await until(lambda: model(gateway, kernel)["connections"] == 0)
    model(gateway, kernel, "DELETE")
    await until(lambda: kernel.state == "none")
    assert kernel.loss != "crash"


async def asked_by_another(gateway: Gateway, kernel: NotebookKernel) -> None:
    """Let another client run something.

    If a kernel that was started again says so before the gateway listens to it, the gateway does
    not know that it was active until somebody uses it.
    """
    other = await another_client(gateway, str(kernel.kernel_id))
    await other.write_message(json.dumps(execute_request("pass")))
    await heard(other, "idle", "execute_request")
    other.close()


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
