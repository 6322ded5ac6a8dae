"""Segments whose content is not what was saved: found before use, or told when it is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_ext.state import altered

from .kernels import ROOT
from .snapshots import segments_of

np = pytest.importorskip("numpy")

BIG = altered.CHECKED_WHOLE // 8 + 1000
"""Numbers of an array that is larger than what is compared before use."""

BEGIN = """
import json, sys
import numpy as np
from prime_ext import state
KEY = b"k" * 32
directory, big = sys.argv[1], int(sys.argv[2])
def load(**options):
    namespace = {}
    return namespace, state.load(directory, namespace, key=KEY, **options)
def save(namespace):
    return state.save(directory, namespace, key=KEY, verify="wait")
def tell(report, *more):
    names = {n: [s.status, s.reason] for n, s in report.names.items()}
    print(json.dumps([names, report.notes, report.complete, *more]))
"""


def run(directory: Path, code: str) -> tuple[Any, str]:
    """What a fresh process printed as JSON, and its stderr."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(directory), str(BIG)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None, done.stderr


def flip(segment: Path) -> None:
    """Alter one bit in place of the file, as a failing disk does."""
    content = segment.read_bytes()
    segment.unlink()
    middle = len(content) // 2
    segment.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two generations of an array, and of a number that lies in the head."""
    code = """
for g in (1, 2):
    save({"a": np.arange(300_000) + g, "b": g, "c": np.arange(20_000) + g})
"""
    run(tmp_path, code)
    return tmp_path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A snapshot whose array is compared in the background only, and altered."""
    run(tmp_path, "save({'big': np.arange(big), 'small': np.arange(20_000)})")
    flip(segments_of(tmp_path)[0])
    return tmp_path


def test_swapped_segments_are_found_before_use(two: Path) -> None:
    first, second = segments_of(two)
    third = first.with_name("aside")
    first.rename(third)
    second.rename(first)
    third.rename(second)
    (names, notes, complete, there), _ = run(
        two, "namespace, report = load(); tell(report, sorted(namespace))"
    )
    assert there == ["b"]
    assert not complete
    assert names["b"] == ["verified", ""]
    for name in ("a", "c"):
        assert names[name][0] == "skipped"
        assert "altered" in names[name][1]
    told = [note for note in notes if "altered" in note]
    assert len(told) == 1, "once for the segment, not for each name"
    assert "generation='previous'" in told[0]


def test_what_is_made_anew_is_not_taken_from_an_altered_segment(two: Path) -> None:
    flip(segments_of(two)[-1])
    run(two, "load(); save({'a': np.arange(300_000) + 2, 'b': 2})")
    (names, _, complete, right), _ = run(
        two, "n, report = load(); tell(report, bool((n['a'] == np.arange(300_000) + 2).all()))"
    )
    assert right
    assert complete
    assert names["a"] == ["verified", ""]
    (_, _, complete, right), _ = run(
        two,
        "n, report = load(generation='previous');"
        "tell(report, bool((n['a'] == np.arange(300_000) + 1).all()))",
    )
    assert complete, "the generation before the damaged one stays the previous one"
    assert right


def test_what_a_process_that_loaded_nothing_takes_over_is_compared_once(two: Path) -> None:
    flip(segments_of(two)[-1])
    code = """
namespace = {"a": np.arange(300_000) + 2, "b": 2, "c": np.arange(20_000) + 2}
tell(save(namespace), [save(namespace).bytes for _ in range(3)][-1])
"""
    (names, _, _, written_again), _ = run(two, code)
    assert names["a"] == ["verified", ""]
    assert written_again == 0
    (names, _, complete, right), _ = run(
        two, "n, report = load(); tell(report, bool((n['a'] == np.arange(300_000) + 2).all()))"
    )
    assert complete
    assert right
    (_, _, complete), _ = run(two, "_, report = load(generation='previous'); tell(report)")
    assert complete, "the damaged snapshot did not become the previous one"


def test_a_mismatch_in_the_background_changes_the_report(large: Path) -> None:
    (names, notes, complete), log = run(
        large, "_, report = load(); assert report.wait_for_check(60); tell(report)"
    )
    assert names["big"] == ["degraded", altered.ALTERED]
    assert names["small"] == ["verified", ""]
    assert not complete
    assert any("altered" in note for note in notes)
    assert log.count("damaged (big)") == 1


