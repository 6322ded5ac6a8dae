"""A server whose kernels run behind a gateway, and do not see its files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.gateway.gateway_client import GatewayClient

from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.notebook_kernels import NotebookKernels
from tests.kernel.conftest import text_of

from .process import TOKEN, Door, Gateway, make_environment, running_gateway


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With two kernels: `bare` has ipykernel alone, `stocked` NumPy and fsspec as well."""
    hidden = tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        pythons = {
            "bare": make_environment(home / "bare", ["ipykernel"], hidden),
            "stocked": make_environment(home / "stocked", ["ipykernel", "numpy", "fsspec"], hidden),
        }
        with running_gateway(home, pythons) as gateway:
            yield gateway


@pytest.fixture
def door(gateway: Gateway, jp_asyncio_loop: Any) -> Iterator[Door]:
    """What the server takes for the gateway."""
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
def store() -> str:
    """`SnapshotConfig.store`; overridden where there is one."""
    return ""


@pytest.fixture
def kernels(jp_serverapp: Any, jp_asyncio_loop: Any, store: str) -> Iterator[NotebookKernels]:
    kernels = NotebookKernels(
        jp_serverapp.session_manager, jp_serverapp.kernel_manager, jp_serverapp.log, store
    )
    yield kernels

    async def shut_down() -> None:
        await kernels.close()
        await jp_serverapp.kernel_manager.shutdown_all()

    jp_asyncio_loop.run_until_complete(shut_down())


@pytest.fixture
def kernelspec() -> str:
    return "bare"


@pytest.fixture
def kernel(
    kernels: NotebookKernels, make_notebook: Callable[..., str], kernelspec: str
) -> NotebookKernel:
    return kernels.for_notebook(make_notebook(kernel=kernelspec))


async def value(kernel: NotebookKernel, expression: str) -> str:
    run = await kernel.execute(f"print({expression}, end='')", store_history=False)
    assert run.status == "ok", run.error
    return text_of(run.outputs)
