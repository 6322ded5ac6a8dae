"""Attributes of modules and their classes that the notebook has set, as in ``settings.LIMIT = 7``.

Found in the text of the cells, so that nothing depends on how many modules there are or how large
they are. In a module that the user works on any value is restored, in an installed one plain
values and the notebook's own classes: what else a library had put there is not for us to make.
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

restored: set[str] = set()
"""Places that a load has set: the cells that set them first may be unknown to this process."""


def find(namespace: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Places (``"module:attribute"``, ``"module:Class.attribute"``) whose value can be restored,
    and those where it cannot. ``[]`` at the end: the container there was changed in place."""
    changed: list[str] = []
    lost: list[str] = []
    places = {
        _place(namespace, chain) for text in cells.texts(namespace) for chain in _set_in(text)
    }
    for place in sorted(places | restored):
        found = _look_up(place)
        if found is None or _is_own_function(found[1], namespace):
            continue  # gone since; or found as a patch
        owner_module, value = found
        mine = not is_installed(getattr(owner_module.__spec__, "origin", None) or "")
        if place.endswith("[]") and not (mine and type(value) in (dict, list)):
            continue
        can_be_restored = mine or _is_plain(value) or _is_own_class(value)
        (changed if can_be_restored else lost).append(place)
    return changed, lost


def fill(container: Any, value: Any) -> None:
    """Give a dictionary or list in a module the content it had: others may refer to it."""
    if container is not value:
        container.clear()
        (container.update if isinstance(container, dict) else container.extend)(value)


@functools.cache
def _set_in(cell: str) -> frozenset[str]:
    """Dotted names that a cell assigns to; with ``[]`` where it assigns to an item."""
    if "." not in cell:
        return frozenset()
    found = set()
    for node in cells.parsed(cell):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(_dotted(node))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if isinstance(node.value, ast.Attribute):
                found.add(f"{_dotted(node.value)}[]")
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            name = node.args[1] if len(node.args) == 3 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(f"{_dotted(node.args[0])}.{name.value}")
    return frozenset(name for name in found if not name.startswith("."))


def _dotted(node: ast.AST) -> str:
    """``a.b.c``; begins with a dot if it does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def _place(namespace: dict[str, Any], chain: str) -> str:
    """Where a dotted name leads, if that is an attribute of a module or of a class in one."""
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
    """The module of a place and what is there now."""
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
