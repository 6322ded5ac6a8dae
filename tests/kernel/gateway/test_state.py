"""Variables of a kernel behind a gateway are saved and restored: over the wire, or at a URL."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tornado.escape import json_decode

from prime_ext import state
from prime_ext.config import SnapshotConfig
from prime_ext.errors import PrimeError
from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.kernel.snapshot_files import SnapshotFiles, derive_key
from prime_ext.kernel.transfer import PIECE_BYTES, WINDOW
from tests.kernel.conftest import until

from .conftest import value
from .process import Door, Gateway
from .test_running import another_client

KEY = derive_key(b"secret of the server", "session-1")
SIZE = 5_000_000

WORK = f"""
import hashlib, os
large = os.urandom({SIZE})
class Box:
    side = 3
box = Box()
both = [box, box]
def area(): return box.side ** 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "session-1"
    folder.mkdir(mode=0o700)
    return folder


async def save(kernel: NotebookKernel, folder: Path) -> dict[str, Any]:
    return await kernel.save_state(folder, KEY, options={})


async def load(kernel: NotebookKernel, folder: Path, **options: Any) -> dict[str, Any]:
    return await kernel.load_state(folder, KEY, options={"mode": "cold", **options})


async def crash(kernel: NotebookKernel) -> None:
    renewed: list[str] = []
    kernel.on_restarted.append(renewed.append)
    run = await kernel.execute("__import__('os')._exit(1)", store_history=False)
    assert run.status == "died"
    await until(lambda: bool(renewed))
    kernel.on_restarted.pop()


async def run(kernel: NotebookKernel, code: str) -> None:
    done = await kernel.execute(code, store_history=True)
    assert done.status == "ok", done.error


DIGEST = "__import__('hashlib').sha256(large).hexdigest()"


async def test_variables_survive_a_crash(kernel: NotebookKernel, folder: Path) -> None:
    await run(kernel, WORK)
    digest = await value(kernel, DIGEST)
    await save(kernel, folder)
    manifest = state.inspect(folder, key=KEY)
    assert manifest.signature == "valid"
    assert set(manifest.names) == {"hashlib", "os", "large", "Box", "box", "both", "area"}
    await crash(kernel)
    report = await load(kernel, folder)
    assert report["complete"]
    assert await value(kernel, DIGEST) == digest
    assert await value(kernel, "both[0] is both[1] is box, area()") == "True 9"


async def test_only_what_changed_travels(kernel: NotebookKernel, folder: Path, door: Door) -> None:
    await run(kernel, WORK)
    await save(kernel, folder)
    assert door.passed > SIZE
    await run(kernel, "small = 1")
    assert not await kernel.state_current(folder, KEY)
    door.passed = 0
    await save(kernel, folder)
    assert door.passed < 100_000
    assert "small" in state.inspect(folder, key=KEY).names
    assert "small" not in state.inspect(folder, key=KEY, generation="previous").names
    assert (await save(kernel, folder))["unchanged"]
    report = await kernel.load_state(folder, KEY, options={"mode": "hot"})
    assert {entry["action"] for entry in report["names"].values()} == {"kept"}
    assert door.passed < 200_000


async def test_what_was_read_back_is_known_here(kernel: NotebookKernel, folder: Path) -> None:
    await run(kernel, WORK)
    await save(kernel, folder)

    def statuses() -> set[str]:
        return {entry["status"] for entry in state.inspect(folder, key=KEY).names.values()}

    await until(lambda: statuses() == {"verified"})


async def test_nobody_else_hears_of_it(
    kernel: NotebookKernel, folder: Path, gateway: Gateway
) -> None:
    """Neither the transfer nor the key appears on IOPub; nor are there temporary names."""
    await run(kernel, WORK)
    await kernel.variables()
    other = await another_client(gateway, str(kernel.kernel_id))
    await save(kernel, folder)
    await load(kernel, folder, mode="hot")
    await run(kernel, "done = 1")
    heard = []
    while True:
        message = json_decode(await other.read_message())
        if message["parent_header"].get("msg_type") == "prime_execute_request":
            break
        heard.append(message["parent_header"].get("msg_type"))
    other.close()
    assert set(heard) <= {"kernel_info_request"}
    assert [v["name"] for v in await kernel.variables()][-2:] == ["area", "done"]


async def test_a_connection_that_breaks_on_the_way(
    kernel: NotebookKernel, folder: Path, door: Door
) -> None:
    await run(kernel, WORK)
    await save(kernel, folder)
    await run(kernel, f"large = os.urandom({SIZE}); second = 2")
    cuts: list[int] = []
    target = door.passed + SIZE // 2

    def cut() -> None:
        if not cuts and door.passed > target:
            cuts.append(door.passed)
            door.cut()

    door.on_passed = cut
    await save(kernel, folder)
    assert cuts
    digest = await value(kernel, DIGEST)
    await crash(kernel)
    assert (await load(kernel, folder))["complete"]
    assert await value(kernel, DIGEST) == digest
    assert await value(kernel, "second") == "2"


