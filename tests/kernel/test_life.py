"""Death, restart, interrupt, and kernels that others use or that never start."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext.errors import PrimeError
from prime_ext.kernel.sockets import KernelSockets
from tests.kernel.conftest import leave, occupy, text_of, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.notebook_kernels import NotebookKernels
    from prime_ext.kernel.transport import Deliver


async def pid_of(kernel: NotebookKernel) -> int:
    run = await kernel.execute("import os; print(os.getpid())", store_history=False)
    return int(text_of(run.outputs))


def start_printing(kernel: NotebookKernel, code: str) -> tuple[asyncio.Task[Any], asyncio.Event]:
    """Run ``print('go')`` and then ``code``; the event says that it has begun."""
    begun = asyncio.Event()
    task = asyncio.create_task(
        kernel.execute(
            f"print('go')\n{code}", store_history=True, on_outputs=lambda _outputs: begun.set()
        )
    )
    return task, begun


async def test_killed_in_the_middle_of_a_run(kernel: NotebookKernel) -> None:
    pid = await pid_of(kernel)
    reasons: list[str] = []
    kernel.on_restarted.append(reasons.append)
    task, begun = start_printing(kernel, "import time; time.sleep(600)")
    await begun.wait()
    os.kill(pid, signal.SIGKILL)
    run = await asyncio.wait_for(task, 10)
    assert run.status == "died"
    assert text_of(run.outputs[:1]) == "go\n"
    assert run.error is not None
    assert run.error["ename"] == "KernelDied"
    # The server restarts it by itself, and the next run is in the new process.
    assert await pid_of(kernel) != pid
    assert kernel.generation == 1
    assert reasons == ["crash"]
    assert kernel.loss == "crash"


async def test_states_on_the_way(kernel: NotebookKernel) -> None:
    states: list[str] = []
    kernel.on_state.append(states.append)
    await kernel.execute("1", store_history=True)
    await until(lambda: kernel.state == "idle")
    assert states[0] == "starting"
    assert states[-2:] == ["busy", "idle"]
    states.clear()
    await kernel.variables()
    await kernel.ensure()
    assert states == []


async def test_killed_while_idle(kernel: NotebookKernel) -> None:
    pid = await pid_of(kernel)
    reasons: list[str] = []
    states: list[str] = []
    kernel.on_restarted.append(reasons.append)
    kernel.on_state.append(states.append)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: bool(reasons))
    assert reasons == ["crash"]
    assert "dead" in states
    assert await pid_of(kernel) != pid
    assert kernel.state == "idle"
    # The server announces its own restart like a person's, perhaps later than the process was seen.
    connection = kernel._connection
    assert connection is not None
    restart = {"kernel_id": kernel.kernel_id, "action": "restart", "status": "success"}
    await connection._on_action(data=restart)
    assert reasons == ["crash"]


async def test_code_that_ends_its_own_process(kernel: NotebookKernel) -> None:
    run = await kernel.execute("import os; os._exit(1)", store_history=True)
    assert run.status == "died"
    # Until the restart is over: the server cannot shut a kernel down in the middle of one.
    await kernel.ensure()


async def test_restarted_by_a_person_in_the_middle_of_a_run(
    kernel: NotebookKernel, jp_fetch: Any
) -> None:
    pid = await pid_of(kernel)
    reasons: list[str] = []
    kernel.on_restarted.append(reasons.append)
    task, begun = start_printing(kernel, "import time; time.sleep(600)")
    await begun.wait()
    await jp_fetch("api", "kernels", kernel.kernel_id, "restart", method="POST", body="{}")
    run = await asyncio.wait_for(task, 10)
    assert run.status == "died"
    assert run.error is not None
    assert run.error["ename"] == "KernelRestarted"
    assert await pid_of(kernel) != pid
    assert reasons == ["user"]
    assert kernel.loss == "user"
    assert kernel.generation == 1


@pytest.mark.parametrize("end", ["KernelRestarted", "KernelShutDown"])
@pytest.mark.parametrize(
    "work", ["time.sleep(600)", "try:\n  time.sleep(600)\nfinally:\n  1 / 0"], ids=["", "hidden"]
)
async def test_the_interrupt_before_an_end_is_told_as_the_end(
    work: str, end: str, kernel: NotebookKernel, jp_serverapp: Any, jp_fetch: Any
) -> None:
    kernel_id = await kernel.ensure()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    request_shutdown = manager._async_request_shutdown

    async def request_late(restart: bool = False) -> None:
        await until(lambda: kernel.state == "idle")  # The interrupt has ended the code by then.
        await request_shutdown(restart)

    manager._async_request_shutdown = request_late
    task, begun = start_printing(kernel, f"import time\n{work}")
    await begun.wait()
    if end == "KernelRestarted":
        await jp_fetch("api", "kernels", kernel_id, "restart", method="POST", body="{}")
    else:
        await jp_fetch("api", "kernels", kernel_id, method="DELETE")
    run = await asyncio.wait_for(task, 10)
    assert run.status == "died"
    assert run.error is not None
    assert run.error["ename"] == end
    # Where the code was is still shown.
    was, ended = [output["ename"] for output in run.outputs[1:]]
    assert (was in ("KeyboardInterrupt", "ZeroDivisionError"), ended) == (True, end)


async def test_an_interrupt_before_an_end_that_does_not_come_is_told_as_it_is(
    kernel: NotebookKernel, jp_serverapp: Any
) -> None:
    manager = jp_serverapp.kernel_manager.get_kernel(await kernel.ensure())
    task, begun = start_printing(kernel, "import time; time.sleep(600)")
    await begun.wait()
    manager.shutting_down = True
    await manager.interrupt_kernel()
    await until(lambda: kernel.state == "idle")
    manager.shutting_down = False
    run = await asyncio.wait_for(task, 10)
    assert (run.status, (run.error or {}).get("ename")) == ("error", "KeyboardInterrupt")


async def test_shut_down_by_a_person_then_needed_again(
    kernel: NotebookKernel, jp_fetch: Any
) -> None:
    first = await kernel.ensure()
    reasons: list[str] = []
    kernel.on_restarted.append(reasons.append)
    await jp_fetch("api", "kernels", first, method="DELETE")
    assert kernel.state == "none"
    assert await kernel.find() is None
    second = await kernel.ensure()
    assert second != first
    assert reasons == ["new"]
    assert kernel.generation == 1


async def test_cancelling_interrupts_our_own_code(kernel: NotebookKernel) -> None:
    task, begun = start_printing(kernel, "import time; time.sleep(600); leaked = 1")
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    after = await asyncio.wait_for(kernel.execute("'leaked' in dir()", store_history=False), 10)
    assert text_of(after.outputs) == "False"


async def test_what_was_cut_short_is_told_to_its_end(kernel: NotebookKernel) -> None:
    begun = asyncio.Event()
    told: list[list[Any]] = []
    counts: list[int] = []

    def show(outputs: list[Any]) -> None:
        told.append(outputs)
        begun.set()

    running = kernel.execute(
        "print('begun', flush=True)\nimport time; time.sleep(600)",
        store_history=True,
        on_outputs=show,
        on_count=counts.append,
    )
    task = asyncio.create_task(running)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counts == [1]
    assert [output.get("ename") for output in told[-1]] == [None, "KeyboardInterrupt"]


WAIT_FOR_FILE = """
import os, time
while not os.path.exists({path!r}):
    time.sleep(0.01)
