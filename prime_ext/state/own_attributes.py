"""Plain attributes of objects whose class says by itself what is saved of them.

A ``__reduce__`` may leave out what an object holds, and give the same again for the object that it
makes: comparing two pickles then finds nothing. So the attributes of such objects are described
apart, when they are saved and when they were read back.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

MOST = 1000
"""Largest number of entries for a component; if there are more, they are not compared."""

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_LENGTH = 12


def describe(value: Any) -> list[str]:
    """Return an entry for an object's class and for each attribute, without running its code.

    An attribute that is not plain counts with its name only, a cached property not at all.
    """
    kind = type(value)
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = {}
    told = [
        f"{name!r}={content!r}" if type(content) in _ATOMS else repr(name)
        for name, content in list(attributes.items())
        if type(name) is str and not _is_cached(kind, name)
    ]
    whose = f"{kind.__module__}.{kind.__qualname__}\0"
    return [_entry(whose), *(_entry(whose + text) for text in told)]


def _is_cached(kind: type, name: str) -> bool:
    return any(isinstance(vars(base).get(name), functools.cached_property) for base in kind.__mro__)


def _entry(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def join(described: Iterable[list[str]]) -> str:
    """Join the entries of all objects, in an order of their own; empty if there are too many."""
    entries = sorted(entry for entries in described for entry in entries)
    return "".join(entries) if len(entries) <= MOST else ""


def are_there(saved: str, again: str) -> bool:
    """Return whether all entries that were saved are there again; there may be more."""
    return not saved or not again or not _counted(saved) - _counted(again)


def _counted(joined: str) -> Counter[str]:
    return Counter(joined[i : i + _LENGTH] for i in range(0, len(joined), _LENGTH))
