"""A gateway culls idle kernels, although they are looked at in the meantime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_ext.kernel.notebook_kernel import NotebookKernel
from tests.kernel.conftest import until

from .conftest import value
from .process import Gateway, make_environment, running_gateway
from .test_quiet import count_looks, impatience  # noqa: F401

COUNTS_LITTLE = ""
COUNTS_ALL = "--MappingKernelManager.untracked_message_types=[]"
"""With older versions of jupyter_server, every message of a kernel counts as activity."""


@pytest.fixture(scope="module", params=[COUNTS_LITTLE, COUNTS_ALL])
def option(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, option: str) -> Iterator[Gateway]:
    hidden = tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pythons = {"bare": make_environment(Path(folder) / "bare", ["ipykernel"], hidden)}
        options = [
            "--MappingKernelManager.cull_idle_timeout=4",
            "--MappingKernelManager.cull_interval=1",
            *filter(None, [option]),
        ]
        with running_gateway(Path(folder), pythons, *options) as gateway:
            yield gateway


async def test_an_idle_kernel_is_culled(
    kernel: NotebookKernel, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await value(kernel, "'begun'")
    looks = count_looks(monkeypatch)
    await until(lambda: kernel.state == "none")
    assert kernel.loss != "crash"
    assert len(looks) > 2 if option == COUNTS_LITTLE else len(looks) == 2, len(looks)
