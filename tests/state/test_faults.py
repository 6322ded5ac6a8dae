"""Whatever goes wrong while a snapshot is written, a good one stays."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import format as files
from prime_ext.state import writer

from .kernels import ROOT
from .snapshots import load, python, save

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "link"])
def test_every_failing_system_call_leaves_the_last_snapshot(
    saved: Path, key: bytes, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the first, second, … call fails until a save gets through."""
    real: Callable[..., Any] = getattr(os, call)
    for fails_at in range(1, 20):
        count = 0

        def failing(*arguments: Any, at: int = fails_at, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **options)

        monkeypatch.setattr(os, call, failing)
        namespace = {"n": 9, "array": np.full(100_000, 9), "text": ["9"] * 3}
        failed = True
        with contextlib.suppress(state.SnapshotWriteError):
            save(saved, namespace, key, fork=False)
            failed = False
        monkeypatch.setattr(os, call, real)
        found = load(saved, key)
        assert {found["n"], int(found["text"][0]), *np.unique(found["array"])} == {found["n"]}
        assert found["n"] == (2 if failed else 9) or call in ("replace", "fsync", "link")
        if not failed and count < fails_at:
            return
    raise AssertionError("no save got through")


def test_file_size_limit_in_the_forked_writer(saved: Path, key: bytes) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(state.SnapshotWriteError, match="before it is untouched"):
            save(saved, {"n": 3, "array": np.random.rand(100_000)}, key)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load(saved, key)["n"] == 2
    save(saved, {"n": 4}, key)
    assert load(saved, key)["n"] == 4


def test_directory_that_cannot_be_written(tmp_path: Path, key: bytes) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(state.SnapshotWriteError, match="cannot be written"):
        save(tmp_path / "file" / "snapshot", {"n": 1}, key)


def test_read_only_directory(saved: Path, key: bytes) -> None:
    folders = [saved, saved / files.DATA_NAME]
    for folder in folders:
        folder.chmod(0o500)
    try:
        with _not_as_root(), pytest.raises(state.SnapshotWriteError):
            save(saved, {"n": 3}, key)
        assert load(saved, key)["n"] == 2
    finally:
        for folder in folders:
            folder.chmod(0o700)
    save(saved, {"n": 4}, key)
    assert load(saved, key)["n"] == 4


@contextlib.contextmanager
def _not_as_root() -> Iterator[None]:
    """Permissions mean nothing to root, in whose name some test machines run everything."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_disk_with_little_room(saved: Path, key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is left out, and told; the rest is saved."""
    usage = shutil.disk_usage(saved)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    report = save(saved, {"n": 3, "large": np.random.rand(500_000)}, key)
    assert report.names["large"].status == "skipped"
    assert "limit" in report.names["large"].reason
    assert load(saved, key) == {"n": 3}


LOOP = """
    import sys
    import numpy as np
    from prime_ext import state
    n, namespace = 0, {}
    while n >= 0:
        if n == 1:
            print("saved once", flush=True)
        n += 1
        namespace.update(n=n, array=np.full(200_000, n), words=[str(n)] * 2000, at={"n": n})
        state.save(sys.argv[1], namespace, key=b"k" * 32, verify="off", fork=sys.argv[2] == "fork")
"""


def _kill_while_saving(directory: Path, key: bytes, fork: str, rounds: int) -> None:
    chance = random.Random(5)
    for _ in range(rounds):
        process = python(LOOP, str(directory), fork)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.15))  # the random instant
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = load(directory, key, verify="wait")
        n = found["n"]
        assert (found["array"] == n).all(), "a mixture of two snapshots"
        assert found["words"] == [str(n)] * 2000
        assert found["at"] == {"n": n}


@pytest.mark.parametrize("fork", ["fork", "inline"])
def test_kill_at_random_instants(tmp_path: Path, key: bytes, fork: str) -> None:
    _kill_while_saving(tmp_path / "s", key, fork, rounds=6)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fork", ["fork", "inline"])
def test_kill_at_many_random_instants(tmp_path: Path, key: bytes, fork: str) -> None:
    _kill_while_saving(tmp_path / "s", key, fork, rounds=120)


