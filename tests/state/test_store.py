"""Snapshots that are kept elsewhere: at a URL, or in a directory they are brought to in pieces."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from prime_ext import state
from prime_ext.state import (
    SnapshotCorrupt,
    SnapshotMissing,
    SnapshotRefused,
    replica,
    scratch,
    store,
)
from prime_ext.state.format import read_private
from prime_ext.state.store import StoreUnavailable

KEY = b"k" * 32
URL = "memory://snapshots/session-1"
LARGE = 300_000


@pytest.fixture(autouse=True)
def empty_memory() -> Iterator[None]:
    yield
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    target = tmp_path / "there"
    (target / "kernel-state.d").mkdir(parents=True)
    return target


def save(directory: Path, **names: Any) -> None:
    state.save(directory, names, key=KEY, verify="off")


def load(directory: Path, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    options = {"mode": "cold", "restore_process_state": False, "verify": "wait", **options}
    report = state.load(directory, found, key=KEY, **options)
    assert report.complete
    return found


def stored() -> list[str]:
    return sorted(path.rpartition("/")[2] for path in fsspec.filesystem("memory").find(URL))


def bring(source: Path, target: Path, piece: int = 100_000) -> None:
    """As a transfer does."""
    head = read_private(source / "kernel-state.dill")
    lacking = replica.missing(target, state.inspect(source, key=KEY))
    for name in lacking:
        offset, size = 0, 1
        while offset < size:
            content, size = replica.get(source, name, offset, piece)
            replica.put(target, name, offset, content)
            offset += len(content)
    replica.commit(target, KEY, head, lacking)


# -- at a URL ---------------------------------------------------------------------------------


def test_a_url_holds_what_a_directory_holds(here: Path, tmp_path: Path) -> None:
    large = os.urandom(LARGE)
    save(here, large=large, small=1)
    assert store.push(here, URL, KEY, []) > LARGE
    assert stored() == ["kernel-state.dill", "kernel-state.json", "seg-1.bin"]
    copy = tmp_path / "copy"
    fsspec.filesystem("memory").get(URL, str(copy), recursive=True)
    assert load(copy) == {"large": large, "small": 1}


def test_a_segment_goes_there_once(here: Path) -> None:
    large = os.urandom(LARGE)
    save(here, large=large)
    store.push(here, URL, KEY, [])
    save(here, large=large, small=1)
    assert store.push(here, URL, KEY, []) < LARGE
    assert "previous.dill" in stored()


def test_what_is_not_needed_is_removed_and_what_others_need_stays(here: Path) -> None:
    for _ in range(3):  # small parts of the first segment are still needed by the second snapshot
        save(here, large=os.urandom(LARGE))
        store.push(here, URL, KEY, ["seg-1.bin"])
    assert {"seg-1.bin", "seg-3.bin"} <= set(stored())
    store.push(here, URL, KEY, [])
    assert "seg-1.bin" not in stored()


def test_segments_come_back(here: Path, there: Path) -> None:
    large = os.urandom(LARGE)
    save(here, large=large)
    store.push(here, URL, KEY, [])
    (there / "kernel-state.dill").write_bytes((here / "kernel-state.dill").read_bytes())
    lacking = replica.missing(there, state.inspect(there, key=KEY))
    assert lacking == ["seg-1.bin"]
    store.pull(there, URL, lacking)
    assert load(there) == {"large": large}


def test_an_upload_that_broke_off_is_done_again(here: Path, tmp_path: Path) -> None:
    large = os.urandom(LARGE)
    save(here, large=large)
    fsspec.filesystem("memory").pipe_file(f"{URL}/kernel-state.d/seg-1.bin", large[:1000])
    store.push(here, URL, KEY, [])
    copy = tmp_path / "copy"
    fsspec.filesystem("memory").get(URL, str(copy), recursive=True)
    assert load(copy) == {"large": large}


def test_the_key_is_not_stored(here: Path) -> None:
    save(here, large=os.urandom(LARGE))
    store.push(here, URL, KEY, [])
    memory = fsspec.filesystem("memory")
    assert not any(KEY in memory.cat_file(path) for path in memory.find(URL))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nosuch://bucket/x", "nosuch"),
        ("s3://name:password@bucket/x", "s3fs"),
        ("local:///proc/nowhere/x", "nowhere"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(here: Path, url: str, reason: str) -> None:
    save(here, small=1)
    with pytest.raises(StoreUnavailable, match=reason) as caught:
        store.push(here, url, KEY, [])
    assert "password" not in str(caught.value)


def test_a_file_url_is_a_directory() -> None:
    assert store.local_path("file:///a/b%20c") == Path("/a/b c")
    assert store.local_path(URL) is None
    with pytest.raises(StoreUnavailable, match="absolute"):
        store.local_path("file://relative/path")


# -- in pieces --------------------------------------------------------------------------------


def test_a_snapshot_arrives_in_pieces(here: Path, there: Path) -> None:
    large = os.urandom(LARGE)
    save(here, large=large)
    bring(here, there)
    assert load(there) == {"large": large}
    save(here, large=large, small=1)
    bring(here, there)
    assert load(there) == {"large": large, "small": 1}
    assert load(there, generation="previous") == {"large": large}
    assert not list((there / "kernel-state.d").glob(".*"))


@pytest.mark.parametrize("call", ["replace", "fsync", "link", "unlink"])
@pytest.mark.parametrize("step", range(5))
def test_a_disk_that_fails_at_any_step(
    call: str, step: int, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there afterwards is the snapshot of before or the new one, whole."""
    first, second = os.urandom(LARGE), os.urandom(LARGE)
    save(here, large=first)
    bring(here, there)
    save(here, large=second)
    original = getattr(os, call)
    calls: list[object] = []

    def fail(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) > step:
            raise OSError(28, "No space left on device")
        return original(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with contextlib.suppress(OSError):
            bring(here, there)
    assert load(there) in ({"large": first}, {"large": second})
    bring(here, there)
    assert load(there) == {"large": second}


def test_what_arrives_altered_is_refused(here: Path, there: Path) -> None:
    save(here, large=os.urandom(LARGE))
    bring(here, there)
    first = load(there)
    save(here, large=os.urandom(LARGE))
    segment = here / "kernel-state.d" / "seg-2.bin"
    content = bytearray(segment.read_bytes())
    content[LARGE // 2] ^= 1
    segment.write_bytes(content)
    with pytest.raises(SnapshotCorrupt, match=r"seg-2\.bin did not arrive"):
        bring(here, there)
    assert load(there) == first


def test_what_arrives_in_part_is_refused(here: Path, there: Path) -> None:
    save(here, large=os.urandom(LARGE))
    head = read_private(here / "kernel-state.dill")
    replica.put(there, "seg-1.bin", 0, (here / "kernel-state.d/seg-1.bin").read_bytes()[:-1])
    with pytest.raises(SnapshotCorrupt):
        replica.commit(there, KEY, head, ["seg-1.bin"])
    with pytest.raises(SnapshotMissing):
        load(there)


def test_a_foreign_head_is_refused(here: Path, there: Path) -> None:
    state.save(here, {"small": 1}, key=b"x" * 32, verify="off")
    with pytest.raises(SnapshotRefused):
        replica.commit(there, KEY, read_private(here / "kernel-state.dill"), [])
    assert not (there / "kernel-state.dill").exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "seg-1.bin/x", "lock", "seg-.bin", ""])
