"""Structs of msgspec that a notebook defines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .kernels import Kernel

pytest.importorskip("msgspec")

DEFINE = """
import msgspec
from typing import Generic, Optional, TypeVar
made = []
class Inner(msgspec.Struct, frozen=True):
    n: int = 3
class Base(msgspec.Struct, tag_field="kind", tag=True, omit_defaults=True):
    "A base."
    first_name: str = msgspec.field(name="firstName")
    limits: list[int] = []
    inner: Inner = msgspec.field(default_factory=Inner)
    fixed: Inner = Inner(4)
    def __post_init__(self): made.append(self.first_name)
    def shout(self): return self.first_name.upper()
class Child(Base, kw_only=True, dict=True, weakref=True):
    age: int
    friend: Optional["Base"] = None
    def __post_init__(self):
        super().__post_init__()
        made.append(self.age)
T = TypeVar("T")
class Pair(msgspec.Struct, Generic[T], array_like=True, order=True, forbid_unknown_fields=True):
    a: T
    b: T
class Counted(msgspec.Struct):
    seen = 0
    def __init_subclass__(cls, **more): Counted.seen = Counted.seen + 1
class One(Counted): pass
base = Base("ann")
child = Child(first_name="bob", age=5)
child.note = "kept"
child.friend = child
pair = Pair[int](1, 2)
both = [base, {base.first_name: child}]
one = One()
made.clear()
"""

CHECK = """
    assert made == [], "nothing ran while they were restored"
    assert type(base) is Base and type(child) is Child
    assert both[0] is base and both[1]["ann"] is child is child.friend and child.note == "kept"
    assert base.inner == Inner() and base.shout() == "ANN" and Base.__doc__ == "A base."
    assert msgspec.json.encode(base) == b'{"kind":"Base","firstName":"ann","inner":{"n":3}}'
    assert msgspec.json.decode(b'{"kind":"Child","firstName":"c","age":1}', type=Child).age == 1
    assert made == ["c", 1], made
    try:
        msgspec.json.decode(b'{"kind":"Child","firstName":"c","age":"1"}', type=Child)
    except msgspec.ValidationError as error:
        assert "age" in str(error)
    else:
        raise AssertionError("the types of the fields are lost")
    fresh = Base("eve")
    assert fresh.limits == [] and fresh.limits is not Base("eve").limits and fresh.fixed.n == 4
    assert type(fresh.inner) is Inner
    assert Base.__struct_fields__ == ("first_name", "limits", "inner", "fixed")
    assert Child(first_name="f", age=2).friend is None
    assert Child.__match_args__ == Base.__match_args__
    assert Pair(1, 2) < Pair(1, 3) and pair == Pair(1, 2)
    assert msgspec.json.decode(b"[1, 2]", type=Pair[int]) == pair
    try:
        Inner(1).n = 2
    except AttributeError:
        pass
    else:
        raise AssertionError("it was frozen")
    assert Counted.seen == 1 and type(one) is One
    class Later(Base): pass
    assert Later("x").shout() == "X" and msgspec.json.encode(Later("x"))[:15] == b'{"kind":"Later"'
"""


@pytest.mark.parametrize("where", ["hot", "cold"])
def test_structs(kernel_at: Callable[..., Kernel], tmp_path: Path, where: str) -> None:
    kernel = kernel_at()
    kernel.run(DEFINE)
    kernel.run(
        f"""
        from prime_ext import state as _state
        _where = {str(tmp_path / "s")!r}
        _report = _state.save(_where, key=b"k" * 32, verify="wait")
        _wrong = {{n: s for n, s in _report.names.items() if s.status != "verified"}}
        assert not _wrong, _wrong
        """
    )
    if where == "hot":
        kernel.run("del base, child, both, pair, one")
        kernel.run("_report = _state.load(_where, key=b'k' * 32); assert _report.complete")
        kernel.run(CHECK)
        return
    fresh = kernel_at()
    load = f"_state.load({str(tmp_path / 's')!r}, key=b'k' * 32)"
    fresh.run(f"from prime_ext import state as _state\nassert {load}.complete")
    fresh.run(CHECK)
    # And once more, from what was restored.
    fresh.run(f"_again = _state.save({str(tmp_path / 't')!r}, key=b'k' * 32, verify='wait')")
    fresh.run(
        "_wrong = {n: s for n, s in _again.names.items() if s.status != 'verified'}\n"
        "assert not _wrong, _wrong"
    )


def test_a_struct_that_its_own_field_is_missing_from(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(
        "import msgspec\nclass S(msgspec.Struct):\n    a: int\ns, whole = S(1), S(2)\ndel s.a"
    )
    kernel.run(
        f"""
        from prime_ext import state as _state
        _names = _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait").names
        assert _names["s"].status == "degraded" and "no value" in _names["s"].reason, _names["s"]
        assert _names["whole"].status == _names["S"].status == "verified"
        """
    )
