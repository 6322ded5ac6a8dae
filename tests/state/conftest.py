"""Fixtures of the tests of kernel state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .kernels import CasesInKernels, Kernel
from .snapshots import save

KEY = b"k" * 32


@pytest.fixture
def key() -> bytes:
    """A signing key."""
    return KEY


@pytest.fixture
def saved(tmp_path: Path, key: bytes) -> Path:
    """A directory with two generations: n = 1, then n = 2."""
    numpy = pytest.importorskip("numpy")
    directory = tmp_path / "snapshot"
    for n in (1, 2):
        save(directory, {"n": n, "array": numpy.full(100_000, n), "text": [str(n)] * 3}, key)
    return directory


@pytest.fixture
def kernel_at(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Starts kernels; all are ended after the test."""
    started: list[Kernel] = []

    def start(directory: Path = tmp_path, **env: str) -> Kernel:
        started.append(Kernel(directory, env))
        return started[-1]

    yield start
    for kernel in started:
        kernel.stop()


@pytest.fixture(scope="module")
def restored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CasesInKernels]:
    """The module's ``CASES``, saved in one kernel, restored in it and in a fresh one."""
    cases = CasesInKernels(request.module.CASES, tmp_path_factory.mktemp("state"), KEY)
    yield cases
    cases.stop()
