"""The agent's kernel behind a real gateway: in another directory, in another environment."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.gateway.gateway_client import GatewayClient
from tornado.escape import json_decode
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from prime_ext import state
from prime_ext.kernel.notebook_kernel import NotebookKernel, NotebookKernels
from prime_ext.kernel.snapshot_files import derive_key
from tests.kernel.conftest import text_of, until
from tests.kernel.gateway import TOKEN, Door, Gateway, make_environment, running_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    hidden = tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        pythons = {"bare": make_environment(Path(home) / "bare", ["ipykernel"], hidden)}
        with running_gateway(Path(home), pythons) as gateway:
            yield gateway


@pytest.fixture
def door(gateway: Gateway, jp_asyncio_loop: Any) -> Iterator[Door]:
    door = Door(gateway)
    jp_asyncio_loop.run_until_complete(door.start())
    yield door
    jp_asyncio_loop.run_until_complete(door.close())


@pytest.fixture
def jp_server_config(door: Door) -> Iterator[dict[str, Any]]:
    GatewayClient.clear_instance()
    yield {
        "ServerApp": {"allow_root": True},
        "GatewayClient": {
            "url": door.url,
            "auth_token": TOKEN,
            "gateway_retry_interval": 0.05,
        },
    }
    GatewayClient.clear_instance()


@pytest.fixture
def kernels(jp_serverapp: Any, jp_asyncio_loop: Any) -> Iterator[NotebookKernels]:
    kernels = NotebookKernels(
        jp_serverapp.session_manager, jp_serverapp.kernel_manager, jp_serverapp.log
    )
    yield kernels

    async def shut_down() -> None:
        await kernels.close()
        await jp_serverapp.kernel_manager.shutdown_all()

    jp_asyncio_loop.run_until_complete(shut_down())


@pytest.fixture
def kernel(kernels: NotebookKernels, make_notebook: Callable[..., str]) -> NotebookKernel:
    return kernels.for_notebook(make_notebook(kernel="bare"))


async def value(kernel: NotebookKernel, expression: str) -> str:
    run = await kernel.execute(f"print({expression}, end='')", store_history=False)
    assert run.status == "ok", run.error
    return text_of(run.outputs)


async def test_code_runs_over_there(kernel: NotebookKernel, gateway: Gateway) -> None:
    assert await value(kernel, "__import__('os').getcwd()") == str(gateway.work)
    run = await kernel.execute("import prime_ext", store_history=False)
    assert run.error is not None
    assert run.error["ename"] == "ModuleNotFoundError"
    assert kernel.state == "idle"


async def test_variables_are_looked_at_while_a_cell_runs(kernel: NotebookKernel) -> None:
    await kernel.execute("rows = list(range(10))", store_history=True)
    running = asyncio.create_task(
        kernel.execute("print('begun'); __import__('time').sleep(600)", store_history=False)
    )
    await until(lambda: kernel.state == "busy")
    assert [v["name"] for v in await kernel.variables()] == ["rows"]
    assert "length 10" in (await kernel.inspect("rows"))["text"]
    await kernel.interrupt()
    run = await running
    assert run.error is not None
    assert run.error["ename"] == "KeyboardInterrupt"
    assert text_of(run.outputs[:1]) == "begun\n"


async def test_stop_interrupts_the_run(kernel: NotebookKernel) -> None:
    running = asyncio.create_task(
        kernel.execute("print(1); __import__('time').sleep(600)", store_history=False)
    )
    await until(lambda: kernel.state == "busy")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await value(kernel, "1 + 1") == "2"


async def test_large_outputs_arrive(kernel: NotebookKernel) -> None:
    run = await kernel.execute("'x' * 12_000_000", store_history=False)
    assert len(run.outputs[0]["data"]["text/plain"]) == 12_000_002


async def test_a_death_is_noticed_and_told_apart_from_a_restart(
    kernel: NotebookKernel, jp_serverapp: Any
) -> None:
    reasons: list[str] = []
    kernel.on_restarted.append(reasons.append)
    run = await kernel.execute("__import__('os')._exit(1)", store_history=False)
    assert run.status == "died"
    await until(lambda: reasons == ["crash"])
    assert kernel.generation == 1
    assert await value(kernel, "1 + 1") == "2"
    await jp_serverapp.kernel_manager.restart_kernel(kernel.kernel_id)
    await until(lambda: reasons == ["crash", "user"])
    assert kernel.generation == 2
    assert await value(kernel, "2 + 2") == "4"


async def test_a_run_outlives_a_broken_connection(kernel: NotebookKernel, door: Door) -> None:
    outputs: list[str] = []
    running = asyncio.create_task(
        kernel.execute(
            "import time\nprint('before')\ntime.sleep(1.5)\nprint('after')\nmade = 1",
            store_history=False,
            on_outputs=lambda so_far: outputs.append(text_of(so_far)),
        )
    )
    await until(lambda: any("before" in text for text in outputs))
    door.cut()
    run = await running
    assert run.status == "ok"
    assert "before" in text_of(run.outputs)
    assert "connection to the kernel broke" in text_of(run.outputs)
    assert "after" in text_of(run.outputs)
    assert kernel.generation == 0
    assert await value(kernel, "made") == "1"


async def test_a_run_whose_answer_was_lost_says_so(
    kernel: NotebookKernel, door: Door, jp_serverapp: Any, gateway: Gateway
) -> None:
    # Somebody else is connected, so the gateway keeps no messages for us.
    await kernel.ensure()
    other = await another_client(gateway, str(kernel.kernel_id))
    running = asyncio.create_task(
        kernel.execute("import time\nprint(1)\ntime.sleep(0.5)\nmade = 1", store_history=False)
    )
    await until(lambda: kernel.state == "busy")
    door.is_open = False
    door.cut()
    await heard(other, "idle", "prime_execute_request")  # it has ended over there, unheard by us
    door.is_open = True
    run = await running
    other.close()
    assert run.status == "error"
    assert run.error is not None
    assert run.error["ename"] == "ConnectionLost"
    assert kernel.generation == 0
    assert await value(kernel, "made") == "1"


async def another_client(gateway: Gateway, kernel_id: str) -> Any:
    request = HTTPRequest(
        f"ws://127.0.0.1:{gateway.port}/api/kernels/{kernel_id}/channels",
        headers={"Authorization": f"token {TOKEN}"},
    )
    return await websocket_connect(request)


async def heard(client: Any, state: str, of: str) -> None:
    """Wait until the kernel says that it is in ``state`` with a request of that type."""
    while True:
        message = json_decode(await client.read_message())
        if (
            message["parent_header"].get("msg_type") == of
            and message["content"].get("execution_state") == state
        ):
            return


# -- saving and restoring ---------------------------------------------------------------------

KEY = derive_key(b"secret of the server", "session-1")
MEGABYTE = 1_000_000

WORK = f"""
import os
large = os.urandom({5 * MEGABYTE})
class Box:
    side = 3
