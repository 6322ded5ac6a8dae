"""What ties two variables together, and what does not."""

from __future__ import annotations

import enum
import importlib
import logging
import sys
import types
import uuid
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import pytest

from prime_ext import state

from .kernels import Kernel
from .snapshots import load, python, save

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


def joined(directory: Path, key: bytes) -> list[set[str]]:
    """Names that were saved together, where there is more than one."""
    components = state.inspect(directory, key=key).components
    groups = [{name for what, name in record.roots if what == "name"} for record in components]
    return [group for group in groups if len(group) > 1]


def test_frames_are_apart_though_pandas_gives_them_things_in_common(
    tmp_path: Path, key: bytes
) -> None:
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    times = pd.date_range("2024", periods=5000, freq="min")
    namespace: dict[str, Any] = {
        f"frame_{n}": pd.DataFrame({"n": np.arange(5000.0) + n, "text": str(n)}, index=times)
        for n in range(5)
    }
    frame = namespace["frame_0"]
    namespace["times"] = times
    namespace["few"] = frame[frame["n"] > 10]
    namespace["grouped"] = frame.groupby("text").mean()
    namespace["doubled"] = frame["n"] * 2
    namespace["typed"] = pd.DataFrame({"i": pd.array([1, None], dtype="Int64"), "p": "x"})
    namespace["typed_too"] = pd.DataFrame({"i": pd.array([2, None], dtype="Int64")})
    first = save(tmp_path, namespace, key)
    assert joined(tmp_path, key) == []
    frame.iloc[0, 0] = -1.0
    second = save(tmp_path, namespace, key)
    assert 0 < second.bytes < first.bytes / 3
    found = load(tmp_path, key)
    for name, value in namespace.items():
        pd.testing.assert_frame_equal(
            *(v.to_frame() if v.ndim == 1 else v for v in (found[name], value))
        )
    assert found["few"].index.freq == namespace["few"].index.freq


def test_what_pandas_shares_on_purpose_stays_shared(tmp_path: Path, key: bytes) -> None:
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    array = np.arange(1000.0)
    frame = pd.DataFrame(array.reshape(-1, 2), columns=["a", "b"], copy=False)
    namespace = {"array": array, "frame": frame, "list": [frame]}
    save(tmp_path, namespace, key)
    found = load(tmp_path, key)
    assert found["list"][0] is found["frame"]
    assert np.shares_memory(found["array"], found["frame"].to_numpy())


def test_rows_of_a_frame_share_its_memory_beside_an_index_of_it(tmp_path: Path, key: bytes) -> None:
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    frame = pd.DataFrame({"x": np.arange(20_000.0), "y": np.arange(20_000.0)})
    namespace = {
        "frame": frame,
        "rows": frame.iloc[5:-5],
        "array": frame["x"].to_numpy(),
        "indexed": frame.set_index("x", drop=False),
    }
    save(tmp_path, namespace, key)
    found = load(tmp_path, key)
    whole = found["frame"].to_numpy()
    for name in ("rows", "array", "indexed"):
        assert np.shares_memory(whole, np.asarray(found[name])), name


def first(frame: Any) -> Any:
    return frame.iloc[0].tolist() if frame.ndim > 1 else frame.iloc[0]


SECOND: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "column": (lambda frame: frame["x"], first),
    "text": (lambda frame: frame["text"], first),
    "columns": (lambda frame: {"inside": frame[["x", "y"]]}, lambda held: first(held["inside"])),
    "shallow copy": (lambda frame: frame.copy(deep=False), first),
    "renamed": (lambda frame: frame.rename(columns={"x": "z"}), first),
    "index": (lambda frame: frame.set_index("x", drop=False), lambda frame: frame.index[0]),
    "rows": (lambda frame: frame.iloc[:-1:2], first),
    "view of the memory": (lambda frame: frame["x"].to_numpy(), lambda array: array[0]),
}


