"""Objects of libraries whose own way of pickling needs help."""

from __future__ import annotations

import itertools
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .restorers import restorer


@reduces("matplotlib.cbook:CallbackRegistry")
def reduce_callbacks(_pickler: Reducing, registry: Any) -> Any:
    """matplotlib takes a number from the registry each time it is pickled, which would make each
    save find every figure changed."""
    next_number = int(repr(registry._cid_gen)[len("count(") : -1])
    state = registry.__getstate__()
    registry._cid_gen = itertools.count(next_number)
    state["_cid_gen"] = 1 + max(
        (cid for kept in state["callbacks"].values() for cid in kept), default=-1
    )
    return restore_callbacks, (type(registry),), state


@restorer
def restore_callbacks(kind: Any) -> Any:
    return kind.__new__(kind)