def test_a_later_snapshot_does_not_call_it_good(large: Path) -> None:
    """Nor does one after that, of a process that only loaded this one."""
    (names, _, _, unchanged), _ = run(
        large, "n, _ = load(); report = save(n); tell(report, report.unchanged)"
    )
    assert names["big"] == ["degraded", altered.ALTERED]
    assert not unchanged
    assert names["small"][0] == "verified"
    (names, _, _), _ = run(large, "n, _ = load(); tell(save(n))")
    assert names["big"] == ["degraded", altered.ALTERED]
    (names, _, _), _ = run(large, "n, _ = load(); n['big'] = np.arange(big); tell(save(n))")
    assert names["big"] == ["verified", ""]


HELD = """
import threading
from prime_ext.state import digests
matches, go_on = digests.matches, threading.Event()
def held(*args):
    if threading.current_thread().name == "prime-state-check":
        go_on.wait()
    return matches(*args)
digests.matches = held
n, restored = load()
def begin(**options):
    saving = state.begin(directory, n, key=KEY, **options)
    assert not restored.wait_for_check(0), "the kernel goes on before the comparison is over"
    return saving
"""
"""After a restore of which the comparison goes on until it is let."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread writes")
def test_a_save_does_not_wait_for_the_comparison_and_its_writer_knows_what_it_finds(
    large: Path,
) -> None:
    code = "report = begin().wait(60); tell(report, report.writer, report.names['big'].recipe.type)"
    (names, _, _, writer, remembered), _ = run(large, HELD + code)
    assert writer == "fork"
    assert names["big"] == ["degraded", altered.ALTERED]
    assert remembered == "numpy.ndarray"
    assert names["small"][0] == "verified"
    (names, _, _), _ = run(large, "tell(load()[1])")
    assert names["big"] == ["degraded", altered.ALTERED]


def test_a_writing_thread_waits_for_the_comparison(large: Path) -> None:
    code = HELD + "saving = begin(fork=False); go_on.set(); tell(saving.wait(60))"
    (names, _, _), _ = run(large, code)
    assert names["big"] == ["degraded", altered.ALTERED]
    assert names["small"][0] == "verified"


@pytest.mark.parametrize("fork", [True, False])
def test_what_is_made_anew_is_not_taken_from_a_segment_that_is_compared_still(
    large: Path, fork: bool
) -> None:
    code = f"n['big'] = np.arange(big); s = begin(fork={fork}); go_on.set(); tell(s.wait(60))"
    (names, _, _), _ = run(large, HELD + code)
    assert names["big"][0] != "degraded"
    code = "n, report = load(verify='wait'); tell(report, bool((n['big'] == np.arange(big)).all()))"
    (_, _, complete, right), _ = run(large, code)
    assert complete
    assert right


def test_it_is_told_in_ipython(large: Path) -> None:
    pytest.importorskip("IPython")
    script = large / "script.ipy"
    script.write_text(
        "%load_ext prime_ext\n"
        "import threading, time\n"
        f"%prime_load {large / 'own'}\n"
        "[t.join(60) for t in threading.enumerate() if t.name == 'prime-state-check']\n"
        "print(len(big))\n"
    )
    own = large / "own"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(large / "ipython")}
    environment["XDG_DATA_HOME"] = str(large / "data")
    save = f"from prime_ext import state; import numpy as np; big = np.arange({BIG}); "
    save += f"state.save({str(own)!r}, dict(big=big), verify='off')"
    subprocess.run([sys.executable, "-c", save], env=environment, check=True, timeout=120)
    flip(segments_of(own)[0])
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=nocolor", str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert str(BIG) in done.stdout, done.stdout + done.stderr
    assert "damaged (big)" in done.stderr


def test_a_damaged_segment_of_which_classes_are_made_costs_those_only(tmp_path: Path) -> None:
    code = """
import __main__
methods = "\\n".join(f"    def m{i}(self): return {i}" for i in range(2000))
namespace = vars(__main__)
exec("class Large:\\n" + methods, namespace)
save({"Large": namespace["Large"], "plain": [1, 2]})
"""
    run(tmp_path, code)
    for segment in segments_of(tmp_path):
        flip(segment)
    (names, _, complete, plain), _ = run(tmp_path, "n, report = load(); tell(report, n['plain'])")
    assert plain == [1, 2]
    assert names["plain"] == ["verified", ""]
    assert names["Large"][0] != "verified"
    assert not complete