finished = True
"""


# The server interrupts a kernel before it ends it, and might be told of the interrupt first.
WORK = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
with open({path!r} + ".part", "w") as file:
    file.write(str(os.getpid()))
os.replace({path!r} + ".part", {path!r})
time.sleep(600)
"""


async def test_waits_for_others_and_never_interrupts_them(
    kernel: NotebookKernel, jp_serverapp: Any, tmp_path: Path
) -> None:
    kernel_id = await kernel.ensure()
    await kernel.execute("started = True", store_history=True)
    release = tmp_path / "release"
    client = await occupy(jp_serverapp, kernel_id, WAIT_FOR_FILE.format(path=str(release)))
    busy = asyncio.Event()
    unwanted = asyncio.create_task(
        kernel.execute("unwanted = True", store_history=True, on_busy=busy.set)
    )
    await busy.wait()
    assert kernel.state == "busy"
    unwanted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unwanted
    release.touch()
    run = await kernel.execute("sorted({'finished', 'unwanted'} & set(dir()))", store_history=False)
    assert text_of(run.outputs) == "['finished']"
    await leave(client)


@pytest.mark.parametrize(
    ("end", "is_known"),
    [
        ("KernelDied", True),
        ("KernelDied", False),
        ("KernelRestarted", True),
        ("KernelShutDown", True),
    ],
)
async def test_what_stood_in_the_queue_when_the_process_ended_never_began(
    end: str,
    is_known: bool,
    kernel: NotebookKernel,
    jp_serverapp: Any,
    jp_fetch: Any,
    tmp_path: Path,
) -> None:
    kernel_id = await kernel.ensure()
    if is_known:
        await kernel.execute("1", store_history=False)
    client = await occupy(jp_serverapp, kernel_id, WORK.format(path=str(tmp_path / "pid")))
    await until(lambda: (tmp_path / "pid").exists())
    busy = asyncio.Event()
    begun: list[Any] = []
    waits = asyncio.create_task(
        kernel.execute("1", store_history=True, on_busy=busy.set, on_begun=begun.append)
    )
    await busy.wait()
    if end == "KernelDied":
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    elif end == "KernelRestarted":
        await jp_fetch("api", "kernels", kernel_id, "restart", method="POST", body="{}")
    else:
        await jp_fetch("api", "kernels", kernel_id, method="DELETE")
    run = await asyncio.wait_for(waits, 30)
    assert (run.status, run.outputs, begun) == ("aborted", [], [])
    assert run.error is not None
    assert run.error["ename"] == end
    await kernel.ensure()
    await leave(client)


