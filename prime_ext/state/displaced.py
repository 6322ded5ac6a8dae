"""Functions and classes written in C that the notebook has replaced in their module.

As after ``original = time.sleep; time.sleep = faster``: ``original`` cannot be found by its name
any more, but it is what a fresh process has there until the change to the module is restored.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from .pickling import Reducing, import_module
from .plans import module_of, reduces
from .restorers import current, restorer

_HEAP_TYPE = 1 << 9

_known: dict[tuple[str, str], Any] = {}
"""Module and name → the function or class, for those that this process has saved or restored."""


@reduces(types.BuiltinFunctionType)
def reduce_builtin_function(pickler: Reducing, function: Any) -> Any:
    if not isinstance(function.__self__, (types.ModuleType, type(None))):
        return NotImplemented  # a method
    return reduce_displaced(pickler, function)


def is_displaced(value: Any) -> bool:
    """Return whether this process has saved or restored it as something displaced."""
    return bool(_known) and _known.get(_place(value)) is value


def reduce_displaced(pickler: Reducing, value: Any) -> Any:
    """Reduce a function or class to its place in its module; NotImplemented if it is there."""
    place = _place(value)
    if place[0] not in sys.modules:
        return NotImplemented
    if not is_displaced(value):
        found = _found(place)
        if found is value:
            return NotImplemented
        if found is None:
            return pickler.lose(value, f"{place[0]} has nothing of the name {place[1]}")
        _known[place] = value
    pickler.context.references.add(id(value))
    return restore_displaced, place


def _place(value: Any) -> tuple[str, str]:
    name = value.__qualname__ if isinstance(value, type) else value.__name__
    return module_of(value), name


def _found(place: tuple[str, str]) -> Any:
    found: Any = sys.modules[place[0]]
    for part in place[1].split("."):
        found = getattr(found, part, None)
    return found


@restorer
def restore_displaced(module: str, name: str) -> Any:
    place = module, name
    if place in _known:
        return _known[place]
    import_module(module, current().modules.get(module, ""))
    found = _found(place)
    is_class = isinstance(found, type) and not found.__flags__ & _HEAP_TYPE
    if not (is_class or isinstance(found, types.BuiltinFunctionType)) or _place(found) != place:
        raise AttributeError(f"something else is in the place of {module}.{name}")
    _known[place] = found
    return found
