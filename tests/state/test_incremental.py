"""What is written when little has changed, and what a save costs its caller."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import format as files

from .kernels import Kernel
from .snapshots import load, save

np = pytest.importorskip("numpy")


def segments(directory: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in (directory / files.DATA_NAME).glob("seg-*.bin")}


def test_unchanged_namespace_writes_nothing(tmp_path: Path, key: bytes) -> None:
    namespace = {"array": np.arange(1_000_000), "items": [{"n": n} for n in range(1000)]}
    first = save(tmp_path, namespace, key)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "lock"}
    again = save(tmp_path, namespace, key)
    assert again.unchanged
    assert again.bytes == 0
    assert again.generation == first.generation
    assert again.fingerprint == first.fingerprint
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "lock"}
    assert {k: v for k, v in after.items() if k.is_file()} == {
        k: v for k, v in before.items() if k.is_file()
    }


def test_one_change_writes_its_component_only(tmp_path: Path, key: bytes) -> None:
    namespace: dict[str, Any] = {f"array_{n}": np.full(100_000, float(n)) for n in range(10)}
    namespace["words"] = [f"word {n}" for n in range(20_000)]
    full = save(tmp_path, namespace, key)
    assert full.bytes > 8_000_000
    namespace["array_3"][7] = -1.0
    one = save(tmp_path, namespace, key)
    assert 800_000 < one.bytes < 900_000
    namespace["small"] = 1
    assert save(tmp_path, namespace, key).bytes < 40_000
    found = load(tmp_path, key)
    assert found["array_3"][7] == -1.0
    assert found["words"][19_999] == "word 19999"
    assert load(tmp_path, key, generation="previous")["array_3"][7] == -1.0


def test_equal_buffers_are_stored_once_but_stay_apart(tmp_path: Path, key: bytes) -> None:
    first, second = np.zeros(500_000), np.zeros(500_000)
    report = save(tmp_path, {"first": first, "second": second, "view": first[5:]}, key)
    assert report.bytes < 4_100_000
    found = load(tmp_path, key)
    found["first"][5] = 1
    assert found["view"][0] == 1
    assert found["second"][5] == 0
    assert not np.shares_memory(found["first"], found["second"])


def test_sharing_that_begins_and_ends(tmp_path: Path, key: bytes) -> None:
    shared = [1, 2]
    namespace: dict[str, Any] = {"a": {"s": shared}, "b": {"s": shared}}
    save(tmp_path, namespace, key)
    found = load(tmp_path, key)
    assert found["a"]["s"] is found["b"]["s"]
    namespace["b"]["s"] = [1, 2]
    save(tmp_path, namespace, key)
    found = load(tmp_path, key)
    assert found["a"]["s"] is not found["b"]["s"]
    namespace["c"] = namespace["b"]
    save(tmp_path, namespace, key)
    assert load(tmp_path, key)["c"] is not None


def test_segments_are_collected(tmp_path: Path, key: bytes) -> None:
    for n in range(8):
        save(tmp_path, {"array": np.full(200_000, n), "n": n}, key)
    assert len(segments(tmp_path)) == 2, "one for each generation that is kept"
    assert load(tmp_path, key)["array"][0] == 7
    # One small array of a large segment stays in use: it moves, and the large segment goes.
    namespace = {"large": np.random.rand(500_000), "small": np.random.rand(20_000)}
    save(tmp_path, namespace, key)
    del namespace["large"]
    for n in range(4):
        save(tmp_path, {**namespace, "n": n}, key)
    assert sum(segments(tmp_path).values()) < 1_000_000
    assert (load(tmp_path, key)["small"] == namespace["small"]).all()


def test_restored_arrays_survive_the_collection_of_their_segment(
    tmp_path: Path, key: bytes
) -> None:
    save(tmp_path, {"array": np.arange(300_000)}, key)
    found = load(tmp_path, key)
    for n in range(4):
        save(tmp_path, {"array": np.full(300_000, n)}, key)
    assert found["array"].sum() == np.arange(300_000).sum()
    found["array"][0] = 5
    assert save(tmp_path, found, key).names["array"].status == "unverified"
    assert load(tmp_path, key)["array"][0] == 5


def test_writes_to_restored_arrays_stay_in_the_process(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"array": np.zeros(300_000)}, key)
    load(tmp_path, key)["array"][:] = 1
    assert load(tmp_path, key, verify="wait")["array"].sum() == 0


def test_save_after_a_cold_restore_rewrites_no_buffers(tmp_path: Path, key: bytes) -> None:
    base = np.arange(500_000.0)
    save(tmp_path, {"base": base, "view": base[::2], "tail": base[-5:]}, key)
    found = load(tmp_path, key)
    assert save(tmp_path, found, key).bytes < 20_000


def test_point_in_time(tmp_path: Path, key: bytes) -> None:
    """What happens after the call is not in the snapshot, though it is still being written."""
    namespace: dict[str, Any] = {"array": np.zeros(8_000_000), "items": [0]}
    saving = state.begin(tmp_path, namespace, key=key)
    namespace["array"][:] = 1
    namespace["items"][0] = 1
    namespace["new"] = 1
    report = saving.wait(60)
    assert report.writer == "fork"
    found = load(tmp_path, key)
    assert found["array"].sum() == 0
    assert found["items"] == [0]
    assert "new" not in found
    assert not state.is_current(tmp_path, namespace, key=key)


def test_is_current_and_fingerprint(tmp_path: Path, key: bytes) -> None:
    namespace: dict[str, Any] = {"a": [1, 2], "array": np.arange(100_000)}
    assert not state.is_current(tmp_path, namespace, key=key)
    report = save(tmp_path, namespace, key)
    assert state.is_current(tmp_path, namespace, key=key)
    assert state.fingerprint(namespace) == report.fingerprint
    namespace["a"].append(3)
    assert not state.is_current(tmp_path, namespace, key=key)
    namespace["a"].pop()
    assert state.is_current(tmp_path, namespace, key=key)
    namespace["array"][99_999] = 0
    assert not state.is_current(tmp_path, namespace, key=key)
    assert not state.is_current(tmp_path, namespace, key=b"x" * 32)


def test_fingerprint_does_not_depend_on_the_order_of_names() -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    source = """
import enum, typing
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, x): self.x = x
class Color(enum.Enum):
    RED = 1
