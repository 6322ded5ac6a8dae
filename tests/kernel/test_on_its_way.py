"""While a snapshot is on its way to the disk, nothing older is taken for it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prime_ext.config import SnapshotConfig
from prime_ext.kernel import snapshot
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.kernel.snapshot_files import SnapshotFiles
from tests.kernel.test_snapshot import KEY, value

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel

HOLD_BACK = """
exec('''
import os, sys, time
writer = sys.modules["_prime_state"].writer
write = writer.write
def write_when_let(job, progress):
    while not os.path.exists({let!r}):
        time.sleep(0.01)
    return write(job, progress)
writer.write = write_when_let
''', {{}})
"""


async def test_nothing_is_restored_past_a_snapshot_that_is_on_its_way(
    kernel: NotebookKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "session"
    folder.mkdir(mode=0o700)
    files = SnapshotFiles(folder, KEY)
    keeper = SnapshotKeeper(files, kernel, SnapshotConfig(), logging.getLogger("tests"))
    await kernel.execute("a = [1]; b = [2]", store_history=True)
    await keeper.capture("turn")
    let = tmp_path / "let"
    await kernel.execute(HOLD_BACK.format(let=str(let)), store_history=False)
    await kernel.execute("del b", store_history=True)
    assert (await keeper.capture("compaction")).snapshot_id is None
    assert (await keeper.kernel_state())["status"] == "current"
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "CHECK_SECONDS", 0.5)
        checked = await keeper.check()
    assert (checked.outcome, checked.names) == ("skipped", {})
    let.touch()
    # What lay there before still has `b`.
    assert (await keeper.check()).outcome == "unchanged"
    assert await value(kernel, "a, 'b' in dir()") == "([1], False)"
    assert (await keeper.kernel_state())["status"] == "current"
