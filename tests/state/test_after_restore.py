"""What holds in a fresh kernel once a snapshot has been loaded into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prime_ext import state

from .kernels import Kernel

SAVE = "__import__('prime_ext.state').state.save({0!r}, key={1!r}, verify='wait').to_dict()"
LOAD = "__import__('prime_ext.state').state.load({0!r}, key={1!r})"
CURRENT = "__import__('prime_ext.state').state.is_current({0!r}, key={1!r})"

CLASSES_AND_SETS = """
import abc, enum
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar
T = TypeVar("T")
class Plain(Generic[T]):
    def shown(self): return super().__repr__()
class Point(NamedTuple):
    x: int
    y: str = "x"
@dataclass(frozen=True)
class Record:
    n: int
    items: list = field(default_factory=list)
class Colour(enum.Enum):
    RED = 1
class Base(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Keyed:
    def __init__(self, key): self.key = key
    def __hash__(self): return hash(self.key)
    def __eq__(self, other): return self.key == other.key
plain = Plain(); plain.attribute = "attribute"
objects = [plain, "attribute", Point(1), Record(2), Colour.RED, {Keyed("a"), Keyed("b")}]
words = set("the order in a set of strings is another one in each process".split())
frozen = {frozenset(words): 1}
def function(x, y=2): return x
"""


def test_a_restored_namespace_is_current(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    place = str(tmp_path / "s")
    kernel = kernel_at()
    kernel.run(CLASSES_AND_SETS)
    kernel.run(SAVE.format(place, key))
    fresh = kernel_at()
    fresh.run(f"assert {LOAD.format(place, key)}.complete")
    fresh.run(f"assert {CURRENT.format(place, key)}")
    fresh.run(
        f"assert {{s.action for s in {LOAD.format(place, key)}.names.values()}} == {{'kept'}}"
    )
    fresh.run("Plain.shown = lambda self: 'changed'")
    fresh.run(f"assert not {CURRENT.format(place, key)}")
    fresh.run(SAVE.format(place, key))
    fresh.run(f"assert {CURRENT.format(place, key)}")
    fresh.run("objects[2:4] = objects[3:1:-1]")
    fresh.run(f"assert not {CURRENT.format(place, key)}")


def test_a_partly_restored_namespace_is_not_current(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    place = str(tmp_path / "s")
    kernel = kernel_at()
    kernel.run(CLASSES_AND_SETS)
    kernel.run(SAVE.format(place, key))
    fresh = kernel_at()
    fresh.run("words = {'of the user'}")
    fresh.run(LOAD.format(place, key))
    fresh.run(f"assert not {CURRENT.format(place, key)} and words == {{'of the user'}}")


READS_GLOBALS = """
class Early:
    def __init__(self, n): self.n = n
    def __getstate__(self): return {"n": self.n}
    def __setstate__(self, state):
        CALLS.append(1)
        self.n = state["n"]
        self.path = helper(self.n)
        self.unit = CONFIG.unit
early = Early.__new__(Early); early.n = 3
class Rebuilt:
    def __reduce__(self): return rebuild, (self.x,)
def rebuild(x):
    made = object.__new__(Rebuilt)
    made.x, made.text = x, js.dumps([x, LIMITS["low"]])
    return made
rebuilt = object.__new__(Rebuilt); rebuilt.x = 1; rebuilt.text = "[1, 0]"
class Dictionary(dict):
    def __setstate__(self, state): self.extra = early.n + LIMITS["low"]
    def __getstate__(self): return {"extra": 0}
chained = Dictionary(a=1)
import os, json as js
def helper(n): return os.path.join(PREFIX, str(n))
class Config:
    unit = "kg"
    def __init__(self): self.unit = "g"
CONFIG = Config()
PREFIX = "/data"
LIMITS = {"low": 0}
CALLS = []
"""


def test_code_that_runs_while_an_object_is_loaded_finds_the_notebooks_names(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    place = str(tmp_path / "s")
    kernel = kernel_at()
    kernel.run(READS_GLOBALS)
    kernel.run(SAVE.format(place, key))
    names = state.inspect(place, key=key).names
    assert {name: entry["reason"] for name, entry in names.items() if entry["reason"]} == {}
    fresh = kernel_at()
    fresh.run("PREFIX = '/mine'")
    fresh.run(f"print({LOAD.format(place, key)}.notes)")
    fresh.run(
        """
        assert early.path == "/mine/3" and early.unit == "g" and PREFIX == "/mine"
        assert rebuilt.text == "[1, 0]" and chained == {"a": 1} and chained.extra == 3
        """
    )


def test_what_an_object_reads_is_there_at_the_first_attempt(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    place = str(tmp_path / "s")
    kernel = kernel_at()
    kernel.run(
        """
        calls = []
        class Counted:
            def __getstate__(self): return 1
            def __setstate__(self, state):
                calls.append(1)
                self.path = helper() + suffix[0]
        counted = object.__new__(Counted)
        def helper(): return os.sep
        import os
        suffix = ["x"]
        """
    )
    kernel.run(SAVE.format(place, key))
    fresh = kernel_at()
    fresh.run(LOAD.format(place, key))
    fresh.run("assert calls == [1] and counted.path == os.sep + 'x'")
