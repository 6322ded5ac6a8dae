"""Saving and restoring the kernel of a session."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext import state
from prime_ext.config import SnapshotConfig
from prime_ext.errors import PrimeError
from prime_ext.kernel.freshness import Moment, kernel_status
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.kernel.snapshot_files import SnapshotFiles, derive_key
from tests.kernel.conftest import leave, occupy, text_of, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.notebook_kernels import NotebookKernels

KEY = derive_key(b"secret of the server", "session-1")

WORK = """
import math
rows = [{"id": n, "value": n * 2} for n in range(100)]
both = (rows, rows)
def total(): return sum(row["value"] for row in rows)
class Box:
    side = 3
box = Box()
stream = (n for n in range(3))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def make_keeper(folder: Path) -> Callable[..., SnapshotKeeper]:
    def make(kernel: NotebookKernel, **config: Any) -> SnapshotKeeper:
        return SnapshotKeeper(
            SnapshotFiles(folder, KEY),
            kernel,
            SnapshotConfig(**config),
            logging.getLogger("tests.snapshot"),
        )

    return make


@pytest.fixture
def keeper(kernel: NotebookKernel, make_keeper: Callable[..., SnapshotKeeper]) -> SnapshotKeeper:
    return make_keeper(kernel)


async def value(kernel: NotebookKernel, expression: str) -> str:
    run = await kernel.execute(f"repr(({expression}))", store_history=False)
    assert run.status == "ok", run.error
    return text_of(run.outputs).strip("'\"")


async def crash(kernel: NotebookKernel) -> None:
    """Kill the process behind the kernel and wait until another is there."""
    generation = kernel.generation
    renewed: list[str] = []
    kernel.on_restarted.append(renewed.append)
    pid = int(await value(kernel, "__import__('os').getpid()"))
    os.kill(pid, signal.SIGKILL)
    await until(lambda: bool(renewed))
    kernel.on_restarted.pop()
    # A machine under load may find the fresh one dead before it has answered, and start another.
    assert kernel.generation > generation


def test_keys_differ_by_session_and_do_not_show_the_secret() -> None:
    assert derive_key(b"secret of the server", "session-1") == KEY
    assert derive_key(b"secret of the server", "session-2") != KEY
    assert derive_key(b"another secret", "session-1") != KEY
    assert len(KEY) == 32


@pytest.mark.parametrize(
    ("state", "unavailable", "captured", "expected"),
    [
        ("none", None, Moment("k", 0, 5), "none"),
        ("dead", None, Moment("k", 0, 5), "none"),
        ("idle", "not Python", None, "none"),
        ("idle", None, Moment("k", 0, 5), "current"),
        ("idle", None, Moment("k", 0, 4), "stale"),
        ("idle", None, Moment("k", 1, 5), "stale"),
        ("idle", None, None, "stale"),
        ("busy", None, Moment("k", 0, 4), "busy"),
        ("busy", None, None, "busy"),
    ],
)
def test_what_may_be_said(
    state: str, unavailable: str | None, captured: Moment | None, expected: str
) -> None:
    now = Moment("k", 0, 5)
    assert (
        kernel_status(state=state, unavailable=unavailable, captured=captured, now=now) == expected
    )


async def test_what_is_meant_for_one_process_is_not_saved_from_another(
    kernel: NotebookKernel, folder: Path
) -> None:
    assert await value(kernel, "1") == "1"
    with pytest.raises(PrimeError) as refused:
        await kernel.save_state(folder, KEY, options={}, generation=kernel.generation + 1)
    assert refused.value.code == "kernel_replaced"
    assert SnapshotFiles(folder, KEY).manifest("current") is None


async def test_crash_and_cold_restore(kernel: NotebookKernel, keeper: SnapshotKeeper) -> None:
    await kernel.execute(WORK, store_history=True)
    saved = await keeper.capture("turn")
    assert saved.outcome == "ok", saved.reason
    assert saved.snapshot_id
    assert saved.kernel_id == kernel.kernel_id
    assert set(saved.names) == {"math", "rows", "both", "total", "Box", "box", "stream"}
    assert saved.names["stream"]["status"] == "degraded"
    assert (await keeper.kernel_state())["status"] == "current"
    await crash(kernel)
    assert await value(kernel, "'rows' in dir()") == "False"
    assert (await keeper.kernel_state())["status"] == "stale"
    restored = await keeper.restore("crash", "cold")
    assert restored.mode == "cold"
    assert restored.outcome in ("ok", "partial"), restored.reason
    assert restored.snapshot_id == saved.snapshot_id
    assert await value(kernel, "total(), both[0] is rows, type(box) is Box") == "(9900, True, True)"