@pytest.mark.parametrize(("make", "look"), SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("written", ["frame", "second"])
def test_pandas_copies_on_write_after_a_restore(
    tmp_path: Path, key: bytes, make: Any, look: Any, written: str
) -> None:
    """A write to a frame shows in what shares its memory where it would without a restore."""
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")

    def write(names: dict[str, Any]) -> tuple[Any, Any, Any]:
        target = names[written]
        target = target["inside"] if isinstance(target, dict) else target
        if isinstance(target, pd.DataFrame):
            target.iloc[0, 0] = -1.0
            target.loc[target.index[0], "text"] = "new"
        elif isinstance(target, pd.Series):
            target.iloc[0] = "new" if target.name == "text" else -1.0
        return first(names["frame"]), names["frame"].index[0], look(names["second"])

    texts = [f"text {n}" for n in range(5000)]
    frame = pd.DataFrame({"x": np.arange(5000.0), "y": np.arange(5000.0), "text": texts})
    names = {"frame": frame, "second": make(frame)}
    save(tmp_path, names, key)
    restored = load(tmp_path, key)
    assert write(restored) == write(names)


def test_a_save_leaves_the_index_of_a_frame_as_it_was(tmp_path: Path, key: bytes) -> None:
    """A range makes its numbers only when asked for them."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": [1.0]}, index=pd.RangeIndex(10_000_000, 10_000_001))
    before = dict(frame.index._cache)
    save(tmp_path, {"frame": frame}, key)
    assert frame.index._cache == before


def test_a_subclass_of_a_frame_keeps_its_metadata(tmp_path: Path, key: bytes) -> None:
    pd = pytest.importorskip("pandas")

    class Measured(pd.DataFrame):  # type: ignore[misc, name-defined]
        _metadata = ["unit"]  # noqa: RUF012

        @property
        def _constructor(self) -> Any:
            return Measured

    measured = Measured({"a": [1, 2]})
    measured.unit = "kg"
    save(tmp_path, {"Measured": Measured, "measured": measured}, key)
    found = load(tmp_path, key)
    assert type(found["measured"]) is found["Measured"]
    assert found["measured"].unit == found["measured"].copy().unit == "kg"


def test_figures_are_apart(tmp_path: Path, key: bytes) -> None:
    figure_of = pytest.importorskip("matplotlib.figure").Figure
    figures = {"one": figure_of(), "two": figure_of()}
    for figure in figures.values():
        axes = figure.add_subplot()
        axes.plot([1, 2], label="line")
        axes.scatter([1, 2], [3, 4], c=[1, 2])
        axes.legend()
    save(tmp_path, {**figures, "axes": figures["one"].axes[0]}, key)
    assert joined(tmp_path, key) == [{"one", "axes"}]
    assert load(tmp_path, key)["axes"].figure.axes[0].get_lines()[0].get_label() == "line"


def test_dataclasses_are_apart(tmp_path: Path, key: bytes) -> None:
    @dataclass
    class One:
        a: int
        b: list[int] = field(default_factory=list)

    @dataclass
    class Two:
        a: Optional[str] = None  # noqa: UP045

    save(tmp_path, {"One": One, "Two": Two, "one": One(1), "two": Two("x")}, key)
    assert joined(tmp_path, key) == []
    found = load(tmp_path, key)
    assert found["one"] == found["One"](1)
    assert found["two"].a == "x"


def test_values_tie_nothing_together_but_objects_do(tmp_path: Path, key: bytes) -> None:
    value: tuple[Any, ...] = (
        ("text", 1, None, Colour.RED),
        frozenset({1, 2}),
        Point(1, 2),
        uuid.uuid4(),
        logging.getLogger("shared"),
        Optional[int],  # noqa: UP045
        list[int],
        int,
        sys,
    )
    sentinel = object()
    save(tmp_path, {"a": [*value], "b": {"v": [*value]}}, key)
    assert joined(tmp_path, key) == []
    save(tmp_path, {"a": [*value, sentinel], "b": [Point(1, sentinel)]}, key)
    assert joined(tmp_path, key) == [{"a", "b"}]
    found = load(tmp_path, key)
    assert found["a"][-1] is found["b"][0].y


@pytest.mark.parametrize("has_file", [True, False])
def test_what_a_module_of_the_user_lends_is_shared(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch, has_file: bool
) -> None:
    source = "class Holder:\n    shared = []\n"
    (tmp_path / "home_made.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    if has_file:
        module: Any = importlib.import_module("home_made")
    else:
        module = types.ModuleType("home_made")
        exec(source, vars(module))
    monkeypatch.setitem(sys.modules, "home_made", module)
    one, two = module.Holder(), module.Holder()
    one.items = two.items = module.Holder.shared
    save(tmp_path / "s", {"one": one, "two": two}, key)
    found = load(tmp_path / "s", key)
    assert found["one"].items is found["two"].items


def test_what_a_process_has_one_of_is_not_copied(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    kernel = kernel_at()
    kernel.run(
        f"""
        import os, random
        from os import environ
        from random import randint
        class Job: pass
        job = Job(); job.env = os.environ; job.own = random.Random(3)
        drawn = random.Random(3).random()
        from prime_ext import state as _state
        _state.save({str(tmp_path / "s")!r}, key={key!r}, verify="off")
        """
    )
    fresh = kernel_at()
    fresh.run(
        f"""
        from prime_ext import state as _state
        _state.load({str(tmp_path / "s")!r}, key={key!r}, verify="off")
        """
    )
    fresh.run(
        """
        random.seed(7); first = randint(0, 10**12)
        random.seed(7); assert first == random.randint(0, 10**12)
        environ["ADDED_LATER"] = "1"
        assert os.environ["ADDED_LATER"] == "1" and job.env is os.environ
        assert job.own.random() == drawn and job.own is not random._inst
        """
    )


CODE = """
import functools
def plain(x: int, y=(1, "a"), *rest) -> "str":
    'Adds.'
    return x + total
def other(x): return x
def with_default(x=[]): return x
def marked(): pass
marked.mark = 1
@functools.wraps(other)
def wrapper(*args): return other(*args)
class Plain:
    'A class.'
    size: int = 3
    def area(self, by: float = 2.0): return self.size * by
    @property
    def double(self): return 2 * self.size
class Slotted:
    __slots__ = ("a", "b")
    limits = (1, 2)
    def __init__(self, a): self.a = a
same = plain
table = {"plain": plain, "area": Plain.area}
alias = Plain
notes = other.__annotations__
other.__annotations__["x"] = int
total, item = 5, Slotted(7)
del functools
"""


def test_functions_and_classes_keep_what_they_share(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(CODE)
    kernel.run(
        f"""
        from prime_ext import state as _state
        _report = _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait")
        _wrong = {{n: s for n, s in _report.names.items() if s.status != "verified"}}
        assert not _wrong, _wrong
        """
    )
    found = {frozenset(group) for group in joined(tmp_path / "s", b"k" * 32)}
    assert found == {
        frozenset({"plain", "same", "table", "Plain"}),
        frozenset({"other", "wrapper", "notes"}),
    }
    fresh = kernel_at()
    fresh.run(
        f"""
        from prime_ext import state as _state
        assert _state.load({str(tmp_path / "s")!r}, key=b"k" * 32).complete
        assert same is plain is table["plain"] and table["area"] is Plain.area and alias is Plain
        assert wrapper.__wrapped__ is other and notes is other.__annotations__
        assert plain(1) == 6 and plain.__defaults__ == ((1, "a"),) and plain.__doc__ == "Adds."
        total = 10
        assert plain(1) == 11 and plain.__annotations__ == {{"x": int, "return": "str"}}
        assert plain.__module__ == "__main__" and plain.__qualname__ == "plain"
        assert Plain().double == 6 and Plain().area() == 6.0
        assert Plain.__annotations__ == {{"size": int}}
        assert Plain.area.__qualname__ == "Plain.area" and Plain.__doc__ == "A class."
        assert type(item) is Slotted and item.a == 7 and not hasattr(item, "__dict__")
        assert marked.mark == 1 and with_default() is with_default()
        """
    )


def test_names_of_dictionaries_that_a_process_has_one_of(tmp_path: Path, key: bytes) -> None:
    namespace: dict[str, Any] = {"number": 3, "modules": sys.modules}
    namespace["everything"] = namespace
    report = save(tmp_path, namespace, key, verify="wait")
    assert {status.status for status in report.names.values()} == {"verified"}
    assert save(tmp_path, namespace, key).unchanged
    found = load(tmp_path, key)
    assert found["everything"] is found
    assert found["modules"] is sys.modules
    assert found["number"] == 3


NANS = """
import decimal, math
import numpy as np
own = float("nan")
values, table, twice = [own, 1.0], {own: "found"}, [float("nan")] * 2
exact, exacts = decimal.Decimal("NaN"), []
exacts.append(exact)
scalar = np.float64("nan")
scalars = {scalar: 1}
of_numpy, both = np.nan, [np.nan, math.nan]
negative = [-own, struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]]
apart = [float("nan")]
records = [{"a": np.nan, "b": own}, {"a": float("nan"), "b": None}]
"""


def test_nans_are_found_again(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    """A NaN does not equal itself, so containers find it by its identity."""
    kernel = kernel_at()
    kernel.run(f"import struct\n{NANS}")
    kernel.run(
        f"""
        from prime_ext import state
        saved = state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait")
        wrong = {{n: s for n, s in saved.names.items() if s.status != "verified" or s.reason}}
        assert not wrong, wrong
        del saved, wrong
        """
    )
    fresh = kernel_at()
    fresh.run(
        f"""
        from prime_ext import state
        state.load({str(tmp_path / "s")!r}, key=b"k" * 32, mode="cold")
        assert own in values and table[own] == "found" and twice[0] is twice[1]
        assert exact in exacts and scalars[scalar] == 1
        assert of_numpy is np.nan and both[0] is np.nan and both[1] is math.nan
        assert own is not np.nan and apart[0] not in (own, np.nan)
        assert struct.pack("<d", negative[1]).hex() == "010000000000f8ff"
        assert math.copysign(1, negative[0]) == -math.copysign(1, own)
        assert records[0]["a"] is np.nan and records[0]["b"] is own
        assert records[1]["a"] is not own and records[1]["b"] is None
        """
    )


SHORT = """
MISSING = "not given"
class Table:
    empty = MISSING
    def get(self, name=MISSING): return name is MISSING
def plain(a=MISSING): return a is MISSING
def with_keywords(*, a=MISSING): return a is MISSING
def counting(a=MISSING):
    def inside(): return a is MISSING
    return inside
inside = counting()
"""

CHECK = """
assert Table.empty is MISSING
assert Table().get() and plain() and with_keywords() and inside()
"""


def test_short_texts_that_stand_for_something(tmp_path: Path) -> None:
    for code in (
        f"{SHORT}\nreport = state.save(sys.argv[1], key=KEY, verify='off')",
        f"report = state.load(sys.argv[1], key=KEY)\n{CHECK}",
    ):
        start = "import sys\nfrom prime_ext import state\nKEY = b'k' * 32\n"
        process = python(start + code, str(tmp_path))
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0, out