@pytest.mark.skipif(sys.platform != "linux", reason="a thread writes there")
def test_the_forked_writer_survives_the_kernel(tmp_path: Path, key: bytes) -> None:
    """The kernel dies when it has handed over, with nothing on disk yet."""
    dying = python(
        """
        import os, signal, sys
        import numpy as np
        from prime_ext import state
        values = {"array": np.arange(10_000_000.0), "text": "later"}
        state.begin(sys.argv[1], values, key=bytes.fromhex(sys.argv[2]))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        str(tmp_path),
        key.hex(),
    )
    with dying as kernel:
        assert kernel.wait() == -signal.SIGKILL
    restored = load(tmp_path, key, lock_timeout=60)  # waits for the writer
    assert restored["text"] == "later"
    assert restored["array"][-1] == 9_999_999


def test_two_writers_at_once(tmp_path: Path, key: bytes) -> None:
    code = """
        import sys
        import numpy as np
        from prime_ext import state
        for n in range(8):
            who = f"{sys.argv[2]}{n}"
            namespace = {"who": who, "array": np.full(50_000, ord(who[0])), "words": [who] * 2000}
            state.save(sys.argv[1], namespace, key=b"k" * 32, verify="off")
    """
    processes = [python(code, str(tmp_path / "s"), who) for who in "ab"]
    for process in processes:
        assert process.wait(120) == 0
        assert process.stdout is not None
        process.stdout.close()
    for generation in ("current", "previous"):
        found = load(tmp_path / "s", key, generation=generation, verify="wait")
        assert (found["array"] == ord(found["who"][0])).all()
        assert found["words"] == [found["who"]] * 2000
    assert state.inspect(tmp_path / "s", key=key).generation == 16


def test_busy_directory(saved: Path, key: bytes) -> None:
    code = """
        import sys, pathlib
        from prime_ext.state import lock
        with lock.exclusive(pathlib.Path(sys.argv[1]), 5):
            print("locked", flush=True)
            sys.stdin.read()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(saved / files.DATA_NAME)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(state.SnapshotBusy, match="did not finish"):
        save(saved, {"n": 3}, key, lock_timeout=0.2)
    found: dict[str, Any] = {}
    report = state.load(saved, found, key=key, mode="cold", lock_timeout=0.2)
    assert found["n"] == 2, "reading needs no lock"
    assert any("still saving" in note for note in report.notes)
    holder.communicate("")
    save(saved, {"n": 3}, key)


def test_killed_writer_is_replaced(
    saved: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked writer that vanishes costs nothing: the caller, who waits, writes itself."""
    parent = os.getpid()
    real = writer.write

    def dies_in_the_child(*arguments: Any) -> Any:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    monkeypatch.setattr(writer, "write", dies_in_the_child)
    report = save(saved, {"n": 3}, key)
    assert report.writer == "inline"
    assert load(saved, key)["n"] == 3


def test_hanging_writer_is_given_up(
    saved: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    real = writer.write

    def hangs_in_the_child(*arguments: Any) -> Any:
        while os.getpid() != parent:
            signal.pause()
        return real(*arguments)

    monkeypatch.setattr(writer, "write", hangs_in_the_child)
    monkeypatch.setattr("prime_ext.state.offload.STALL_SECONDS", 0.3)
    report = save(saved, {"n": 3}, key)
    assert report.writer == "inline"
    assert load(saved, key)["n"] == 3


def test_thread_writer_notices_a_change(
    saved: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without fork the objects may change before they are written: then nothing is committed."""
    array = np.zeros(300_000)
    may_write = threading.Event()
    real = writer.write

    def held_up(job: Any, progress: Any) -> Any:
        assert may_write.wait(30)
        return real(job, progress)

    monkeypatch.setattr(writer, "write", held_up)
    saving = state.begin(saved, {"array": array, "n": 3}, key=key, fork=False)
    array[0] = 1
    may_write.set()
    with pytest.raises(state.SnapshotWriteError, match="changed while"):
        saving.wait(30)
    assert load(saved, key)["n"] == 2


def test_thread_writer_keeps_the_moment(
    saved: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change to what has been written already neither shows in the snapshot nor spoils it."""
    array = np.zeros(300_000)
    real = writer.write

    def changes_meanwhile(job: Any, progress: Any) -> Any:
        return real(job, lambda _slow: array.__setitem__(0, array[0] + 1))

    monkeypatch.setattr(writer, "write", changes_meanwhile)
    assert state.begin(saved, {"array": array}, key=key, fork=False).wait(30).writer == "thread"
    assert array[0] > 0, "it did change"
    assert load(saved, key, verify="wait")["array"][0] == 0


def test_budgets(tmp_path: Path, key: bytes) -> None:
    class Slow:
        def __reduce__(self) -> Any:
            time.sleep(0.2)
            return int, (1,)

    slow = [Slow() for _ in range(50)]
    namespace = {"slow": slow, "quick": 1, "slower": [Slow() for _ in range(50)]}
    started = time.monotonic()
    report = save(tmp_path, namespace, key, seconds_per_variable=0.5, seconds_total=3.0)
    assert time.monotonic() - started < 15, "without budgets it takes 20 s"
    assert report.names["slow"].status == "skipped"
    assert "longer than 0.5 s" in report.names["slow"].reason
    assert report.names["quick"].status != "skipped"
    assert namespace["slow"] is slow, "what exceeds a budget stays in the namespace"


def test_a_notebook_that_replaces_functions_of_json(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dump", "dumps", "load", "loads"):
        monkeypatch.setattr(json, name, lambda *_args, **_kwargs: "replaced")
    assert save(tmp_path, {"n": 3}, key, verify="wait").names["n"].status == "verified"
    assert load(tmp_path, key) == {"n": 3}


@pytest.fixture
def interrupt_handler(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What an interrupt does: by default it raises `KeyboardInterrupt`."""
    before = signal.signal(signal.SIGINT, getattr(request, "param", signal.default_int_handler))
    yield signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupt_handler")
def test_interrupt_leaves_everything(saved: Path, key: bytes) -> None:
    class Interrupted:
        def __reduce__(self) -> Any:
            signal.raise_signal(signal.SIGINT)
            time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        save(saved, {"n": 3, "it": Interrupted()}, key)
    assert load(saved, key)["n"] == 2
    save(saved, {"n": 4}, key, lock_timeout=1)


@pytest.mark.usefixtures("interrupt_handler")
def test_interrupted_load_keeps_the_snapshot(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"number": 3, "slow": Interrupts()}, key)
    namespace: dict[str, Any] = {}
    with pytest.raises(KeyboardInterrupt):
        state.load(tmp_path, namespace, key=key, mode="cold")
    for value in range(3):
        save(tmp_path, {"partial": value}, key)
    assert load(tmp_path, key, generation="kept", names=["number"]) == {"number": 3}


@pytest.mark.parametrize(
    "interrupt_handler", [signal.default_int_handler, signal.SIG_IGN], indirect=True
)
def test_object_that_raises_an_interrupt_by_itself(
    interrupt_handler: Any, tmp_path: Path, key: bytes
) -> None:
    report = save(tmp_path, {"n": 3, "it": [RaisesInterrupt(), 5]}, key)
    assert (report.names["it"].status, report.names["n"].status) == ("degraded", "unverified")
    assert "KeyboardInterrupt" in report.names["it"].reason
    assert load(tmp_path, key)["n"] == 3
    save(tmp_path, {"n": 4, "it": RaisesInterruptOnLoad()}, key)
    namespace: dict[str, Any] = {}
    loaded = state.load(tmp_path, namespace, key=key, mode="cold")
    assert namespace["n"] == 4
    assert loaded.names["it"].status != "verified"
    assert "KeyboardInterrupt" in loaded.names["it"].reason
    assert signal.getsignal(signal.SIGINT) == interrupt_handler


class RaisesInterrupt:
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


def _raise_interrupt() -> Any:
    raise KeyboardInterrupt


class RaisesInterruptOnLoad:
    def __reduce__(self) -> Any:
        return _raise_interrupt, ()


def _interrupt() -> Any:
    signal.raise_signal(signal.SIGINT)
    time.sleep(60)


class Interrupts:
    """Takes long to load, until a person presses Stop."""

    def __reduce__(self) -> Any:
        return _interrupt, ()
