"""Plain functions and classes have a quick way; it gives what the general way gives."""

from __future__ import annotations

from typing import Any

import pytest

from prime_ext.state import components, plain_code
from prime_ext.state.time_budget import Budget

CELL = '''
def plain(x: int, scale: "float" = 2.5) -> None:
    """With a text."""
    return [lambda: x * scale]
def second(a=2j, b=b"c"): return a
def with_keywords(*, k=1): return k
def counting():
    total = 0
    def add(n):
        nonlocal total
        total += n
    return add
add = counting()
class Plain:
    """Another."""
    limit: int = 3
    names = ("a", None)
    def method(self, y: str) -> float: return self.limit
class Derived(Plain):
    def method(self, y): return super().method(y)
class WithProperty:
    @property
    def one(self): return 1
'''


@pytest.fixture
def namespace() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, scope)
    return scope


def test_the_streams_are_those_of_the_general_way(
    namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in namespace if not name.startswith("__")]
    quick = components.pickle_all(namespace, names, Budget())
    monkeypatch.setattr(plain_code.PlainCode, "pickled", lambda self, roots: None)
    general = components.pickle_all(namespace, names, Budget())

    def told(pickled: components.Pickled) -> Any:
        found = {tuple(c.roots): (c.stream, c.used_classes) for c in pickled.components}
        return found, pickled.skeletons, pickled.skeleton_keys

    assert told(quick) == told(general)
    took = {c.roots[-1][1] for c in quick.components if c.pickler is None and c.shared}
    assert took == {"plain", "second", "counting", "Plain"}
