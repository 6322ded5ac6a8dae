"""Kernels whose ports the server reaches, but who do not see its files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.notebook_kernels import NotebookKernels
from tests.kernel.conftest import text_of, until

from .gateway.process import make_environment

KEY = b"k" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions" / "session-1"
    folder.mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture
def make_kernel(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    install_kernelspec: Callable[..., str],
    tmp_path: Path,
    folder: Path,
) -> Callable[[Path], NotebookKernel]:
    def make(hidden: Path) -> NotebookKernel:
        python = make_environment(tmp_path / "environment", ["ipykernel"], hidden)
        argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return kernels.for_notebook(make_notebook(kernel=install_kernelspec("bare", argv)))

    return make


async def crash_and_load(kernel: NotebookKernel, folder: Path) -> dict[str, Any]:
    renewed: list[str] = []
    kernel.on_restarted.append(renewed.append)
    await kernel.execute("__import__('os')._exit(1)", store_history=False)
    await until(lambda: bool(renewed))
    return await kernel.load_state(folder, KEY, options={"mode": "cold"})


@pytest.mark.parametrize("sees", [True, False])
async def test_variables_survive(
    sees: bool, make_kernel: Callable[[Path], NotebookKernel], folder: Path
) -> None:
    kernel = make_kernel(folder.parents[1] / "elsewhere" if sees else folder.parent)
    await kernel.execute("import os; large = os.urandom(3_000_000)", store_history=True)
    await kernel.save_state(folder, KEY, options={})
    assert set(state.inspect(folder, key=KEY).names) == {"large", "os"}
    assert (await crash_and_load(kernel, folder))["complete"]
    run = await kernel.execute("print(len(large), os.getpid())", store_history=False)
    length, pid = text_of(run.outputs).split()
    assert length == "3000000"
    # One that sees the folder works in it; the other one needs a directory of its own.
    assert _has_scratch(int(pid)) is not sees
    # Nothing of how that was found out is left.
    assert not _probes(folder)


def _probes(folder: Path) -> list[Path]:
    return list(folder.glob(".probe*"))


def _has_scratch(pid: int) -> bool:
    opened = [os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return any("prime-state-of-" in path for path in opened)
