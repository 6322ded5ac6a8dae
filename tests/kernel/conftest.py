"""A real server with real kernels, and one notebook on it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.notebook_kernels import NotebookKernels
from prime_ext.kernel.transport import KernelDied


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    # A dead kernel is noticed and replaced at once instead of after seconds.
    return {"KernelRestarter": {"time_to_dead": 0.2}, "ServerApp": {"allow_root": True}}


@pytest.fixture
def make_notebook(jp_root_dir: Path) -> Callable[..., str]:
    def make(path: str = "analysis.ipynb", kernel: str = "python3") -> str:
        notebook = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": kernel, "display_name": kernel}}
        )
        target = jp_root_dir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(nbformat.writes(notebook))
        return path

    return make


@pytest.fixture
def kernels(jp_serverapp: Any, jp_asyncio_loop: Any) -> Iterator[NotebookKernels]:
    kernels = NotebookKernels(
        jp_serverapp.session_manager, jp_serverapp.kernel_manager, jp_serverapp.log
    )
    yield kernels
    jp_asyncio_loop.run_until_complete(kernels.close())


@pytest.fixture
def kernel(kernels: NotebookKernels, make_notebook: Callable[..., str]) -> NotebookKernel:
    return kernels.for_notebook(make_notebook())


@pytest.fixture
def install_kernelspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def install(name: str, argv: list[str], language: str = "python", **more: Any) -> str:
        folder = tmp_path / "jupyter" / "kernels" / name
        folder.mkdir(parents=True)
        spec = {"argv": argv, "display_name": name, "language": language, **more}
        (folder / "kernel.json").write_text(json.dumps(spec))
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
        return name

    return install


@pytest.fixture
def calculator(install_kernelspec: Callable[..., str]) -> str:
    """A kernel of a language that is not Python."""
    script = str(Path(__file__).parent / "calculator_kernel.py")
    return install_kernelspec(
        "calculator", [sys.executable, script, "-f", "{connection_file}"], language="calculator"
    )


async def until(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    """Wait for something that no event announces."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    await asyncio.wait_for(poll(), timeout)


def text_of(outputs: list[dict[str, Any]]) -> str:
    """All text of a run's outputs, one after the other."""
    return "".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
    )


async def occupy(jp_serverapp: Any, kernel_id: str, code: str) -> KernelChannels:
    """Have another client run ``code``; return its channels once the code has begun."""
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    channels = await KernelChannels.open(manager, jp_serverapp.log, timeout=60)
    request = channels.send("shell", "execute_request", {"code": code})
    await request.started.wait()
    return channels


async def leave(channels: KernelChannels) -> None:
    """The other client goes away; its code runs on."""
    await channels.close(KernelDied("The other client left."))