def test_only_files_of_a_snapshot_have_a_path(there: Path, name: str) -> None:
    with pytest.raises(SnapshotCorrupt):
        replica.path_of(there, name)


def test_no_two_segments_have_one_name(here: Path, there: Path) -> None:
    """Two processes that save for one folder, each in a directory of its own."""
    save(here, large=os.urandom(LARGE))
    bring(here, there)
    second = here.with_name("second")
    replica.reserve(second, replica.last_segment(there, KEY))
    large = os.urandom(LARGE)
    save(second, large=large)
    bring(second, there)
    assert load(there) == {"large": large}
    assert load(there, generation="previous") != {"large": large}


# -- the directory of a process ---------------------------------------------------------------

MAKE = """
import os, sys
sys.path.insert(0, {root!r})
from prime_ext.state import scratch
print(scratch.directory("one"), flush=True)
{then}
"""


def run(then: str, temporary: Path) -> Path:
    code = MAKE.format(root=str(Path(__file__).parents[2]), then=then)
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    return Path(done.stdout.strip())


def test_it_goes_with_its_process(tmp_path: Path) -> None:
    assert not run("", tmp_path).exists()
    assert not run("os.fork() or sys.exit()", tmp_path).exists()


def test_a_child_does_not_take_it_away(tmp_path: Path) -> None:
    check = """
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
assert os.path.isdir(scratch.directory("one"))
os.kill(os.getpid(), 9)
"""
    assert run(check, tmp_path).exists()


def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = run("os.kill(os.getpid(), 9)", tmp_path)
    assert left.exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_made", {})
    mine = scratch.directory("one")
    assert mine.is_dir()
    assert not left.exists()
    # One that is in use stays.
    run("", tmp_path)
    assert mine.is_dir()
    assert scratch.directory("one") == mine
