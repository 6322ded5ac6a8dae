"""What a save costs the kernel: the pause has no hashing or writing in it, and nothing is copied.

Not how long things take (that is for ``bench/state.py``), but what happens where.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import digests, segments, writer

from .snapshots import load, python, save

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a thread writes there")


def test_returns_while_the_write_is_held_up(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller goes on, and changes what it has saved, before a single byte is written."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    real = writer.write

    def held_up(job: writer.Job, progress: segments.Progress) -> writer.Written:
        gate.read_bytes()  # until somebody has opened it for writing, and closed it
        return real(job, progress)

    monkeypatch.setattr(writer, "write", held_up)
    namespace: dict[str, Any] = {
        "array": np.zeros(10_000_000),
        "items": [{"n": 0}],
        "small": [np.zeros(1000)],
    }
    saving = state.begin(tmp_path / "s", namespace, key=key)
    try:
        assert not saving.done()
        assert not (tmp_path / "s" / "kernel-state.dill").exists()
        namespace["array"][:] = 1
        namespace["items"][0]["n"] = 1
        array, small = weakref.ref(namespace["array"]), weakref.ref(namespace["small"][0])
        namespace.clear()
        assert array() is None, "nothing here holds on to what is being written"
        assert small() is None
    finally:
        gate.write_bytes(b"")
    assert saving.wait(60).writer == "fork"
    found = load(tmp_path / "s", key)
    assert found["array"].max() == 0
    assert found["items"] == [{"n": 0}]
    assert found["small"][0].shape == (1000,)


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_no_hashing_and_no_writing_in_the_pause(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    namespace = {"array": np.arange(3_000_000), "items": [{"n": n} for n in range(20_000)]}
    if again:
        save(tmp_path, namespace, key)
        namespace["array"][5] = 0
    parent = os.getpid()
    met: list[str] = []

    def only_in_the_child(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            if os.getpid() == parent:
                met.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    for name in ("fast", "digest", "new"):
        only_in_the_child(digests, name)
    for name in ("fsync", "replace"):
        only_in_the_child(os, name)
    only_in_the_child(segments.SegmentWriter, "write")
    saving = state.begin(tmp_path, namespace, key=key)
    assert saving.wait(60).writer == "fork"
    assert met == []
    monkeypatch.undo()
    assert load(tmp_path, key)["array"][5] == (0 if again else 5)


ARRAY = "np.ones(SIZE >> 3)"
TEXT = (
    "pd.Series(pa.LargeStringArray.from_buffers(SIZE >> 6, "
    "pa.py_buffer(64 * np.arange((SIZE >> 6) + 1)), pa.py_buffer(np.full(SIZE, 97, 'u1'))), "
    "dtype='str')"
)
POLARS = (
    "pl.DataFrame({'x': pl.Series(pa.Array.from_buffers(pa.float64(), SIZE >> 3, "
    "[None, pa.py_buffer(np.ones(SIZE >> 3))]))})"
)


@pytest.mark.parametrize(
    ("libraries", "data"),
    [
        ([], ARRAY),
        (["pandas as pd", "pyarrow as pa"], TEXT),
        (["polars as pl", "pyarrow as pa"], POLARS),
    ],
    ids=["array", "text", "polars"],
)
def test_save_takes_no_memory_for_large_data(
    tmp_path: Path, libraries: list[str], data: str
) -> None:
    """Neither the kernel nor the writer has a copy of it, at any moment."""
    for library in libraries:
        pytest.importorskip(library.partition(" ")[0])
    imports = ", ".join(["numpy as np", *libraries])
    code = """
        import os, resource, sys
        import IMPORTS
        from prime_ext import state
        from prime_ext.state import writer

        def own_memory():
            with open("/proc/self/smaps_rollup") as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("Private"))

        real = writer.write
        def watched(job, progress):
            peak = own_memory()
            def look(slow):
                nonlocal peak
                peak = max(peak, own_memory())
                progress(slow)
            outcome = real(job, look)
            with open(sys.argv[1] + "/peak", "w") as file:
                file.write(str(peak))
            return outcome
        writer.write = watched

        def peak_of_kernel():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def data(SIZE):
            return DATA

        namespace = {"warm": data(1 << 16)}
        state.save(sys.argv[1] + "/s", namespace, key=b"k" * 32, verify="off")
        namespace["large"] = data(512 << 20)
        before = peak_of_kernel()
        report = state.save(sys.argv[1] + "/s", namespace, key=b"k" * 32, verify="off")
        assert report.writer == "fork", report.writer
        assert report.bytes >= 512 << 20
        print(peak_of_kernel() - before, open(sys.argv[1] + "/peak").read())
    """
    code = code.replace("IMPORTS", imports).replace("DATA", data)
    kernel, child = _numbers(code, tmp_path)
    assert kernel + child < 64 * 1024


def test_restore_takes_no_memory_for_a_large_array(tmp_path: Path, key: bytes) -> None:
    """It is mapped: pages come as they are used."""
    save(tmp_path, {"array": np.ones(16 << 20)}, key)
    code = """
        import resource, sys
        import numpy as np
        from prime_ext import state
        namespace = {}
        options = {"key": b"k" * 32, "mode": "cold", "restore_process_state": False}
        state.load(sys.argv[1], namespace, names=[], verify="off", **options)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        state.load(sys.argv[1], namespace, verify="off", **options)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        assert namespace["array"][-1] == 1
    """
    (grown,) = _numbers(code, tmp_path)
    assert grown < 16 * 1024


def _numbers(code: str, directory: Path) -> list[int]:
    """Run a program in a process of its own; the KiB that it prints."""
    process = python(code, str(directory))
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return [int(number) for number in printed.split()]