@pytest.mark.parametrize("end", ["KernelRestarted", "KernelShutDown"])
async def test_an_end_that_is_seen_before_the_server_tells_of_it_is_told_as_what_it_is(
    end: str, kernel: NotebookKernel, jp_serverapp: Any, jp_fetch: Any, tmp_path: Path
) -> None:
    kernel_id = await kernel.ensure()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    clean_up = manager._async_cleanup_resources

    async def clean_up_late(restart: bool = False) -> None:
        manager._async_cleanup_resources = clean_up
        await until(lambda: kernel.state == "dead")
        await clean_up(restart)

    manager._async_cleanup_resources = clean_up_late
    work = WORK.format(path=str(tmp_path / "pid"))
    runs = asyncio.create_task(kernel.execute(work, store_history=True))
    await until(lambda: (tmp_path / "pid").exists())
    if end == "KernelRestarted":
        await jp_fetch("api", "kernels", kernel_id, "restart", method="POST", body="{}")
    else:
        await jp_fetch("api", "kernels", kernel_id, method="DELETE")
    run = await asyncio.wait_for(runs, 30)
    assert run.error is not None
    assert run.error["ename"] == end
    after = await kernel.execute("print('again')", store_history=False)
    assert text_of(after.outputs) == "again\n"


async def test_a_run_is_withdrawn_before_the_kernel_knows_us(
    kernel: NotebookKernel, jp_serverapp: Any, tmp_path: Path
) -> None:
    kernel_id = await kernel.ensure()
    release = tmp_path / "release"
    client = await occupy(jp_serverapp, kernel_id, WAIT_FOR_FILE.format(path=str(release)))
    busy = asyncio.Event()
    unwanted = asyncio.create_task(
        kernel.execute("unwanted = True", store_history=True, on_busy=busy.set)
    )
    await busy.wait()
    unwanted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unwanted
    release.touch()
    run = await kernel.execute("'unwanted' in dir()", store_history=False)
    assert text_of(run.outputs) == "False"
    await leave(client)


async def test_the_failure_of_others_does_not_abort_ours(
    kernel: NotebookKernel, jp_serverapp: Any, tmp_path: Path
) -> None:
    kernel_id = await kernel.ensure()
    release = tmp_path / "release"
    code = WAIT_FOR_FILE.format(path=str(release)) + "1 / 0"
    client = await occupy(jp_serverapp, kernel_id, code)
    busy = asyncio.Event()
    ours = asyncio.create_task(kernel.execute("40 + 2", store_history=True, on_busy=busy.set))
    await busy.wait()
    release.touch()
    run = await ours
    assert run.status == "ok"
    assert text_of(run.outputs) == "42"
    await leave(client)


async def test_a_kernelspec_of_an_odd_shape_means_the_default_kernel(
    kernels: NotebookKernels, jp_root_dir: Path
) -> None:
    node = {"cells": [], "metadata": {"kernelspec": "odd"}, "nbformat": 4, "nbformat_minor": 5}
    (jp_root_dir / "odd.ipynb").write_text(json.dumps(node))
    kernel = kernels.for_notebook("odd.ipynb")
    await kernel.ensure()
    assert kernel.kernel_name == "python3"


async def test_kernelspec_that_cannot_start(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    install_kernelspec: Callable[..., str],
    jp_serverapp: Any,
) -> None:
    install_kernelspec("broken", ["/nowhere/python", "{connection_file}"])
    kernel = kernels.for_notebook(make_notebook("broken.ipynb", kernel="broken"))
    with pytest.raises(PrimeError) as raised:
        await kernel.ensure()
    assert raised.value.code == "kernel_start_failed"
    assert "broken" in raised.value.message
    assert raised.value.hint
    assert await jp_serverapp.session_manager.list_sessions() == []
    assert kernel.state == "none"


async def test_kernel_that_ends_at_once(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    install_kernelspec: Callable[..., str],
    jp_serverapp: Any,
) -> None:
    install_kernelspec("ends", [sys.executable, "-c", "raise SystemExit(3)", "{connection_file}"])
    kernel = kernels.for_notebook(make_notebook("ends.ipynb", kernel="ends"))
    with pytest.raises(PrimeError) as raised:
        await kernel.ensure()
    assert raised.value.code == "kernel_start_failed"
    assert await jp_serverapp.session_manager.list_sessions() == []
    assert jp_serverapp.kernel_manager.list_kernel_ids() == []


