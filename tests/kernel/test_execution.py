"""Running code in the notebook's kernel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prime_ext.clean_text import without_escapes
from tests.kernel.conftest import text_of, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.notebook_kernels import NotebookKernels


async def test_result_streams_and_count(kernel: NotebookKernel) -> None:
    run = await kernel.execute("print('a')\nprint('b')\n40 + 2", store_history=True)
    assert run.status == "ok"
    assert run.execution_count == 1
    assert run.outputs == [
        {"output_type": "stream", "name": "stdout", "text": "a\nb\n"},
        {
            "output_type": "execute_result",
            "data": {"text/plain": "42"},
            "metadata": {},
            "execution_count": 1,
        },
    ]


async def test_error_comes_back_in_full(kernel: NotebookKernel) -> None:
    run = await kernel.execute("def f():\n    return 1 / 0\nf()", store_history=True)
    assert run.status == "error"
    assert run.error is not None
    assert run.error["ename"] == "ZeroDivisionError"
    assert "return 1 / 0" in without_escapes("\n".join(run.error["traceback"]))
    assert run.outputs[-1]["output_type"] == "error"


async def test_outputs_arrive_while_it_runs(kernel: NotebookKernel) -> None:
    await kernel.execute("import threading; go = threading.Event()", store_history=False)
    seen: list[str] = []
    running = asyncio.create_task(
        kernel.execute(
            "print('first')\nimport time\ntime.sleep(30)",
            store_history=False,
            on_outputs=lambda outputs: seen.append(text_of(outputs)),
        )
    )
    await until(lambda: bool(seen))
    assert seen[0] == "first\n"
    assert not running.done()
    await kernel.interrupt()
    run = await running
    assert run.error is not None
    assert run.error["ename"] == "KeyboardInterrupt"


async def test_code_of_another_run_updates_a_display_while_it_runs(
    kernel: NotebookKernel,
) -> None:
    earlier = """\
import asyncio
from IPython.display import update_display
shown = asyncio.Event()
async def update():
    await shown.wait()
    update_display("new", display_id="x")
task = asyncio.create_task(update())
"""
    await kernel.execute(earlier, store_history=True)
    later = "_ = display('old', display_id='x'); shown.set(); await task"
    run = await kernel.execute(later, store_history=True)
    assert [output["data"] for output in run.outputs] == [{"text/plain": "'new'"}]
    assert run.late is None


async def test_input_is_refused_at_once(kernel: NotebookKernel) -> None:
    run = await kernel.execute("name = input('Who? ')", store_history=True)
    assert run.error is not None
    assert run.error["ename"] == "StdinNotImplementedError"


async def test_an_existing_kernel_is_used(
    kernels: NotebookKernels, make_notebook: Callable[..., str], jp_serverapp: Any
) -> None:
    path = make_notebook("folder/data.ipynb")
    session = await jp_serverapp.session_manager.create_session(
        path=path, name="data.ipynb", type="notebook", kernel_name="python3"
    )
    kernel = kernels.for_notebook(path)
    assert await kernel.find() == session["kernel"]["id"]
    assert await kernel.ensure() == session["kernel"]["id"]
    assert len(jp_serverapp.kernel_manager.list_kernel_ids()) == 1


async def test_no_kernel_is_started_by_looking(kernel: NotebookKernel) -> None:
    assert await kernel.find() is None
    assert kernel.state == "none"
    assert kernel.kernel_id is None
