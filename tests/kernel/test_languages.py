"""Kernels that are not Python's: code runs, variables are refused with a reason."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext.errors import PrimeError
from tests.kernel.conftest import leave, occupy, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.kernel.notebook_kernels import NotebookKernels


async def test_code_runs_in_any_language(
    kernels: NotebookKernels, make_notebook: Callable[..., str], calculator: str
) -> None:
    kernel = kernels.for_notebook(make_notebook("sums.ipynb", kernel=calculator))
    run = await kernel.execute("1+2", store_history=True)
    assert run.status == "ok"
    assert text_of(run.outputs) == "3\n"
    assert kernel.language == "calculator"
    failed = await kernel.execute("fail", store_history=False)
    assert failed.status == "error"
    assert failed.error == {"ename": "Error", "evalue": "failed", "traceback": ["failed"]}


async def test_asking_is_refused_with_a_reason(
    kernels: NotebookKernels, make_notebook: Callable[..., str], calculator: str
) -> None:
    kernel = kernels.for_notebook(make_notebook("sums.ipynb", kernel=calculator))
    with pytest.raises(PrimeError) as raised:
        await kernel.ask("ping", {})
    assert raised.value.code == "kernel_language"
    assert "calculator" in raised.value.message


async def test_a_queued_run_that_cannot_be_withdrawn_is_interrupted_when_it_begins(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    calculator: str,
    jp_serverapp: Any,
) -> None:
    kernel = kernels.for_notebook(make_notebook("sums.ipynb", kernel=calculator))
    kernel_id = await kernel.ensure()
    client = await occupy(jp_serverapp, kernel_id, "sleep 2")
    busy = asyncio.Event()
    queued = asyncio.create_task(kernel.execute("sleep 600", store_history=True, on_busy=busy.set))
    await busy.wait()
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    run = await asyncio.wait_for(kernel.execute("1+1", store_history=True), 20)
    assert text_of(run.outputs) == "2\n"
    await leave(client)
