"""A compaction does not wait for a capture that waits for the kernel."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext.config import SnapshotConfig
from prime_ext.kernel import snapshot
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.kernel.snapshot_files import SnapshotFiles, derive_key

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel


@pytest.fixture
def keeper(kernel: NotebookKernel, tmp_path: Path) -> SnapshotKeeper:
    folder = tmp_path / "session"
    folder.mkdir(mode=0o700)
    files = SnapshotFiles(folder, derive_key(b"secret of the server", "session-1"))
    return SnapshotKeeper(files, kernel, SnapshotConfig(), logging.getLogger("tests.snapshot"))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("busy", "the kernel is busy"),
        ("idle", "its variables are being saved or restored already"),
    ],
)
async def test_it_goes_ahead_while_a_capture_waits_for_the_kernel_or_is_at_work(
    kernel: NotebookKernel,
    keeper: SnapshotKeeper,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    reason: str,
) -> None:
    await kernel.execute("x = 1", store_history=True)
    asked, answered = asyncio.Event(), asyncio.Event()
    save_state = kernel.save_state

    async def when_the_kernel_is_free(*args: Any, **options: Any) -> dict[str, Any]:
        asked.set()
        await answered.wait()
        return await save_state(*args, **options)

    monkeypatch.setattr(kernel, "save_state", when_the_kernel_is_free)
    of_turn = asyncio.ensure_future(keeper.capture("turn"))
    await asked.wait()
    monkeypatch.setattr(type(kernel), "state", state)
    skipped = await keeper.capture("compaction")
    assert (skipped.outcome, skipped.reason) == ("skipped", reason)
    monkeypatch.setattr(snapshot, "CHECK_SECONDS", 0.1)
    unchecked = await keeper.check()
    assert (unchecked.outcome, unchecked.reason) == ("skipped", reason)
    answered.set()
    assert (await of_turn).outcome == "ok"


async def test_what_was_just_captured_is_not_captured_again(
    kernel: NotebookKernel, keeper: SnapshotKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kernel.execute("x = 1", store_history=True)
    first = await keeper.capture("turn")

    async def never(*args: Any, **options: Any) -> dict[str, Any]:
        raise AssertionError("The kernel was asked again.")

    with monkeypatch.context() as patched:
        patched.setattr(kernel, "save_state", never)
        again = await keeper.capture("compaction")
    assert (again.outcome, again.snapshot_id) == ("unchanged", first.snapshot_id)
    await kernel.execute("x = 2", store_history=True)
    assert (await keeper.capture("compaction")).outcome == "ok"
