"""Texts and tuples that are compared with ``is``, as in ``def get(name, default=MISSING)``.

The parts of a snapshot are loaded one by one, and each gives a text of its own. So short ones
become one object again where such comparisons find them: as variables, attributes of classes,
defaults of functions, and contents of closures.
"""

from __future__ import annotations

import sys
from typing import Any

from .restorers import current

_LONGEST = 64
_MOST_ITEMS = 8
_ATOMS = {str, int, bool, type(None)}


def one_object(value: Any) -> Any:
    """Return the text, or short tuple, that stands for all that equal it; others unchanged."""
    if type(value) is str:
        return sys.intern(value) if len(value) <= _LONGEST else value
    if type(value) is tuple and 0 < len(value) <= _MOST_ITEMS:
        kinds = tuple(map(type, value))
        if _ATOMS.issuperset(kinds):
            return current().kept.setdefault(("texts", kinds, value), value)
    return value


def in_all(values: Any) -> Any:
    """Apply `one_object` to the items of a tuple or dictionary; others are returned unchanged."""
    if type(values) is tuple:
        return tuple(map(one_object, values))
    if type(values) is dict:
        return {name: one_object(value) for name, value in values.items()}
    return values
