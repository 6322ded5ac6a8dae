"""Attributes of modules and their classes that the notebook has set, as in ``settings.LIMIT = 7``.

They are found by parsing the cells, so the cost does not depend on the number and size of modules.
In a module of the user's, any value is restored. In an installed one, only plain values and classes
of the notebook are: other values may be objects that only the library can make.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from typing import Any

from . import cells
from .reducers_functions import is_installed

_PLAIN = (bool, int, float, complex, str, bytes, type(None))

_NOT_KEPT = frozenset({"sys:excepthook"})
"""Places that IPython sets again after each cell."""

restored: set[str] = set()
"""Places that a load has set; this process may not know the cells that set them originally."""


def find(namespace: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the places whose values can be restored, and those whose values cannot.

    A place is ``"module:attribute"`` or ``"module:Class.attribute"``, with ``[]`` at the end if
    the container there was changed in place.
    """
    changed: list[str] = []
    lost: list[str] = []
    places = {
        _place(namespace, chain) for text in cells.texts(namespace) for chain in _set_in(text)
    }
    for place in sorted((places | restored) - _NOT_KEPT):
        found = _look_up(place)
        if found is None or _is_own_function(found[1], namespace):
            continue  # it was deleted since, or `patches` finds it
        owner_module, value = found
        mine = not is_installed(getattr(owner_module.__spec__, "origin", None) or "")
        if place.endswith("[]") and not (mine and type(value) in (dict, list)):
            continue
        can_be_restored = mine or _is_plain(value) or _is_own_class(value)
        (changed if can_be_restored else lost).append(place)
    return changed, lost


def fill(container: Any, value: Any) -> None:
    """Restore the content of a dictionary or list in place, as other objects may refer to it."""
    if container is not value:
        container.clear()
        (container.update if isinstance(container, dict) else container.extend)(value)


@functools.cache
def _set_in(cell: str) -> frozenset[str]:
    """Return the dotted names that a cell assigns to, with ``[]`` if it changes an item."""
    if "." not in cell:
        return frozenset()
    found = set()
    for node in cells.parsed(cell):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(cells.dotted(node))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if isinstance(node.value, ast.Attribute):
                found.add(f"{cells.dotted(node.value)}[]")
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            name = node.args[1] if len(node.args) == 3 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(f"{cells.dotted(node.args[0])}.{name.value}")
    return frozenset(name for name in found if not name.startswith("."))


def _place(namespace: dict[str, Any], chain: str) -> str:
    """Return the place of a dotted name, or an empty string if it is not in a module."""
    first, *path = chain.split(".")
    owner = namespace.get(first)
    if not isinstance(owner, types.ModuleType):
        return ""
    module: types.ModuleType = owner
    inside: list[str] = []
    for part in path[:-1]:
        owner = vars(owner).get(part)
        if isinstance(owner, types.ModuleType):
            module, inside = owner, []
        elif isinstance(owner, type):
            inside.append(part)
        else:
            return ""
    return f"{module.__name__}:{'.'.join([*inside, path[-1]])}" if path else ""


def _look_up(place: str) -> tuple[types.ModuleType, Any] | None:
    """Return the module of a place and the value there now.

    Returns None if the place no longer exists, or holds a module.
    """
    name, _, path = place.removesuffix("[]").partition(":")
    module = sys.modules.get(name)
    if module is None or name == "__main__" or getattr(module, "__spec__", None) is None:
        return None
    owner: Any = module
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = vars(owner).get(parent)
        if not isinstance(owner, type):
            return None
    found = vars(owner).get(attribute, module)
    return None if isinstance(found, types.ModuleType) else (module, found)


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _is_own_class(value: Any) -> bool:
    return isinstance(value, type) and value.__module__ == "__main__"


def _is_own_function(value: Any, namespace: dict[str, Any]) -> bool:
    return isinstance(value, types.FunctionType) and value.__globals__ is namespace