async def test_saving_leaves_no_trace(kernel: NotebookKernel, keeper: SnapshotKeeper) -> None:
    await kernel.execute("x = 1", store_history=True)
    await kernel.execute("'result'", store_history=True)
    before = await value(kernel, "sorted(dir()), In, Out, _")
    assert (await keeper.capture("turn")).outcome == "ok"
    assert await value(kernel, "sorted(dir()), In, Out, _") == before
    run = await kernel.execute("x", store_history=True)
    assert run.execution_count == 3


async def test_unchanged_and_hot_restore_change_nothing(
    kernel: NotebookKernel, keeper: SnapshotKeeper
) -> None:
    await kernel.execute("rows = [1, 2]; mark = id(rows)", store_history=True)
    assert (await keeper.capture("turn")).outcome == "ok"
    assert (await keeper.capture("compaction")).outcome == "unchanged"
    restored = await keeper.check()
    assert (restored.outcome, restored.mode) == ("unchanged", "hot")
    assert await value(kernel, "id(rows) == mark") == "True"


async def test_a_name_the_user_changed_is_not_overwritten_unless_asked(
    kernel: NotebookKernel, keeper: SnapshotKeeper
) -> None:
    await kernel.execute("a = [1]; b = [2]", store_history=True)
    saved = await keeper.capture("manual")
    await kernel.execute("a = ['changed']; del b", store_history=True)
    await keeper.restore("manual", "hot", snapshot_id=saved.snapshot_id)
    assert await value(kernel, "a, b") == "(['changed'], [2])"
    await keeper.restore(
        "manual", "hot", names=["a"], overwrite=True, snapshot_id=saved.snapshot_id
    )
    assert await value(kernel, "a") == "[1]"


async def test_what_the_user_runs_makes_it_stale(
    kernel: NotebookKernel, keeper: SnapshotKeeper, jp_serverapp: Any
) -> None:
    await kernel.execute("x = 1", store_history=True)
    await keeper.capture("turn")
    runs = kernel.runs
    other = await occupy(jp_serverapp, await kernel.ensure(), "x = 2")
    await until(lambda: kernel.runs > runs and kernel.state == "idle")
    state = await keeper.kernel_state()
    assert state["status"] == "stale"
    assert state["names"]
    assert state["age_s"] >= 0
    await leave(other)
    # What runs without changing anything leaves it current.
    await keeper.capture("turn")
    await kernel.execute("print(x)", store_history=False)
    assert (await keeper.kernel_state())["status"] == "current"


async def test_busy_is_said_and_skipped(
    kernel: NotebookKernel, keeper: SnapshotKeeper, jp_serverapp: Any
) -> None:
    await kernel.execute("x = 1", store_history=True)
    other = await occupy(jp_serverapp, await kernel.ensure(), "import time\ntime.sleep(600)")
    await until(lambda: kernel.state == "busy")
    record = await keeper.capture("compaction")
    assert record.outcome == "skipped"
    assert "busy" in str(record.reason)
    assert (await keeper.kernel_state())["status"] == "busy"
    assert "x" in {entry["name"] for entry in await keeper.inventory()}
    await kernel.interrupt()
    await leave(other)


async def test_no_kernel_is_said(keeper: SnapshotKeeper, kernel: NotebookKernel) -> None:
    record = await keeper.capture("compaction")
    assert (record.outcome, record.reason) == ("skipped", "no kernel is running")
    assert await keeper.kernel_state() == {
        "status": "none",
        "names": {},
        "reason": "no kernel is running",
    }
    assert await keeper.inventory() == []
    assert await keeper.snapshots() == []
    assert await kernel.find() is None


async def test_another_language_is_said(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    make_keeper: Callable[..., SnapshotKeeper],
    calculator: str,
) -> None:
    kernel = kernels.for_notebook(make_notebook("sums.ipynb", kernel=calculator))
    keeper = make_keeper(kernel)
    await kernel.execute("1+1", store_history=True)
    record = await keeper.capture("turn")
    assert record.outcome == "skipped"
    assert "calculator" in str(record.reason)
    assert (await keeper.kernel_state())["status"] == "none"
    with pytest.raises(PrimeError) as raised:
        await keeper.restore("manual", "cold")
    assert raised.value.code == "kernel_language"


async def test_switched_off(
    kernel: NotebookKernel, make_keeper: Callable[..., SnapshotKeeper], folder: Path
) -> None:
    keeper = make_keeper(kernel, enabled=False)
    await kernel.execute("x = 1", store_history=True)
    record = await keeper.capture("turn")
    assert (record.outcome, record.reason) == ("skipped", "snapshots are off")
    assert not (folder / "kernel-state.dill").exists()
    assert (await keeper.kernel_state())["reason"] == "snapshots are off"
    with pytest.raises(PrimeError) as raised:
        await keeper.restore("crash", "cold")
    assert raised.value.code == "snapshots_off"


