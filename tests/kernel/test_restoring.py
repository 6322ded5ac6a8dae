"""A restore that fails goes on: again, the generation before, one component after the other."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext.config import SnapshotConfig
from prime_ext.errors import PrimeError
from prime_ext.kernel.newest import Newest, newest_in
from prime_ext.kernel.restoring import ENDED_THE_KERNEL, INTERRUPTED, MAX_DEATHS
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.kernel.snapshot_files import SnapshotFiles
from prime_ext.state import verification
from tests.kernel.conftest import until
from tests.kernel.held_up import HeldUp
from tests.kernel.test_snapshot import KEY, crash, value

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.session.records import AnyRecord

BOMB = """
class Bomb:
    def __reduce__(self):
        return (arm, (type(self), self.number))
    def __init__(self, number=0):
        self.number = number
def arm(kind, number):
    import os
    if os.path.exists({flag!r}):
        {effect}
    bomb = object.__new__(kind)
    bomb.number = number
    return bomb
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def keeper(kernel: NotebookKernel, folder: Path) -> SnapshotKeeper:
    return SnapshotKeeper(
        SnapshotFiles(folder, KEY), kernel, SnapshotConfig(), logging.getLogger("tests")
    )


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """While this file is there, loading a bomb has its effect."""
    return tmp_path / "flag"


def arm(flag: Path) -> None:
    flag.touch()


def disarm(flag: Path) -> None:
    flag.unlink()