async def test_a_kernel_that_dies_on_the_way(
    kernel: NotebookKernel, folder: Path, door: Door
) -> None:
    """What was there before stays whole, and the next process saves under new names."""
    await run(kernel, WORK)
    first = await value(kernel, DIGEST)
    await save(kernel, folder)
    pid = int(await value(kernel, "os.getpid()"))
    # A window more than what can be on its way when the first piece has come.
    await run(kernel, f"large = os.urandom({2 * WINDOW * PIECE_BYTES}); second = 2")
    target = door.passed + PIECE_BYTES

    def kill() -> None:
        if door.passed > target:
            door.on_passed = lambda: None
            os.kill(pid, 9)

    door.on_passed = kill
    with pytest.raises(PrimeError) as caught:
        await save(kernel, folder)
    assert caught.value.code in ("kernel_died", "kernel_connection_lost")
    assert "second" not in state.inspect(folder, key=KEY).names
    report = await load(kernel, folder)
    assert report["complete"]
    assert await value(kernel, DIGEST) == first
    await run(kernel, f"other = os.urandom({SIZE})")
    await save(kernel, folder)
    await crash(kernel)
    assert (await load(kernel, folder, generation="previous"))["complete"]
    assert await value(kernel, f"len(large), {DIGEST}") == f"{SIZE} {first}"
    assert (await load(kernel, folder))["complete"]
    assert await value(kernel, "len(other)") == str(SIZE)


async def test_processes_do_not_mix_their_segments(kernel: NotebookKernel, folder: Path) -> None:
    """A fresh process that saves without a restore leaves the generations before it loadable."""
    await run(kernel, WORK)
    first = await value(kernel, DIGEST)
    await save(kernel, folder)
    await crash(kernel)
    await run(kernel, f"import os; large = os.urandom({SIZE})")
    second = await value(kernel, DIGEST)
    await save(kernel, folder)
    await crash(kernel)
    assert (await load(kernel, folder, generation="previous", names=["large"]))["complete"]
    assert await value(kernel, DIGEST) == first
    assert (await load(kernel, folder, names=["large"], overwrite=True))["complete"]
    assert await value(kernel, DIGEST) == second


@pytest.mark.parametrize("kernelspec", ["stocked"])
async def test_arrays_share_memory_and_do_not_travel_twice(
    kernel: NotebookKernel, folder: Path, door: Door
) -> None:
    size = 8 * 1_000_000
    await run(kernel, "import numpy as np; a = np.random.rand(1_000_000); view = a[::2]")
    total = await value(kernel, "a.sum()")
    await save(kernel, folder)
    await crash(kernel)
    await load(kernel, folder)
    assert await value(kernel, "a.sum(), np.shares_memory(a, view)") == f"{total} True"
    door.passed = 0
    await run(kernel, "small = 1")
    await save(kernel, folder)
    assert door.passed < size / 10


async def test_a_tampered_folder_is_refused_over_there(
    kernel: NotebookKernel, folder: Path
) -> None:
    await run(kernel, WORK)
    await save(kernel, folder)
    head = folder / "kernel-state.dill"
    content = bytearray(head.read_bytes())
    content[20] ^= 1
    head.write_bytes(content)
    await crash(kernel)
    with pytest.raises(PrimeError) as caught:
        await load(kernel, folder)
    assert caught.value.code == "snapshot_refused"


async def test_nothing_is_left_over_there(
    kernel: NotebookKernel, folder: Path, jp_serverapp: Any
) -> None:
    await run(kernel, WORK)
    await save(kernel, folder)
    temporary = await value(kernel, "__import__('tempfile').gettempdir()")
    pid = int(await value(kernel, "os.getpid()"))
    (scratch,) = _scratch_of(pid, Path(temporary))
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel.kernel_id)
    await until(lambda: not scratch.exists())


def _scratch_of(pid: int, temporary: Path) -> list[Path]:
    opened = {os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = [p for p in temporary.glob("prime-state-of-*") if str(p / "owner") in opened]
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in found)
    return found


