"""Code runs behind a real gateway: in another directory, in another environment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tornado.escape import json_decode
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from prime_ext.kernel.notebook_kernel import NotebookKernel
from tests.kernel.conftest import text_of, until

from .conftest import value
from .process import TOKEN, Door, Gateway


async def test_code_runs_over_there(kernel: NotebookKernel, gateway: Gateway) -> None:
    assert await value(kernel, "__import__('os').getcwd()") == str(gateway.work)
    run = await kernel.execute("import prime_ext", store_history=False)
    assert run.error is not None
    assert run.error["ename"] == "ModuleNotFoundError"
    assert kernel.state == "idle"
    assert kernel.kernel_name == "bare"
    assert kernel.language == "python"
    metadata = await kernel.metadata()
    assert metadata["language_info"]["name"] == "python"
    spec = {"name": "bare", "display_name": "bare", "language": "python"}
    assert metadata["kernelspec"] == spec


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
    await value(kernel, "0")
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
    await value(kernel, "0")
    # Somebody else is connected, so the gateway keeps no messages for us.
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