async def test_too_large_for_the_limit(
    kernel: NotebookKernel, make_keeper: Callable[..., SnapshotKeeper], folder: Path
) -> None:
    keeper = make_keeper(kernel, max_bytes=1_000_000)
    await kernel.execute("x = bytes(2_000_000)", store_history=True)
    await kernel.execute("small = 1", store_history=True)
    record = await keeper.capture("turn")
    assert record.outcome == "ok"
    assert "SnapshotConfig.max_bytes: x" in str(record.reason)
    assert record.names["x"]["status"] == "skipped"
    assert "1,000,000 bytes" in record.names["x"]["reason"]
    assert record.names["small"]["status"] != "skipped"
    assert await value(kernel, "len(x)") == "2000000"
    await kernel.execute("del x", store_history=True)
    assert (await keeper.capture("turn")).reason is None


async def test_a_damaged_snapshot_falls_back_to_the_one_before(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    await kernel.execute("x = 'before'", store_history=True)
    await keeper.capture("turn")
    (older,) = await keeper.snapshots()
    await kernel.execute("x = 'after'", store_history=True)
    await keeper.capture("turn")
    head = folder / "kernel-state.dill"
    data = bytearray(head.read_bytes())
    data[len(data) // 2] ^= 0xFF
    head.write_bytes(bytes(data))
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert restored.attempts == 2
    assert restored.saved == older["created"]
    assert restored.reason == (
        "the newest snapshot was altered after it was saved; this is the one before it, of "
        f"{older['created'][:16].replace('T', ' ')} UTC"
    )
    assert await value(kernel, "x") == "before"


async def test_a_snapshot_of_another_key_is_refused(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    await kernel.execute("x = 1", store_history=True)
    await keeper.capture("turn")
    foreign = SnapshotKeeper(
        SnapshotFiles(folder, derive_key(b"other", "s")),
        kernel,
        SnapshotConfig(),
        logging.getLogger("tests"),
    )
    with pytest.raises(PrimeError) as raised:
        await foreign.restore("manual", "cold")
    assert raised.value.code == "snapshot_refused"


async def test_snapshots_of_another_key_stay_within_reach_of_an_import(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    code = "import numpy\nprecious = numpy.arange(100_000)"
    await kernel.execute(code, store_history=True)
    theirs = [(await keeper.capture("turn")).snapshot_id]
    await kernel.execute("more = 1", store_history=True)
    theirs.append((await keeper.capture("turn")).snapshot_id)
    await crash(kernel)
    files = SnapshotFiles(folder, derive_key(b"other", "s"))
    ours = SnapshotKeeper(files, kernel, SnapshotConfig(), logging.getLogger("tests"))
    for number in range(3):
        await kernel.execute(f"y = list(range(100_000, {number}, -1))", store_history=True)
        assert (await ours.capture("turn")).outcome == "ok"
    listed = files.list_foreign()
    assert [entry["id"] for entry in listed] == theirs[::-1]
    assert "precious" in listed[1]["names"]
    assert not set(theirs) & {entry["id"] for entry in await ours.snapshots()}
    with pytest.raises(PrimeError) as raised:
        await ours.restore("manual", "cold", snapshot_id=theirs[1])
    assert raised.value.code == "snapshot_foreign"
    assert str(files.foreign()[0].directory) in raised.value.hint
    for one in files.foreign():
        mine: dict[str, Any] = {}
        assert state.load(one.directory, mine, key=keeper.files.key, verify="wait").complete
        assert mine["precious"].sum() == sum(range(100_000))
    assert await ours.forget() > 800_000
    assert (files.list_foreign(), files.bytes()) == ([], 0)


async def test_after_a_restart_without_restore_the_good_state_is_kept(
    kernel: NotebookKernel, keeper: SnapshotKeeper, jp_fetch: Any
) -> None:
    await kernel.execute("precious = 1", store_history=True)
    saved = await keeper.capture("turn")
    await jp_fetch("api", "kernels", kernel.kernel_id, "restart", method="POST", body="{}")
    for number in range(4):
        await kernel.execute(f"other = {number}", store_history=True)
        await keeper.capture("turn")
    listed = await keeper.snapshots()
    assert saved.snapshot_id in [entry["snapshot_id"] for entry in listed]
    restored = await keeper.restore("manual", "hot", snapshot_id=saved.snapshot_id)
    assert "precious" in restored.names
    assert await value(kernel, "precious, other") == "(1, 3)"


async def test_neither_a_new_server_nor_further_restarts_lose_the_good_state(
    kernel: NotebookKernel,
    keeper: SnapshotKeeper,
    make_keeper: Callable[..., SnapshotKeeper],
    jp_fetch: Any,
) -> None:
    await kernel.execute("precious = 1", store_history=True)
    saved = await keeper.capture("turn")
    fresh = make_keeper(kernel)  # As a server that was restarted, and the kernel with it.
    for number in range(3):
        await jp_fetch("api", "kernels", kernel.kernel_id, "restart", method="POST", body="{}")
        await kernel.execute(f"other = {number}", store_history=True)
        assert (await fresh.capture("turn")).outcome == "ok"
    restored = await fresh.restore("manual", "hot", snapshot_id=saved.snapshot_id)
    assert restored.mode == "cold"
    assert await value(kernel, "precious") == "1"


async def test_each_state_that_was_left_by_a_restart_stays_within_reach(
    kernel: NotebookKernel,
    keeper: SnapshotKeeper,
    make_keeper: Callable[..., SnapshotKeeper],
    jp_fetch: Any,
) -> None:
    left = []
    for number, name in enumerate(("rich", "model", "table")):
        # Before the last of them the server is restarted as well.
        keeper = make_keeper(kernel) if name == "table" else keeper
        for save in range(3):
            await kernel.execute(f"{name} = {number}; turn = {save}", store_history=True)
            record = await keeper.capture("turn")
            assert record.outcome == "ok"
        left.append((name, record.snapshot_id))
        await jp_fetch("api", "kernels", kernel.kernel_id, "restart", method="POST", body="{}")
    await kernel.execute("fresh = 1", store_history=True)
    await keeper.capture("turn")
    for name, snapshot_id in left:
        restored = await keeper.restore("manual", "hot", snapshot_id=snapshot_id)
        assert restored.names[name]["action"] == "loaded"
    assert await value(kernel, "rich, model, table, fresh") == "(0, 1, 2, 1)"


async def test_of_the_states_that_were_left_the_oldest_goes(
    kernel: NotebookKernel, keeper: SnapshotKeeper, jp_fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prime_ext.kernel.snapshot_files.MAX_KEPT", 2)
    saved = []
    for number in range(4):
        if number:
            await jp_fetch("api", "kernels", kernel.kernel_id, "restart", method="POST", body="{}")
        await kernel.execute(f"state = {number}", store_history=True)
        saved.append((await keeper.capture("turn")).snapshot_id)
    listed = [entry["snapshot_id"] for entry in await keeper.snapshots()]
    assert set(listed) == set(saved[1:])


async def test_a_crash_right_behind_a_restore_brings_back_what_was_restored(
    kernel: NotebookKernel, keeper: SnapshotKeeper
) -> None:
    await kernel.execute("x = 7", store_history=True)
    good = await keeper.capture("turn")
    await crash(kernel)
    await kernel.execute("y = 1", store_history=True)
    await keeper.capture("turn")
    assert good.snapshot_id is not None
    await keeper.restore("manual", "hot", snapshot_id=good.snapshot_id)
    await crash(kernel)
    again = await keeper.restore("crash", "cold")
    assert (again.outcome, again.snapshot_id) == ("ok", good.snapshot_id)
    assert await value(kernel, "x") == "7"

    await kernel.execute("x = 8", store_history=True)
    await keeper.capture("turn")
    await crash(kernel)
    await keeper.restore("crash", "cold")
    assert await value(kernel, "x") == "8"


async def test_unknown_snapshot(kernel: NotebookKernel, keeper: SnapshotKeeper) -> None:
    await kernel.ensure()
    with pytest.raises(PrimeError) as raised:
        await keeper.restore("manual", "hot", snapshot_id="nothing")
    assert raised.value.code == "snapshot_not_found"
    assert raised.value.status == 404


async def test_a_new_server_finds_snapshot_and_kernel(
    kernel: NotebookKernel, keeper: SnapshotKeeper, make_keeper: Callable[..., SnapshotKeeper]
) -> None:
    await kernel.execute("x = 1", store_history=True)
    saved = await keeper.capture("turn")
    fresh = make_keeper(kernel)
    assert [s["snapshot_id"] for s in await fresh.snapshots()] == [saved.snapshot_id]
    assert (await fresh.capture("compaction")).outcome == "unchanged"
    assert (await fresh.kernel_state())["status"] == "current"
    # The process is the same one: nothing needs to be kept aside.
    assert len(await fresh.snapshots()) == 1