class TestStore:
    """The snapshots lie at a URL."""

    @pytest.fixture
    def kernelspec(self) -> str:
        return "stocked"

    @pytest.fixture
    def protocol(self) -> str:
        """`file:` is a directory that the kernel saves in; any other protocol is fsspec's."""
        return "local"

    @pytest.fixture
    def store(self, protocol: str, gateway: Gateway, tmp_path: Path) -> str:
        return f"{protocol}://{gateway.home}/store-{tmp_path.name}"

    @pytest.mark.parametrize("protocol", ["file", "local"])
    async def test_segments_lie_there_and_heads_here_too(
        self, kernel: NotebookKernel, folder: Path, store: str, door: Door
    ) -> None:
        there = Path(store.partition("://")[2]) / folder.name
        await run(kernel, WORK)
        digest = await value(kernel, DIGEST)
        door.passed = 0
        report = await save(kernel, folder)
        assert not report["notes"]
        assert door.passed < SIZE / 2
        assert not list((folder / "kernel-state.d").glob("seg-*"))
        # A copy of what lies there is a snapshot like any other.
        loaded: dict[str, Any] = {}
        state.load(there, loaded, key=KEY, mode="cold", restore_process_state=False)
        assert len(loaded["large"]) == SIZE
        await run(kernel, "small = 1")
        await save(kernel, folder)
        await crash(kernel)
        assert (await load(kernel, folder))["complete"]
        assert await value(kernel, f"small, {DIGEST}") == f"1 {digest}"
        assert door.passed < SIZE / 2
        # What no generation needs is removed.
        for number in range(4):
            await run(kernel, f"large = {number}; more = os.urandom(200_000)")
            await save(kernel, folder)
        assert sum(path.stat().st_size for path in there.rglob("seg-*")) < SIZE

    async def test_a_store_that_is_gone_says_so(
        self, kernel: NotebookKernel, folder: Path, store: str
    ) -> None:
        await run(kernel, WORK)
        await save(kernel, folder)
        await crash(kernel)
        there = Path(store.partition("://")[2])
        away = await asyncio.to_thread(there.rename, there.with_suffix(".away"))
        with pytest.raises(PrimeError) as caught:
            await load(kernel, folder)
        assert caught.value.code == "store_unavailable"
        await asyncio.to_thread(away.rename, there)
        assert (await load(kernel, folder))["complete"]


class TestStoreThatCannotBeUsed:
    """The snapshots are sent to the server, and the report says why."""

    @pytest.mark.parametrize(
        ("kernelspec", "store", "reason"),
        [
            ("bare", "s3://name:password@bucket/prime", "fsspec"),
            ("stocked", "s3://name:password@bucket/prime", "s3fs"),
            ("bare", "file:///proc/nowhere", "nowhere"),
        ],
    )
    async def test_sent_here_instead(
        self, kernel: NotebookKernel, folder: Path, kernelspec: str, store: str, reason: str
    ) -> None:
        await run(kernel, WORK)
        (note,) = (await save(kernel, folder))["notes"]
        assert reason in note
        assert "password" not in note
        await crash(kernel)
        assert (await load(kernel, folder))["complete"]


@pytest.fixture
def keeper(kernel: NotebookKernel, folder: Path) -> SnapshotKeeper:
    log = logging.getLogger("tests.snapshot")
    return SnapshotKeeper(SnapshotFiles(folder, KEY), kernel, SnapshotConfig(), log)


async def test_the_agent_saves_and_restores_there(
    kernel: NotebookKernel, folder: Path, keeper: SnapshotKeeper
) -> None:
    """As a turn, a crash and a compaction do it; a damaged snapshot gives way to the one before."""
    await run(kernel, WORK)
    saved = await keeper.capture("turn")
    assert saved.outcome == "ok"
    assert saved.snapshot_id is not None
    assert (await keeper.kernel_state())["status"] == "current"
    await run(kernel, "small = 1")
    assert (await keeper.kernel_state())["status"] == "stale"
    assert (await keeper.capture("compaction")).outcome == "ok"
    await until(lambda: len(keeper.files.list()) == 2)
    await crash(kernel)
    restored = await keeper.restore("crash", "cold")
    assert restored.outcome == "ok"
    assert await value(kernel, "small") == "1"
    await crash(kernel)
    head = folder / "kernel-state.dill"
    head.write_bytes(head.read_bytes()[:-1])
    restored = await keeper.restore("manual", "cold")
    assert restored.outcome == "ok"
    assert restored.snapshot_id == saved.snapshot_id
    assert await value(kernel, "'small' in globals(), len(large)") == f"False {SIZE}"


async def test_what_never_arrived_is_not_called_current(
    kernel: NotebookKernel, keeper: SnapshotKeeper, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    await run(kernel, WORK)
    target = door.passed + SIZE // 2

    def shut() -> None:
        if door.passed > target:
            door.is_open = False
            door.cut()

    door.on_passed = shut
    # A compaction does not wait for all of it.
    assert (await keeper.capture("compaction")).snapshot_id is None
    await until(lambda: "did not get to the disk" in caplog.text)
    assert (await keeper.kernel_state())["status"] == "stale"
    door.on_passed = lambda: None
    door.is_open = True
    assert (await keeper.capture("turn")).outcome == "ok"
    assert (await keeper.kernel_state())["status"] == "current"