def damage(path: Path, at: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    path.write_bytes(bytes(data))


def newest_segment(folder: Path) -> Path:
    segments = (folder / "kernel-state.d").glob("seg-*.bin")
    return max(segments, key=lambda path: int(path.stem.partition("-")[2]))


async def test_what_is_damaged_in_the_newest_comes_from_the_one_before(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    await kernel.execute("import numpy\ntable = numpy.zeros(100_000)", store_history=True)
    await keeper.capture("turn")
    await kernel.execute("table = numpy.ones(100_000); other = 1", store_history=True)
    await keeper.capture("turn")
    damage(newest_segment(folder))
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "partial"
    assert restored.names["table"]["status"] == "degraded"
    assert "an older value" in restored.names["table"]["reason"]
    assert restored.names["other"]["status"] == "verified"
    assert await value(kernel, "float(table.sum()), other") == "(0.0, 1)"


async def test_what_is_damaged_everywhere_is_named_and_the_rest_comes_back(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    await kernel.execute("import numpy\ntable = numpy.ones(100_000); x = 1", store_history=True)
    await keeper.capture("turn")
    damage(newest_segment(folder))
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "partial"
    assert restored.names["table"]["status"] == "skipped"
    assert "altered" in restored.names["table"]["reason"]
    assert await value(kernel, "x, 'table' in dir()") == "(1, False)"
    # What follows does not push the state out from which the rest may still be wanted.
    await kernel.execute("y = 2", store_history=True)
    for _ in range(3):
        await kernel.execute("y += 1", store_history=True)
        await keeper.capture("turn")
    assert restored.snapshot_id in [entry["id"] for entry in await keeper.snapshots()]


async def test_both_generations_damaged_is_told_as_it_is(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    for number in range(2):
        await kernel.execute(f"x = {number}", store_history=True)
        await keeper.capture("turn")
    damage(folder / "kernel-state.dill")
    damage(folder / "kernel-state.d" / "previous.dill")
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "failed"
    assert "neither the newest snapshot nor the one before it" in str(restored.reason)
    with pytest.raises(PrimeError) as raised:
        await keeper.restore("manual", "cold")
    assert raised.value.code == "snapshot_refused"
    for words in (str(restored.reason), raised.value.message, raised.value.hint):
        assert "import" not in words
        assert "generation=" not in words


async def test_a_component_that_raises_costs_its_own_names_only(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path
) -> None:
    code = BOMB.format(flag=str(flag), effect="raise OSError('gone')")
    await kernel.execute(code + "bomb = Bomb(1); x = [1, 2]", store_history=True)
    await keeper.capture("turn")
    await until(lambda: "" in verification.read(folder, KEY).values())
    arm(flag)
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "partial"
    assert restored.names["bomb"]["status"] in ("skipped", "degraded")
    assert "gone" in restored.names["bomb"]["reason"]
    assert await value(kernel, "x, Bomb(3).number") == "([1, 2], 3)"


async def test_what_ends_the_kernel_is_found_and_left_out(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path
) -> None:
    code = BOMB.format(flag=str(flag), effect="os._exit(1)")
    await kernel.execute(
        f"before = [1]\n{code}bomb = Bomb(1)\nafter = {{'a': 2}}", store_history=True
    )
    await keeper.capture("turn")
    await until(lambda: "" in verification.read(folder, KEY).values())
    arm(flag)
    await crash(kernel)
    generation = kernel.generation
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "partial", restored.reason
    assert kernel.generation == generation + 2  # all at once, then the component alone
    assert restored.names["bomb"]["reason"] == ENDED_THE_KERNEL
    assert {n for n, e in restored.names.items() if e["action"] == "loaded"} >= {"before", "after"}
    assert await value(kernel, "before, after, Bomb(3).number") == "([1], {'a': 2}, 3)"


async def test_it_gives_up_before_the_kernel_is_lost_for_good(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path
) -> None:
    code = BOMB.format(flag=str(flag), effect="os._exit(1)")
    # Each with a class and a function of its own, else they would be one component.
    bombs = "".join(
        code.replace("Bomb", f"Bomb{number}").replace("arm", f"arm{number}")
        + f"bomb{number} = Bomb{number}({number})\n"
        for number in range(6)
    )
    await kernel.execute(f"{bombs}x = 1", store_history=True)
    await keeper.capture("turn")
    await until(lambda: "" in verification.read(folder, KEY).values())
    arm(flag)
    await crash(kernel)
    generation = kernel.generation
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "failed"
    assert "died" in str(restored.reason)
    await until(lambda: kernel.state in ("idle", "starting"))
    assert kernel.generation == generation + MAX_DEATHS
    # The kernel goes on, and a person can have what does no harm.
    disarm(flag)
    assert (await keeper.restore("manual", "cold")).outcome == "ok"
    assert await value(kernel, "x, bomb5.number") == "(1, 5)"


async def test_what_ended_the_process_that_read_it_back_is_left_out_until_asked_for(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path
) -> None:
    code = BOMB.format(flag=str(flag), effect="os._exit(1)")
    arm(flag)
    await kernel.execute(f"before = [1]\n{code}bomb = Bomb(1)", store_history=True)
    await keeper.capture("turn")
    await until(lambda: any(verification.read(folder, KEY).values()))
    await crash(kernel)
    generation = kernel.generation
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "partial", restored.reason
    assert kernel.generation == generation, "the kernel was not ended by it again"
    assert restored.names["bomb"]["action"] == "none"
    assert restored.names["bomb"]["left_out"] == "ended"
    assert "left_out" not in restored.names["before"]
    assert await value(kernel, "before, Bomb(3).number") == "([1], 3)"
    disarm(flag)
    asked = await keeper.restore("manual", "cold", ["bomb"], snapshot_id=restored.snapshot_id)
    assert asked.outcome == "ok"
    assert await value(kernel, "bomb.number") == "1"


async def test_a_name_that_is_asked_for_and_hangs_can_be_given_up(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path, tmp_path: Path
) -> None:
    loading = tmp_path / "loading"
    effect = f"open({str(loading)!r}, 'w').close(); import time; time.sleep(600)"
    code = BOMB.format(flag=str(flag), effect=effect)
    await kernel.execute(f"before = [1]\n{code}bomb = Bomb(1)", store_history=True)
    await keeper.capture("turn")
    await until(lambda: "" in verification.read(folder, KEY).values())
    await crash(kernel)
    assert (await keeper.restore("crash", "cold", ["before"])).outcome == "ok"
    generation = kernel.generation
    arm(flag)
    given_up = asyncio.Event()
    asking = asyncio.create_task(keeper.restore("manual", "hot", ["bomb"], given_up=given_up))
    await until(loading.exists)
    given_up.set()
    await kernel.stop_loading()
    restored = await asking
    assert (restored.outcome, restored.asked, restored.attempts) == ("partial", ["bomb"], 1)
    assert restored.names["bomb"]["reason"] == INTERRUPTED
    assert restored.names["bomb"]["left_out"] == "interrupted"
    assert kernel.generation == generation
    assert await value(kernel, "before, 'bomb' in dir()") == "([1], False)"


async def test_what_ignores_the_interrupt_ends_with_the_kernel_and_counts_as_stopped(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path, tmp_path: Path
) -> None:
    loading, deaf = tmp_path / "loading", tmp_path / "deaf"
    effect = f"""
        import time
        open({str(loading)!r}, 'w').close()
        while True:
            try:
                time.sleep(600)
            except BaseException:
                open({str(deaf)!r}, 'w').close()
"""
    code = BOMB.format(flag=str(flag), effect=effect)
    await kernel.execute(f"{code}bomb = Bomb(1)", store_history=True)
    await keeper.capture("turn")
    await until(lambda: "" in verification.read(folder, KEY).values())
    await kernel.execute("del bomb; import os", store_history=True)
    pid = int(await value(kernel, "os.getpid()"))
    arm(flag)
    given_up = asyncio.Event()
    asking = asyncio.create_task(keeper.restore("manual", "hot", ["bomb"], given_up=given_up))
    await until(loading.exists)
    given_up.set()
    await kernel.stop_loading()
    await until(deaf.exists)
    os.kill(pid, signal.SIGKILL)
    restored = await asking
    assert (restored.attempts, restored.names["bomb"]["left_out"]) == (1, "interrupted")


async def test_a_name_that_waits_for_a_cell_is_not_loaded_once_it_is_given_up(
    kernel: NotebookKernel, keeper: SnapshotKeeper, tmp_path: Path
) -> None:
    await kernel.execute("x = 1", store_history=True)
    snapshot = await keeper.capture("turn")
    await kernel.execute("del x", store_history=True)
    go_on, running = tmp_path / "go_on", tmp_path / "running"
    waits = f"open({str(running)!r}, 'w').close()\nwhile not os.path.exists({str(go_on)!r}):"
    cell = asyncio.create_task(
        kernel.execute(f"import os, time\n{waits}\n    time.sleep(0.01)\ny = 2", store_history=True)
    )
    await until(running.exists)
    given_up = asyncio.Event()
    asking = asyncio.create_task(
        keeper.restore("manual", "hot", ["x"], snapshot_id=snapshot.snapshot_id, given_up=given_up)
    )
    connection = kernel._connection
    assert connection is not None
    await until(lambda: "state_load" in connection.private._on_shell)
    given_up.set()
    await kernel.stop_loading()
    restored = await asking
    go_on.touch()
    await cell
    assert restored.names["x"]["left_out"] == "interrupted"
    assert await value(kernel, "y, 'x' in dir()") == "(2, False)", "the cell was left alone"


async def test_a_name_that_is_asked_for_comes_alone_and_ends_the_kernel_once_at_most(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path, flag: Path, tmp_path: Path
) -> None:
    code = BOMB.format(flag=str(flag), effect="os._exit(1)")
    await kernel.execute(f"{code}bomb = Bomb(1); x = 1", store_history=True)
    await keeper.capture("turn")
    await until(lambda: "" in verification.read(folder, KEY).values())
    await crash(kernel)
    assert (await keeper.restore("crash", "cold")).outcome == "ok"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = f"import os; os.chdir({str(elsewhere)!r}); del bomb, x"
    await kernel.execute(moved, store_history=True)
    assert (await keeper.restore("manual", "hot", ["bomb"])).outcome == "ok"
    assert await value(kernel, "os.path.basename(os.getcwd()), bomb.number") == "('elsewhere', 1)"
    assert await value(kernel, "'x' in dir()") == "False"
    await kernel.execute("del bomb", store_history=True)
    arm(flag)
    generation = kernel.generation
    ended = await keeper.restore("manual", "hot", ["bomb"])
    assert ended.names["bomb"]["reason"] == ENDED_THE_KERNEL
    assert "left_out" not in ended.names["bomb"], "it was tried in the kernel itself"
    assert (ended.attempts, kernel.generation) == (1, generation + 1)


async def test_the_check_after_a_compaction_loads_what_is_gone_and_overwrites_nothing(
    kernel: NotebookKernel, keeper: SnapshotKeeper
) -> None:
    await kernel.execute("a = [1]; b = [2]; c = [3]; mark = id(c)", store_history=True)
    await keeper.capture("compaction")
    unchanged = await keeper.check()
    assert (unchanged.outcome, unchanged.trigger, unchanged.names) == (
        "unchanged",
        "compaction",
        {},
    )
    await kernel.execute("a = 'mine'; del b", store_history=True)
    checked = await keeper.check()
    assert checked.outcome == "ok"
    assert [n for n, e in checked.names.items() if e["action"] == "loaded"] == ["b"]
    assert await value(kernel, "a, b, id(c) == mark") == "('mine', [2], True)"
    # It would not be true that what is live is saved.
    assert (await keeper.kernel_state())["status"] == "stale"


async def test_an_older_snapshot_in_the_place_of_the_newest_is_passed_over(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    head = folder / "kernel-state.dill"
    heads = []
    for number in range(3):
        await kernel.execute(f"number = {number}", store_history=True)
        newest = await keeper.capture("turn")
        heads.append(head.read_bytes())
    assert newest.generation == 3
    head.write_bytes(heads[0])
    assert (await keeper.kernel_state())["status"] == "stale"
    await crash(kernel)
    oldest, before = [entry["id"] for entry in reversed(await keeper.snapshots())]
    restored = await keeper.restore("crash", "cold")
    assert restored.snapshot_id == before
    assert restored.saved
    assert "the newest snapshot was replaced by an older one" in (restored.reason or "")
    assert await value(kernel, "number") == "1"
    # It is still there for a person who wants it, and the next save has a number of its own.
    await keeper.restore("manual", "cold", overwrite=True, snapshot_id=oldest)
    assert await value(kernel, "number") == "0"
    saved = await keeper.capture("compaction")
    assert (saved.outcome, saved.generation) == ("ok", 4)


async def test_where_there_is_nothing_but_an_older_snapshot_nothing_is_restored(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    head = folder / "kernel-state.dill"
    await kernel.execute("number = 0", store_history=True)
    await keeper.capture("turn")
    older = head.read_bytes()
    await kernel.execute("number = 1", store_history=True)
    await keeper.capture("turn")
    head.write_bytes(older)
    (folder / "kernel-state.d" / "previous.dill").unlink()
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert (restored.outcome, restored.snapshot_id) == ("failed", None)
    assert "replaced by an older one, of 20" in (restored.reason or "")
    assert await value(kernel, "'number' in dir()") == "False"


@pytest.mark.parametrize("recorded", [0, 1])
async def test_a_snapshot_that_no_record_tells_of_is_the_newest(
    kernel: NotebookKernel, folder: Path, recorded: int
) -> None:
    """The server was killed after the save and before the record of it was written."""

    def keeper(newest: Newest) -> SnapshotKeeper:
        files = SnapshotFiles(folder, KEY)
        log = logging.getLogger("tests")
        return SnapshotKeeper(files, kernel, SnapshotConfig(), log, newest=newest)

    records: list[AnyRecord] = []
    first = keeper(Newest())
    for number in range(2):
        await kernel.execute(f"number = {number}", store_history=True)
        records.insert(0, await first.capture("turn"))
    await crash(kernel)
    restored = await keeper(newest_in(records[2 - recorded :])).restore("resume", "cold")
    assert (restored.outcome, restored.saved) == ("ok", None)
    assert await value(kernel, "number") == "1"


async def test_a_snapshot_that_outlives_its_kernel_is_waited_for(
    kernel: NotebookKernel, keeper: SnapshotKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel dies while the process that it has forked is about to commit."""
    held_up = HeldUp(tmp_path, monkeypatch)
    await kernel.execute("number = 1", store_history=True)
    await keeper.capture("turn")
    await kernel.execute(held_up.code, store_history=False)
    await kernel.execute("number = 2", store_history=True)
    assert (await keeper.capture("compaction")).generation == 0, "it is not durable"
    await held_up.reached()
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert (restored.outcome, restored.saved) == ("ok", None)
    assert await value(kernel, "number") == "2"
    assert held_up.was_awaited


async def test_a_snapshot_after_all_files_are_lost_has_a_higher_number(
    kernel: NotebookKernel, keeper: SnapshotKeeper, folder: Path
) -> None:
    await kernel.execute("number = 0", store_history=True)
    await keeper.capture("turn")
    (folder / "kernel-state.dill").unlink()
    assert (await keeper.kernel_state())["status"] == "stale"
    assert (await keeper.capture("compaction")).generation == 2
    (folder / "kernel-state.dill").write_bytes(b"damaged")
    await kernel.execute("number = 1", store_history=True)
    assert (await keeper.capture("turn")).generation == 3


async def test_the_check_leaves_a_kernel_alone_that_was_not_saved(
    kernel: NotebookKernel, keeper: SnapshotKeeper
) -> None:
    assert (await keeper.check()).outcome == "skipped"
    await kernel.execute("x = 1", store_history=True)
    await keeper.capture("turn")
    await crash(kernel)
    checked = await keeper.check()
    assert checked.outcome == "skipped"
    assert await value(kernel, "'x' in dir()") == "False"


def test_the_files_say_what_they_take(folder: Path) -> None:
    files: Any = SnapshotFiles(folder, KEY)
    assert (files.bytes(), files.list(), files.delete()) == (0, [], 0)