box = Box()
both = [box, box]
def area(): return box.side ** 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "session-1"
    folder.mkdir(mode=0o700)
    return folder


async def save(kernel: NotebookKernel, folder: Path) -> dict[str, Any]:
    return await kernel.save_state(folder, KEY, options={})


async def crash(kernel: NotebookKernel) -> None:
    renewed: list[str] = []
    kernel.on_restarted.append(renewed.append)
    run = await kernel.execute("__import__('os')._exit(1)", store_history=False)
    assert run.status == "died"
    await until(lambda: bool(renewed))
    kernel.on_restarted.pop()


async def test_variables_survive_a_crash(kernel: NotebookKernel, folder: Path) -> None:
    await kernel.execute(WORK, store_history=True)
    digest = await value(kernel, "__import__('hashlib').sha256(large).hexdigest()")
    report = await save(kernel, folder)
    assert set(report["names"]) == {"os", "large", "Box", "box", "both", "area"}
    assert state.inspect(folder, key=KEY).signature == "valid"
    await crash(kernel)
    report = await kernel.load_state(folder, KEY, options={"mode": "cold"})
    assert report["complete"]
    assert await value(kernel, "__import__('hashlib').sha256(large).hexdigest()") == digest
    assert await value(kernel, "both[0] is both[1] is box, area()") == "True 9"
