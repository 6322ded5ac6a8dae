"""Whatever goes wrong while a snapshot is written or read, a good one stays."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import format as files
from prime_ext.state import writer

from .kernels import ROOT

np = pytest.importorskip("numpy")

OTHER_KEY = b"o" * 32


def save(directory: Path, namespace: dict[str, Any], key: bytes, **options: Any) -> state.Report:
    return state.save(directory, namespace, key=key, verify="off", **options)


def load(directory: Path, key: bytes, **options: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    defaults = {"restore_process_state": False, "verify": "off", "mode": "cold"}
    state.load(directory, namespace, key=key, **{**defaults, **options})
    return namespace


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def saved(tmp_path: Path, key: bytes) -> Path:
    """A directory with two generations: n = 1, then n = 2."""
    directory = tmp_path / "snapshot"
    for n in (1, 2):
        save(directory, {"n": n, "array": np.full(100_000, n), "text": [str(n)] * 3}, key)
    return directory


def test_two_generations(saved: Path, key: bytes) -> None:
    assert load(saved, key)["n"] == 2
    assert load(saved, key, generation="previous")["n"] == 1
    assert (load(saved, key, generation="previous")["array"] == 1).all()
    with pytest.raises(state.SnapshotMissing):
        load(saved, key, generation="kept")
    with pytest.raises(state.SnapshotMissing):
        load(saved / "nothing", key)


@pytest.mark.parametrize("position", [0, 9, 0.3, 0.6, 0.9, -1, -9, -41])
def test_altered_head_is_refused(saved: Path, key: bytes, position: float) -> None:
    head = saved / files.HEAD_NAME
    content = bytearray(head.read_bytes())
    index = int(position * len(content)) if 0 < position < 1 else int(position)
    content[index] ^= 0x55
    head.write_bytes(content)
    with pytest.raises((state.SnapshotRefused, state.SnapshotCorrupt), match="previous"):
        load(saved, key)
    assert load(saved, key, generation="previous")["n"] == 1


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_head_is_refused(saved: Path, key: bytes, share: float) -> None:
    head = saved / files.HEAD_NAME
    head.write_bytes(head.read_bytes()[: int(share * head.stat().st_size)])
    with pytest.raises(state.SnapshotCorrupt):
        load(saved, key)
    assert load(saved, key, generation="previous")["n"] == 1
    # The next save must not push the good generation out with the damaged one.
    save(saved, {"n": 3}, key)
    assert load(saved, key)["n"] == 3
    assert load(saved, key, generation="previous")["n"] == 1


def segments_of(directory: Path) -> list[Path]:
    return sorted((directory / files.DATA_NAME).glob("seg-*.bin"))


def test_damaged_segment(saved: Path, key: bytes) -> None:
    segment = segments_of(saved)[-1]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    namespace: dict[str, Any] = {}
    report = state.load(saved, namespace, key=key, mode="cold", verify="wait")
    assert report.names["array"].status == "skipped"
    assert "altered" in report.names["array"].reason
    assert namespace["n"] == 2
    assert not report.complete
    assert "array" not in namespace


def test_damaged_segment_is_noticed_in_the_background(
    saved: Path, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    segment = segments_of(saved)[-1]
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    namespace: dict[str, Any] = {}
    report = state.load(saved, namespace, key=key, mode="cold", verify="background")
    assert report.wait_for_check(30)
    assert not report.complete
    assert any("altered" in note for note in report.notes)
    assert "altered" in caplog.text


def test_truncated_missing_and_swapped_segments(saved: Path, key: bytes, tmp_path: Path) -> None:
    first, second = segments_of(saved)
    original = second.read_bytes()
    second.unlink()
    second.write_bytes(original[:1000])
    report = state.load(saved, {}, key=key, mode="cold")
    assert "truncated" in report.names["array"].reason
    second.unlink()
    report = state.load(saved, {}, key=key, mode="cold")
    assert report.names["array"].status == "skipped"
    shutil.copy(first, second)
    report = state.load(saved, {}, key=key, mode="cold", verify="wait")
    assert "altered" in report.names["array"].reason
    second.unlink()
    second.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(original)
    report = state.load(saved, {}, key=key, mode="cold")
    assert report.names["array"].status == "skipped"


def test_large_stream_in_an_altered_segment_is_not_unpickled(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"big": list(range(10_000))}, key)
    (segment,) = segments_of(tmp_path)
    mark = tmp_path / "mark"
    evil = pickle.dumps(_Marks(str(mark)))
    content = segment.read_bytes()
    segment.unlink()
    segment.write_bytes(evil + content[len(evil) :])
    report = state.load(tmp_path, {}, key=key, mode="cold", verify="off")
    assert "altered" in report.names["big"].reason
    assert not mark.exists()


class _Marks:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_foreign_snapshot_is_refused_before_unpickling(tmp_path: Path, key: bytes) -> None:
    mark = tmp_path / "mark"
    save(tmp_path / "foreign", {"payload": _Marks(str(mark))}, OTHER_KEY)
    with pytest.raises(state.SnapshotRefused, match="explicit trust"):
        load(tmp_path / "foreign", key)
    assert not mark.exists()
    assert state.inspect(tmp_path / "foreign", key=key).signature == "invalid"
    load(tmp_path / "foreign", OTHER_KEY)
    assert mark.exists(), "the payload is able to leave a mark, so the refusal meant something"


def test_plain_pickle_is_refused(saved: Path, key: bytes, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (saved / files.HEAD_NAME).write_bytes(pickle.dumps(_Marks(str(mark))) + b" " * 500)
    with pytest.raises(state.SnapshotCorrupt):
        load(saved, key)
    assert not mark.exists()


def test_head_is_no_pickle(saved: Path) -> None:
    with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, KeyError)):
        pickle.loads((saved / files.HEAD_NAME).read_bytes())


def test_symbolic_link_is_not_followed(saved: Path, key: bytes, tmp_path: Path) -> None:
    head = saved / files.HEAD_NAME
    head.rename(tmp_path / "moved")
    head.symlink_to(tmp_path / "moved")
    with pytest.raises(state.SnapshotRefused, match="plain file"):
        load(saved, key)


def test_json_is_only_a_copy(saved: Path, key: bytes) -> None:
    readable = saved / files.JSON_NAME
    parsed = json.loads(readable.read_text())
    assert {"version", "created", "seq", "kernelspec", "python", "names"} <= set(parsed)
    readable.write_text("{]")
    assert load(saved, key)["n"] == 2


def test_files_are_private(saved: Path) -> None:
    for path in [saved, *saved.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(saved: Path, key: bytes) -> None:
    saved.chmod(0o500)
    try:
        with pytest.raises(state.SnapshotWriteError):
            save(saved, {"n": 3}, key)
        assert load(saved, key)["n"] == 2
    finally:
        saved.chmod(0o700)


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
    assert load(saved, key)["n"] == 2, "reading needs no lock"
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


def test_failed_restore_is_kept(tmp_path: Path, key: bytes) -> None:
    """What could not be restored is not lost by the automatic snapshot that follows."""
    (tmp_path / "gone_soon.py").write_text("class Kept:\n    value = 5\n")
    code = """
        import sys
        sys.path.insert(0, sys.argv[2])
        import gone_soon
        from prime_ext import state
        namespace = {"kept": gone_soon.Kept(), "plain": 1}
        namespace["kept"].more = [1, 2]
        state.save(sys.argv[1], namespace, key=b"k" * 32, verify="off")
    """
    directory = tmp_path / "s"
    process = python(code, str(directory), str(tmp_path))
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()
    (tmp_path / "gone_soon.py").rename(tmp_path / "away.py")
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    namespace: dict[str, Any] = {}
    report = state.load(directory, namespace, key=key, mode="cold", restore_process_state=False)
    assert not report.complete
    assert report.names["kept"].status == "degraded"
    assert "gone_soon" in report.names["kept"].reason
    assert namespace["plain"] == 1
    for n in range(3):
        save(directory, {**namespace, "n": n}, key)
    (tmp_path / "away.py").rename(tmp_path / "gone_soon.py")
    found = load(directory, key, generation="kept")
    assert found["kept"].value == 5
    assert found["kept"].more == [1, 2]


def test_other_python_version(tmp_path: Path, key: bytes) -> None:
    """Bytecode does not cross versions; data does, and functions say why they cannot."""
    code = """
        import sys, types
        from prime_ext import state
        sys.implementation.cache_tag = "cpython-399"
        class Kind:
            def method(self): return 1
        namespace = {"data": {"a": [1, 2]}, "function": lambda x: x, "Kind": Kind, "it": Kind()}
        state.save(sys.argv[1], namespace, key=b"k" * 32, verify="off")
    """
    process = python(code, str(tmp_path / "s"))
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()
    namespace: dict[str, Any] = {}
    report = state.load(tmp_path / "s", namespace, key=key, mode="cold")
    assert namespace["data"] == {"a": [1, 2]}
    assert report.names["data"].status == "verified"
    for name in ("function", "Kind", "it"):
        assert report.names[name].status == "degraded", name
        assert "bytecode of cpython-399" in report.names[name].reason, name
    with pytest.raises(state.UnrestorableError):
        namespace["function"](1)
    assert type(namespace["it"]) is namespace["Kind"]


def test_budgets(tmp_path: Path, key: bytes) -> None:
    class Slow:
        def __reduce__(self) -> Any:
            time.sleep(0.2)
            return int, (1,)

    slow = [Slow() for _ in range(50)]
    namespace = {"slow": slow, "quick": 1, "slower": [Slow() for _ in range(50)]}
    started = time.monotonic()
    report = save(tmp_path, namespace, key, seconds_per_variable=0.5, seconds_total=3.0)
    assert time.monotonic() - started < 8
    assert report.names["slow"].status == "skipped"
    assert "longer than 0.5 s" in report.names["slow"].reason
    assert report.names["quick"].status != "skipped"
    assert namespace["slow"] is slow, "what exceeds a budget stays in the namespace"


def test_interrupt_leaves_everything(saved: Path, key: bytes) -> None:
    class Interrupts:
        def __reduce__(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(saved, {"n": 3, "it": Interrupts()}, key)
    assert load(saved, key)["n"] == 2
    save(saved, {"n": 4}, key, lock_timeout=1)