class Plugin:
    known = []
    def __init_subclass__(cls): Plugin.known.append(cls)
class PluginA(Plugin): pass
box, boxes, red = Box(3), [Box], {"red": Color.RED}
plugin = PluginA()
"""
    exec(source, scope)
    names = ["T", "Box", "Color", "Plugin", "PluginA", "box", "boxes", "red", "plugin"]
    expected = state.fingerprint({name: scope[name] for name in names})
    assert state.fingerprint({name: scope[name] for name in reversed(names)}) == expected
    assert state.fingerprint({name: scope[name] for name in sorted(names)}) == expected
    assert state.fingerprint({name: scope[name] for name in names[1:]}) != expected


def test_size_limit(tmp_path: Path, key: bytes) -> None:
    namespace = {"large": np.random.rand(300_000), "middle": np.random.rand(50_000), "n": 1}
    report = save(tmp_path, namespace, key, max_bytes=1_000_000)
    assert report.by_status() == {"skipped": ["large"], "unverified": ["middle", "n"]}
    assert "limit of 1,000,000 bytes" in report.names["large"].reason
    assert state.is_current(tmp_path, namespace, key=key)
    namespace["n"] = 2
    assert not state.is_current(tmp_path, namespace, key=key)
    assert set(load(tmp_path, key)) == {"middle", "n"}


def test_finalizers_do_not_run_in_the_writer(tmp_path: Path, key: bytes) -> None:
    mark = tmp_path / "mark"
    parent = os.getpid()

    class Finalized:
        def __del__(self) -> None:
            if os.getpid() != parent:
                mark.touch()

    for _ in range(200):
        ring: list[Any] = [Finalized()]
        ring.append(ring)
    del ring
    save(tmp_path / "s", {"array": np.random.rand(200_000), "items": list(range(50_000))}, key)
    assert not mark.exists()


def test_saving_keeps_nothing_alive(tmp_path: Path, key: bytes) -> None:
    class Thing:
        pass

    namespace: dict[str, Any] = {"thing": Thing(), "ring": [Thing()]}
    namespace["ring"].append(namespace["ring"])
    reference = weakref.ref(namespace["thing"])
    save(tmp_path, namespace, key)
    namespace.clear()
    gc.collect()
    assert reference() is None


def test_inventory_runs_no_code_of_the_user() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("asked for a repr")

        def __len__(self) -> int:
            raise AssertionError("asked for a length")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

    namespace = {"loud": Loud(), "array": np.zeros((3, 4)), "text": "x" * 1000, "items": [1, 2]}
    entries = {entry["name"]: entry for entry in state.inventory(namespace)}
    assert entries["loud"]["type"].endswith("Loud")
    assert entries["array"]["shape"] == [3, 4]
    assert entries["array"]["size"] == 96
    assert entries["items"] == {
        "name": "items",
        "type": "list",
        "shape": None,
        "length": 2,
        "size": entries["items"]["size"],
        "repr": "[1, 2]",
    }
    assert len(entries["text"]["repr"]) <= 120
    assert entries["text"]["length"] == 1000


def test_verification_is_remembered(tmp_path: Path, key: bytes) -> None:
    namespace: dict[str, Any] = {"a": [1], "b": [2]}
    assert save(tmp_path, namespace, key, verify="wait").by_status() == {"verified": ["a", "b"]}
    namespace["b"].append(3)
    statuses = save(tmp_path, namespace, key).by_status()
    assert statuses == {"verified": ["a"], "unverified": ["b"]}
    save(tmp_path, namespace, key, verify="background")
    deadline = time.monotonic() + 60
    while state.inspect(tmp_path, key=key).names["b"]["status"] != "verified":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_user_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    state.save(tmp_path / "s", {"a": 1}, verify="off")
    (path,) = (tmp_path / "data").rglob("state.key")
    assert path.stat().st_mode & 0o777 == 0o600
    found: dict[str, Any] = {}
    state.load(tmp_path / "s", found, mode="cold", restore_process_state=False)
    assert found == {"a": 1}
    path.chmod(0o644)
    with pytest.raises(state.SnapshotRefused, match="chmod 600"):
        state.load(tmp_path / "s", found)
    path.unlink()
    with pytest.raises(state.SnapshotRefused):
        state.load(tmp_path / "s", found)


def test_no_descriptor_is_left_open(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"a": np.zeros(100_000)}, key)
    before = open_descriptors()
    for n in range(5):
        save(tmp_path, {"a": np.full(100_000, n)}, key)
    assert open_descriptors() == before


def open_descriptors() -> int:
    table = Path("/proc/self/fd")
    return len(list(table.iterdir())) if table.is_dir() else 0


def test_view_that_alone_holds_its_array_is_saved_alike_each_time(
    tmp_path: Path, key: bytes
) -> None:
    shared: list[int] = []
    view = np.tile(np.arange(3.0), 2)[:1]
    namespace = {"one": [view, shared], "two": [shared]}
    save(tmp_path, namespace, key)
    assert save(tmp_path, namespace, key).unchanged


def test_class_without_a_name_that_shares_an_object_is_saved_again(
    tmp_path: Path, key: bytes
) -> None:
    def make() -> tuple[Any, list[int]]:
        registry: list[int] = []

        class Entry:
            entries = registry

        return Entry(), registry

    entry, registry = make()
    namespace = {"entry": entry, "registry": registry}
    save(tmp_path, namespace, key)
    assert save(tmp_path, namespace, key).unchanged
    registry.append(7)
    save(tmp_path, namespace, key)
    found = load(tmp_path, key)
    assert found["entry"].entries is found["registry"]
    assert found["registry"] == [7]


def test_a_changed_object_that_names_its_class_is_read_back(
    tmp_path: Path, kernel_at: Callable[..., Kernel]
) -> None:
    """Its ``__reduce__`` reads a global name, which has not changed and is not read back again."""
    kernel_at().run(
        f"""
        from prime_ext import state
        class Named:
            def __init__(self, n): self.n = n
            def __reduce__(self): return (Named, (self.n,))
        named = Named(1)
        for named.n in (1, 2):
            names = state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait").names
            assert names["named"].status == "verified", names["named"]
        """
    )
