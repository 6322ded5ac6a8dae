"""What was damaged, swapped, or made by others is refused; what is good is still there."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import format as files
from prime_ext.state import writer

from .snapshots import Marks, load, python, save, segments_of

np = pytest.importorskip("numpy")

OTHER_KEY = b"o" * 32


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


def test_a_head_that_is_gone(saved: Path, key: bytes, tmp_path: Path) -> None:
    (saved / files.HEAD_NAME).unlink()
    with pytest.raises(state.SnapshotMissing, match="generation='previous'"):
        load(saved, key)
    assert load(saved, key, generation="previous")["n"] == 1
    with pytest.raises(state.SnapshotMissing) as caught:
        load(tmp_path / "nothing", key)
    assert "generation" not in str(caught.value), "there is none to load instead"


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
    evil = pickle.dumps(Marks(str(mark)))
    content = segment.read_bytes()
    segment.unlink()
    segment.write_bytes(evil + content[len(evil) :])
    report = state.load(tmp_path, {}, key=key, mode="cold", verify="off")
    assert "altered" in report.names["big"].reason
    assert not mark.exists()


def test_foreign_snapshot_is_refused_before_unpickling(tmp_path: Path, key: bytes) -> None:
    mark = tmp_path / "mark"
    save(tmp_path / "foreign", {"payload": Marks(str(mark))}, OTHER_KEY)
    with pytest.raises(state.SnapshotRefused, match="explicit trust"):
        load(tmp_path / "foreign", key)
    assert not mark.exists()
    assert state.inspect(tmp_path / "foreign", key=key).signature == "invalid"
    load(tmp_path / "foreign", OTHER_KEY)
    assert mark.exists(), "the payload is able to leave a mark, so the refusal meant something"


def test_plain_pickle_is_refused(saved: Path, key: bytes, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (saved / files.HEAD_NAME).write_bytes(pickle.dumps(Marks(str(mark))) + b" " * 500)
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


@pytest.mark.parametrize("content", ["{]", "", None, '{"names": {"evil": {}}}'])
def test_json_is_only_a_copy(saved: Path, key: bytes, content: str | None) -> None:
    readable = saved / files.JSON_NAME
    parsed = json.loads(readable.read_text())
    assert {"version", "created", "seq", "kernelspec", "python", "names"} <= set(parsed)
    assert set(parsed["names"]) == {"n", "array", "text"}
    if content is None:
        readable.unlink()
    else:
        readable.write_text(content)
    assert load(saved, key)["n"] == 2
    assert set(state.inspect(saved, key=key).names) == {"n", "array", "text"}
    save(saved, {"n": 3}, key)
    assert set(json.loads(readable.read_text())["names"]) == {"n"}


def test_swapped_head(saved: Path, key: bytes, tmp_path: Path) -> None:
    """A head of another snapshot, signed with the same key: no array of this one passes for its."""
    other = tmp_path / "other"
    save(other, {"n": 5, "array": np.full(100_000, 5)}, key)
    save(other, {"n": 6, "array": np.full(100_000, 6)}, key)
    shutil.copy(other / files.HEAD_NAME, saved / files.HEAD_NAME)
    namespace: dict[str, Any] = {}
    report = state.load(saved, namespace, key=key, mode="cold", verify="wait")
    assert "array" not in namespace
    assert "altered" in report.names["array"].reason
    assert not report.complete
    assert load(saved, key, generation="previous")["n"] == 1


def test_files_are_private(saved: Path) -> None:
    for path in [saved, *saved.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


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


def test_a_snapshot_of_another_key_is_set_aside_whole(tmp_path: Path, key: bytes) -> None:
    other = OTHER_KEY
    first = {"precious": bytearray(b"ab" * 100_000), "small": 1}
    save(tmp_path, first, other)
    report = save(tmp_path, {"x": 1}, key)
    assert "generation='kept'" in report.notes[0]
    for step in range(3):
        assert save(tmp_path, {"x": bytearray([step]) * 200_000}, key).notes == []
    assert load(tmp_path, other, generation="kept") == first
    assert len(load(tmp_path, key)["x"]) == 200_000


def test_damaged_heads_do_not_keep_segments_for_ever(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"x": bytearray(b"a") * 200_000}, key)
    head = tmp_path / files.HEAD_NAME
    content = bytearray(head.read_bytes())
    content[len(content) // 2] ^= 1
    head.write_bytes(content)
    for step in range(4):
        save(tmp_path, {"x": bytearray([step]) * 200_000}, key)
    # The newest, the one before it, and what was set aside.
    assert len(segments_of(tmp_path)) <= 3


def test_what_was_set_aside_of_our_own_is_not_replaced(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"x": 1}, key)
    writer.keep_head(files.head_path(tmp_path, "current"), files.head_path(tmp_path, "kept"))
    save(tmp_path, {"x": 2}, OTHER_KEY)
    save(tmp_path, {"x": 3}, key)
    assert load(tmp_path, key, generation="kept") == {"x": 1}


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
    with pytest.raises(state.UnrestorableError):
        namespace["it"].method()
