"""Many small arrays: stored together, restored each on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state.packing import MIN_BUFFER

from .snapshots import load, python, save, segments_of

np = pytest.importorskip("numpy")


def arrays(count: int = 500) -> list[Any]:
    """Of all sizes around the limits, between tiny ones and large ones."""
    kinds = ["f8", "i2", "c16", "M8[s]", "U7", [("a", "i4"), ("b", "f8")]]
    chance = np.random.default_rng(1)
    sizes = [0, 1, 60, 64, 65, 511, 512, 513, 8191, 8192, 9000, 20_000]
    made = []
    for n in range(count):
        plain = chance.integers(0, 100, sizes[n % len(sizes)]).astype("i8")
        made.append(plain.astype(kinds[n % len(kinds)]))
    made[3] = np.asfortranarray(np.arange(600.0).reshape(20, 30))
    made[4].flags.writeable = False
    return made


@pytest.mark.parametrize("fork", [True, False], ids=["fork", "thread"])
def test_come_back_as_they_were(tmp_path: Path, key: bytes, fork: bool) -> None:
    original = arrays()
    namespace = {"arrays": original, "by_name": dict(enumerate(original[:50]))}
    state.begin(tmp_path, namespace, key=key, fork=fork).wait(60)
    found = load(tmp_path, key, verify="wait")
    for before, after in zip(original, found["arrays"], strict=True):
        assert before.dtype == after.dtype
        assert before.shape == after.shape
        assert before.tobytes("A") == after.tobytes("A")
        assert before.flags.f_contiguous == after.flags.f_contiguous
        assert before.flags.writeable == after.flags.writeable
        assert after.flags.owndata or after.nbytes >= MIN_BUFFER, "can be resized, as it could"
    assert found["by_name"][7] is found["arrays"][7]
    assert save(tmp_path, namespace, key).unchanged
    assert state.save(tmp_path, namespace, key=key, verify="wait").by_status() == {
        "verified": ["arrays", "by_name"]
    }


def test_one_change_is_seen_and_written(tmp_path: Path, key: bytes) -> None:
    namespace: dict[str, Any] = {
        "some": [np.full(500, n) for n in range(2000)],
        "others": [np.full(500, float(n)) for n in range(2000)],
    }
    save(tmp_path, namespace, key)
    namespace["some"][1234][7] = -1
    assert not state.is_current(tmp_path, namespace, key=key)
    written = save(tmp_path, namespace, key).bytes
    assert 8_000_000 < written < 8_500_000, "the one list, not the other"
    assert state.is_current(tmp_path, namespace, key=key)
    found = load(tmp_path, key)
    assert found["some"][1234][7] == -1
    assert load(tmp_path, key, generation="previous")["some"][1234][7] == 1234


def test_an_altered_one_is_refused(tmp_path: Path, key: bytes) -> None:
    save(tmp_path, {"arrays": [np.full(500, n) for n in range(200)], "n": 1}, key)
    (segment,) = segments_of(tmp_path)
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    namespace: dict[str, Any] = {}
    report = state.load(tmp_path, namespace, key=key, mode="cold", verify="wait")
    assert "altered" in report.names["arrays"].reason
    assert set(namespace) == {"n"}
    report = state.load(tmp_path, {}, key=key, mode="cold", verify="background")
    assert report.wait_for_check(60)
    assert not report.complete


def test_what_was_pickled_may_end_in_a_cycle() -> None:
    """As an exception leaves it. A memoryview that is lent out would crash the collector there."""
    code = """
        import gc
        import numpy as np
        from prime_ext.state import component, pickling, reducers, restorers
        reducers.load()
        restorers.publish()
        namespace = {"small": np.arange(1000.0), "large": np.zeros(100_000)}
        context = pickling.SaveContext(namespace)
        roots = [("name", name) for name in namespace]
        gc.disable()
        ring = [component.dump(context, roots, pickling.ComponentPickler)]
        ring.append(ring)
        del ring, context, namespace
        assert gc.collect()
    """
    with python(code) as process:
        assert process.wait(60) == 0