ENDS_ONCE = """
import os, sys
if not os.path.exists({mark!r}):
    open({mark!r}, "w").close()
    sys.exit(1)
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""


async def test_kernel_that_ends_at_once_is_started_once_more(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    install_kernelspec: Callable[..., str],
    jp_serverapp: Any,
    tmp_path: Path,
) -> None:
    """As one does whose port was taken meanwhile."""
    code = ENDS_ONCE.format(mark=str(tmp_path / "mark"))
    install_kernelspec("ends", [sys.executable, "-c", code, "-f", "{connection_file}"])
    kernel = kernels.for_notebook(make_notebook("ends.ipynb", kernel="ends"))
    run = await kernel.execute("40 + 2", store_history=False)
    assert text_of(run.outputs) == "42"
    assert kernel.generation == 0
    assert jp_serverapp.kernel_manager.list_kernel_ids() == [kernel.kernel_id]


async def test_discarded_during_its_restart_it_leaves_no_process(
    kernels: NotebookKernels, kernel: NotebookKernel, jp_serverapp: Any
) -> None:
    kernel_id = await kernel.ensure()
    model = await kernels.session_of(kernel.path)
    assert model is not None
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    restart = asyncio.create_task(manager.restart_kernel(now=True))
    await until(lambda: manager.shutting_down)
    await kernels.discard(model, kernels.connection(kernel_id))
    await restart
    assert not await manager.is_alive()
    assert jp_serverapp.kernel_manager.list_kernel_ids() == []


async def test_kernelspec_that_is_not_installed(
    kernels: NotebookKernels, make_notebook: Callable[..., str]
) -> None:
    kernel = kernels.for_notebook(make_notebook("gone.ipynb", kernel="gone"))
    with pytest.raises(PrimeError) as raised:
        await kernel.ensure()
    assert raised.value.code == "kernel_start_failed"
    assert "gone" in raised.value.message


async def test_notebook_that_does_not_exist(kernels: NotebookKernels) -> None:
    with pytest.raises(PrimeError) as raised:
        await kernels.for_notebook("missing.ipynb").ensure()
    assert raised.value.code == "notebook_not_found"
    assert raised.value.status == 404


async def test_a_moved_notebook_keeps_its_kernel(
    kernels: NotebookKernels, kernel: NotebookKernel, jp_serverapp: Any
) -> None:
    kernel_id = await kernel.ensure()
    session = await jp_serverapp.session_manager.get_session(path=kernel.path)
    await jp_serverapp.session_manager.update_session(session["id"], path="moved.ipynb")
    kernels.rename("analysis.ipynb", "moved.ipynb")
    assert kernels.for_notebook("moved.ipynb") is kernel
    assert await kernel.find() == kernel_id


async def test_the_connection_to_a_kernel_that_was_shut_down_is_not_kept(
    kernels: NotebookKernels, kernel: NotebookKernel, jp_serverapp: Any
) -> None:
    first = weakref.ref(kernels.connection(await kernel.ensure()))
    model = await kernels.session_of(kernel.path)
    assert model is not None
    await jp_serverapp.session_manager.delete_session(model["id"])
    await kernel.ensure()

    def is_kept() -> bool:
        gc.collect()
        return first() is not None

    await until(lambda: not is_kept())


async def test_a_connection_that_cannot_be_read_any_more_is_made_anew(
    kernel: NotebookKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, fails = KernelSockets.read, asyncio.Event()

    async def read_until_it_fails(sockets: KernelSockets, deliver: Deliver) -> None:
        reading = asyncio.create_task(read(sockets, deliver))
        try:
            await fails.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        fails.clear()
        raise RuntimeError("The socket is gone.")

    monkeypatch.setattr(KernelSockets, "read", read_until_it_fails)
    running, begun = start_printing(kernel, "import time\ntime.sleep(2)")
    await begun.wait()
    fails.set()
    cut_off = await asyncio.wait_for(running, 60)
    assert cut_off.error is not None
    assert cut_off.error["ename"] == "ConnectionLost"
    after = await asyncio.wait_for(kernel.execute("40 + 2", store_history=True), 60)
    assert after.outputs[0]["data"]["text/plain"] == "42"


async def test_two_runs_of_ours_take_turns(kernel: NotebookKernel) -> None:
    await kernel.execute("order = []", store_history=True)
    waits: list[int] = []
    code = "import time; order.append({0}); time.sleep(0.5); order.append({0})"
    await asyncio.gather(
        *(
            kernel.execute(code.format(number), store_history=True, on_busy=lambda: waits.append(1))
            for number in (1, 2)
        )
    )
    run = await kernel.execute("order", store_history=False)
    assert text_of(run.outputs) in ("[1, 1, 2, 2]", "[2, 2, 1, 1]")
    assert len(waits) == 1
