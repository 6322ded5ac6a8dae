"""Plain functions and classes have a quick way; it gives what the general way gives."""

from __future__ import annotations

import json
import pickle
import pickletools
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.state import components, operations
from prime_ext.state.time_budget import Budget

from .snapshots import python

CELL = '''
def plain(x: int, scale: "float" = 2.5, *rest: None) -> list:
    """With a text."""
    return [lambda: x * scale]
def second(a=2j, b=(b"c", ("x", 1)), c=-0.0, d=None, e="é" * 300, f=10**30): return a
def with_keywords(*, k=1): return k
def counting():
    total = 0
    def add(n):
        nonlocal total
        total += n
    return add
add = counting()
renamed = lambda: 1
renamed.__name__, renamed.__qualname__ = "another", "A.another"
no_number = lambda: 1e999 - 1e999
documented = lambda: 1
documented.__doc__ = ["not a text"]
missing = float("nan")
def is_missing(x, like=missing): return x is like
class WithMissing:
    value = missing
class Plain:
    """Another."""
    limit: int = 3
    names = ("a", None)
    def method(self, y: str) -> float: return self.limit
    def __repr__(self): return "Plain()"
class Empty: pass
class Slots:
    __slots__ = ("a", "b")
class TwoNames:
    def one(self): return 1
    other = one
class Derived(Plain):
    def method(self, y): return super().method(y)
class WithProperty:
    @property
    def one(self): return 1
class WithList:
    rows = [1, 2]
'''

SAVE = f"""
import sys
from prime_ext import state
from prime_ext.state import plain_code
exec({CELL!r}, globals())
hidden = ("sys", "state", "plain_code")
names = [name for name in list(globals()) if name not in hidden and not name.startswith("__")]
where = sys.argv[1]
state.save(where + "/quick", globals(), key=b"k" * 32, names=names, verify="wait")
plain_code.PlainCode.pickled = lambda self, roots: None
state.save(where + "/general", globals(), key=b"k" * 32, names=names, verify="off")
"""

LOAD = """
import json, math, sys, types
from prime_ext import state
report = state.load(sys.argv[1], globals(), key=b"k" * 32, mode="cold")
assert report.complete, report
assert repr(Plain()) == "Plain()" and second() == 2j and plain(2)[0]() == 5.0
assert is_missing(missing) and WithMissing.value is missing
assert TwoNames.other is TwoNames.one
assert math.copysign(1, no_number()) == math.copysign(1, 1e999 - 1e999)
assert add(2) is None and Derived().method("") == 3

def told(value):
    if isinstance(value, types.CodeType):
        return [value.co_code.hex(), value.co_names, *map(told, value.co_consts)]
    if isinstance(value, types.FunctionType):
        assert value.__globals__ is globals()
        more = "name qualname module doc defaults kwdefaults annotations".split()
        return [told(value.__code__), *(repr(getattr(value, f"__{name}__")) for name in more)]
    if isinstance(value, type):
        return [value.__qualname__, *([name, told(item)] for name, item in vars(value).items())]
    if isinstance(value, property):
        return told(value.fget)
    return type(value).__name__ if isinstance(value, types.GetSetDescriptorType) else repr(value)

print(json.dumps({name: told(globals()[name]) for name in report.names}))
"""


def test_what_is_restored_is_what_the_general_way_restores(tmp_path: Path) -> None:
    saving = python(SAVE, str(tmp_path))
    assert saving.wait(60) == 0
    assert saving.stdout is not None
    saving.stdout.close()
    found: list[dict[str, str]] = []
    for which in ("quick", "general"):
        loading = python(LOAD, str(tmp_path / which))
        out, _ = loading.communicate(timeout=60)
        assert loading.returncode == 0
        found.append(json.loads(out))
    assert found[0] == found[1]
    assert len(found[0]) == 19


def test_all_of_them_are_read_back(tmp_path: Path) -> None:
    saving = python(SAVE, str(tmp_path))
    saving.communicate(timeout=60)
    from prime_ext import state

    names = state.inspect(tmp_path / "quick", key=b"k" * 32).names
    assert {name: entry["status"] for name, entry in names.items()} == dict.fromkeys(
        names, "verified"
    )


def test_which_ones_are_plain() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, namespace)
    names = [name for name in namespace if not name.startswith("__")]
    pickled = components.pickle_all(namespace, names, Budget())
    took = {c.roots[-1][1] for c in pickled.components if c.pickler is None and c.shared}
    assert took == {"plain", "second", "counting", "renamed", "no_number", "Plain"}


@given(st.text(max_size=300), st.binary(max_size=300))
def test_operations_are_those_of_the_pickler(text: str, data: bytes) -> None:
    for value, written in (
        (text, operations.text(text)),
        (data, operations.data(data)),
        ([text, "b"], operations.texts([text, "b"])),
        ([], operations.texts([])),
    ):
        stream = operations.whole(written)
        assert pickle.loads(stream) == value
        assert _operations(stream) == _operations(pickle.dumps(value, 5))


def _operations(stream: bytes) -> list[Any]:
    skipped = ("FRAME", "MEMOIZE")
    return [(o.name, a) for o, a, _ in pickletools.genops(stream) if o.name not in skipped]
