"""Short texts that are compared with ``is``, as in ``def get(name, default=MISSING)``.

The parts of a snapshot are loaded one by one, and each gives a text of its own. So short ones
become one object again where such comparisons find them: as variables, attributes of classes,
defaults of functions, and contents of closures.
"""

from __future__ import annotations

import sys
from typing import Any

_LONGEST = 64


def one_object(value: Any) -> Any:
    """Return the object that stands for all texts that equal a short one; others unchanged."""
    return sys.intern(value) if type(value) is str and len(value) <= _LONGEST else value


def in_all(values: Any) -> Any:
    """Apply `one_object` to the items of a tuple or dictionary; others are returned unchanged."""
    if type(values) is tuple:
        return tuple(map(one_object, values))
    if type(values) is dict:
        return {name: one_object(value) for name, value in values.items()}
    return values
