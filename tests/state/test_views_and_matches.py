"""Memoryviews, matches of regular expressions, and aliases of types."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .kernels import ROOT, Case, CasesInKernels
from .test_carried import pythons

CASES = [
    Case(
        "matches",
        "text pattern searched every whole_of later pairs in_bytes empty behind",
        """
        import re
        text = "one two three two"
        pattern = re.compile(r"(?P<word>t\\w+)(x)?")
        searched = re.search("two", text)
        every = list(pattern.finditer(text))
        whole_of = re.fullmatch("a|ab", "ab")
        later = pattern.match(text, 4, 9)
        pairs = list(re.finditer(r"\\d", "12" * 20_000))
        in_bytes = re.search(b"b", bytearray(b"abc"))
        empty = list(re.finditer("x*", "axb"))
        behind = re.compile("(?<=a)b").match("ab", 1)
        """,
        """
        assert (searched.span(), searched.group(), searched.string) == ((4, 7), "two", text)
        assert [m.span() for m in every] == [(4, 7), (8, 13), (14, 17)]
        assert every[1]["word"] == "three" and every[1][2] is None and every[1].re is pattern
        assert whole_of.group() == "ab" and behind.span() == (1, 2)
        assert (later.pos, later.endpos, later.group()) == (4, 9, "two")
        assert pairs[-1].start() == len(pairs) - 1 == 39_999
        assert in_bytes.group() == b"b"
        assert [m.span() for m in empty] == [(0, 0), (1, 2), (2, 2), (3, 3)]
        """,
    ),
    Case(
        "match_in_changed_text",
        "changed lost_match",
        """
        changed = bytearray(b"abc")
        lost_match = re.search(b"b", changed)
        changed[:] = b"xyz"
        """,
        """
        assert changed == b"xyz"
        assert _loaded.names["lost_match"].status == "degraded"
        assert "not found again" in _loaded.names["lost_match"].reason
        """,
    ),
    Case(
        "views",
        "numbers of_numbers every_other backwards raw part fixed table none in_fixed released",
        """
        import array
        numbers = array.array("d", range(10))
        of_numbers = memoryview(numbers)
        every_other, backwards = of_numbers[2:8:2], of_numbers[::-3]
        raw = bytearray(b"0123456789")
        part = memoryview(raw)[3:7]
        fixed = memoryview(raw)[1:].toreadonly()
        table = memoryview(raw).cast("B", (2, 5))
        none = memoryview(raw)[5:5]
        in_fixed = memoryview(b"abcdef")[1:3]
        released = memoryview(b"x"); released.release()
        """,
        """
        numbers[2], raw[3] = 99.0, 65
        assert of_numbers.obj is numbers and of_numbers[2] == 99.0
        assert every_other.tolist() == [99.0, 4.0, 6.0]
        assert backwards.tolist() == [9.0, 6.0, 3.0, 0.0]
        part[1] = 66
        assert raw == b"012AB56789" and part.tobytes() == b"AB56"
        assert fixed.readonly and fixed.tobytes() == b"12AB56789"
        assert table.shape == (2, 5) and table[0, 4] == 66 and none.nbytes == 0
        assert in_fixed.tobytes() == b"bc"
        try:
            released.tobytes()
        except ValueError:
            pass
        else:
            raise AssertionError("a released view was usable")
        """,
    ),
    Case(
        "views_of_arrays",
        "array_ view_of_array piece columns mapped_memory",
        """
        import mmap
        import numpy as np
        array_ = np.arange(20_000.0)
        view_of_array, piece = memoryview(array_), memoryview(array_)[5:9]
        columns = memoryview(np.arange(12).reshape(3, 4)[:, ::2])
        mapped_memory = memoryview(mmap.mmap(-1, 100))
        """,
        """
        array_[5] = 7
        assert view_of_array.obj is array_ and view_of_array[5] == 7
        assert piece.tolist() == [7, 6, 7, 8]
        assert columns.tolist() == [[0, 2], [4, 6], [8, 10]]
        assert "only views of" in _loaded.names["mapped_memory"].reason
        """,
    ),
]

SAVE_ALIASES = """
import sys
from prime_ext import state
type Json = dict[str, Json] | list[Json] | int
type Pair[T] = tuple[T, T]
type Plain = int | str
def function(x: Plain) -> Pair[int]: ...
held = [Json]
report = state.save(sys.argv[1], key=b"k" * 32, verify="wait", exclude=["state"])
statuses = {report.names[n].status for n in ("Json", "Pair", "Plain", "function", "held")}
assert statuses == {"verified"}, report.names
"""
LOAD_ALIASES = """
import sys
from prime_ext import state
report = state.load(sys.argv[1], key=b"k" * 32)
assert report.complete, report.names
assert Json.__value__.__args__[0].__args__[1] is Json is held[0] and Json.__name__ == "Json"
assert Pair.__value__.__args__ == Pair.__type_params__ * 2 and Pair[int].__args__ == (int,)
assert Plain.__value__ == int | str and Plain.__module__ == "__main__"
assert function.__annotations__["x"] is Plain
"""

SAVE_PARAMETERS = """
import sys, typing
from prime_ext import state
def first[T: (int, str), *Ts, **P](x: T, *more: *Ts) -> list[T]: return [x]
class Box[T]:
    def get[U](self, x: T, y: U) -> T: return x
Call = typing.ParamSpec("Call", covariant=True)
if sys.version_info >= (3, 13):
    exec("def later[T = int, **P = [int], *Ts = *tuple[int]](x: T): return x")
names = [name for name in globals() if name not in ("state", "sys") and name[0] != "_"]
report = state.save(sys.argv[1], key=b"k" * 32, verify="wait", names=names)
assert {status.status for status in report.names.values()} == {"verified"}, report.names
"""
LOAD_PARAMETERS = """
import sys, typing
from prime_ext import state
assert state.load(sys.argv[1], key=b"k" * 32).complete
T, Ts, P = first.__type_params__
assert T is first.__annotations__["x"] and T.__constraints__ == (int, str)
assert [T.__infer_variance__, repr(T), repr(Ts), repr(P)] == [True, "T", "Ts", "P"]
assert Box.__type_params__ == Box.__parameters__ and Box.__parameters__[0].__infer_variance__
assert Box.get.__type_params__[0].__name__ == "U" and Call.__covariant__
if sys.version_info >= (3, 13):
    T, P, Ts = later.__type_params__
    assert (T.__default__, P.__default__) == (int, [int]) and T.has_default()
    assert Ts.__default__ == next(iter(tuple[int])) and not Call.has_default()
"""


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_roundtrip(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)


@pytest.mark.parametrize(
    "codes",
    [(SAVE_ALIASES, LOAD_ALIASES), (SAVE_PARAMETERS, LOAD_PARAMETERS)],
    ids=["aliases", "parameters"],
)
@pytest.mark.parametrize("python", pythons())
def test_aliases_and_parameters_of_types(
    tmp_path: Path, python: str, codes: tuple[str, str]
) -> None:
    version = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
    if subprocess.run(version, timeout=60).returncode:
        pytest.skip("this syntax came with Python 3.12")
    for code in codes:
        done = subprocess.run(
            [python, "-W", "error", "-c", code, str(tmp_path / "s")],
            env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
