"""What the notebook has set in modules, in their classes and objects, as in ``settings.LIMIT = 7``.

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

from . import cells, imported_objects

_PLAIN = (bool, int, float, complex, str, bytes, type(None))

_CONTAINERS = (dict, list, set)
_CHANGING = frozenset(
    """
    add append clear difference_update discard extend insert intersection_update pop popitem
    remove reverse setdefault sort symmetric_difference_update update
    """.split()  # noqa: SIM905 - reads better as words
)
"""Methods that change a container in place."""

_ELSEWHERE = frozenset({"sys:path[]", "sys:modules[]", "sys:argv[]", "warnings:filters[]"})
"""Containers of installed modules that are restored otherwise, or belong to the process."""

_OPTIONS = ("pandas:options.", "plotly.io:", "plotly.express:defaults", "jax:config.", "altair:")
"""Beginnings of the places of options, which `process_state` restores."""

_MOST_ITEMS = 1000

_NOT_KEPT = frozenset({"sys:excepthook"})
"""Places that IPython sets again after each cell."""

restored: set[str] = set()
"""Places that a load has set; this process may not know the cells that set them originally."""


def find(namespace: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the places whose values can be restored, and those whose values cannot.

    A place is ``"module:attribute"``, or ``"module:object.attribute"`` where the object is a class
    or any other, with ``[]`` at the end if the container there was changed in place. The objects
    that the notebook has imported from modules of the user's are included (`imported_objects`).
    """
    changed: list[str] = []
    lost: list[str] = []
    imported = imported_objects.find(namespace)
    places = {
        _place(namespace, imported, chain)
        for text in cells.texts(namespace)
        for chain in _set_in(text)
    }
    for module, name in imported.values():
        if not imported_objects.is_installed(module):
            places.add(f"{module}:{name}")
    for place in sorted((places | restored) - _NOT_KEPT):
        if place.startswith(_OPTIONS):
            continue
        found = _look_up(place)
        if found is None or _is_own_function(found[1], namespace):
            continue  # it was deleted since, or `patches` finds it
        owner_module, value = found
        mine = not imported_objects.is_installed(owner_module.__name__)
        if place.endswith("[]") and type(value) not in _CONTAINERS:
            continue
        if place.endswith("[]") and not mine:
            # Many are known and restored otherwise (`sys.path`), or caches of the library.
            if place not in _ELSEWHERE and _is_plain_container(value):
                lost.append(place)
            continue
        can_be_restored = mine or _is_plain(value) or _is_own_class(value)
        (changed if can_be_restored else lost).append(place)
    return changed, lost


def fill(container: Any, value: Any) -> None:
    """Restore the content of a container in place, as other objects may refer to it."""
    if container is not value:
        container.clear()
        (container.extend if isinstance(container, list) else container.update)(value)


@functools.cache
def _set_in(cell: str) -> frozenset[str]:
    """Return the dotted names that a cell assigns to, with ``[]`` if it changes the container."""
    if "." not in cell and "[" not in cell:
        return frozenset()
    found = set()
    for node in cells.parsed(cell):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(cells.dotted(node))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(f"{cells.dotted(node.value)}[]")
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CHANGING:
            found.add(f"{cells.dotted(node.func.value)}[]")  # type: ignore[attr-defined]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            name = node.args[1] if len(node.args) == 3 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(f"{cells.dotted(node.args[0])}.{name.value}")
    return frozenset(name for name in found if name[0] not in ".[")


def _place(
    namespace: dict[str, Any], imported: dict[str, imported_objects.Place], chain: str
) -> str:
    """Return the place of a dotted name, or an empty string if it is not in a module."""
    mark = "[]" if chain.endswith("[]") else ""
    first, *path = chain.removesuffix("[]").split(".")
    if first in imported:
        name, attribute = imported[first]
        return f"{name}:{'.'.join([attribute, *path])}{mark}" if path or mark else ""
    owner = namespace.get(first)
    if not isinstance(owner, types.ModuleType) or not path:
        return ""
    while len(path) > 1 and isinstance(vars(owner).get(path[0]), types.ModuleType):
        owner = vars(owner)[path.pop(0)]
    return f"{owner.__name__}:{'.'.join(path)}{mark}"


_MISSING = object()


def content(owner: Any, name: str) -> Any:
    """Return the attribute of a module, class or other object; `_MISSING` if it has none.

    Runs no code of classes and of objects of the notebook.
    """
    if isinstance(owner, (types.ModuleType, type)):
        found = vars(owner).get(name, _MISSING)
        if found is not _MISSING or isinstance(owner, type) or type(owner) is types.ModuleType:
            return found
    return _MISSING if type(owner).__module__ == "__main__" else getattr(owner, name, _MISSING)


def _look_up(place: str) -> tuple[types.ModuleType, Any] | None:
    """Return the module of a place and the value there now.

    Returns None if the place no longer exists, or holds a module.
    """
    name, _, path = place.removesuffix("[]").partition(":")
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return None
    if type(module) is types.ModuleType and module.__spec__ is None:
        return None  # it was made at run time
    found: Any = module
    for part in path.split("."):
        found = content(found, part)
        if found is _MISSING or isinstance(found, types.ModuleType):
            return None
    return module, found


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _is_plain_container(value: Any) -> bool:
    content = [*value, *value.values()] if isinstance(value, dict) else value
    return len(value) <= _MOST_ITEMS and all(map(_is_plain, content))


def _is_own_class(value: Any) -> bool:
    return isinstance(value, type) and value.__module__ == "__main__"


def _is_own_function(value: Any, namespace: dict[str, Any]) -> bool:
    return isinstance(value, types.FunctionType) and value.__globals__ is namespace
