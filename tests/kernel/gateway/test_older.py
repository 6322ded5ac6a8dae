"""A gateway that knows the older framing of messages only, as Enterprise Gateway does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_ext.kernel.notebook_kernel import NotebookKernel

from .conftest import value
from .process import Gateway, make_environment, running_gateway
from .test_state import DIGEST, crash, load, run, save


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    hidden = tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pythons = {"bare": make_environment(Path(folder) / "bare", ["ipykernel"], hidden)}
        older = "--ZMQChannelsWebsocketConnection.kernel_ws_protocol="
        with running_gateway(Path(folder), pythons, older) as gateway:
            yield gateway


async def test_code_runs_and_variables_survive(kernel: NotebookKernel, tmp_path: Path) -> None:
    folder = tmp_path / "session-1"
    folder.mkdir()
    await run(kernel, "import os; large = os.urandom(3_000_000); n = {'é': '✓'}")
    assert await value(kernel, "n['é']") == "✓"
    digest = await value(kernel, DIGEST)
    await save(kernel, folder)
    await crash(kernel)
    report: dict[str, Any] = await load(kernel, folder)
    assert report["complete"]
    assert await value(kernel, DIGEST) == digest
