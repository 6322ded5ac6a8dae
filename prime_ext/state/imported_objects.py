"""Objects that the notebook has by name from a module, as after ``from project import settings``.

The module's own code uses the same object. A copy of it would not be the one that it looks at.

- From a module of the user's, the object is saved with its content, and restored into the variable
  and into the modules that had it (`put`).
- From an installed one, it is saved as a reference, since it belongs to the library. Its options
  are restored as such (`process_state`), and attributes that the notebook set by `module_changes`.
  So are containers, but only once the variables exist (`aliases`): pickle does not let us replace a
  list or dictionary by a reference.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import cells, reducers_functions

if TYPE_CHECKING:
    from .pickling import SaveContext

Place = tuple[str, str]
"""Module and attribute."""

_NO_OBJECT = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    str,
    bytes,
    int,
    float,
    complex,
    tuple,
    frozenset,
    type(None),
)
CONTAINERS = (dict, list, set)

referred: dict[int, tuple[Any, Place]] = {}
"""Id → object and place, of the objects that this process has loaded by reference."""


def find(namespace: dict[str, Any]) -> dict[str, Place]:
    """Return variable → place, for the objects that the cells have imported or looked up."""
    found: dict[str, Place] = {}
    bound = {entry for text in cells.texts(namespace) for entry in _bound_in(text)}
    for module, attribute, variable in sorted(bound):
        if not module:
            place = _looked_up(namespace, attribute)
            if place is None:
                continue
            module, attribute = place
        owner = sys.modules.get(module)
        if owner is None or module == "__main__":
            continue
        names = [attribute] if attribute != "*" else [n for n in vars(owner) if n[:1] != "_"]
        for name in names:
            value = namespace.get(name if attribute == "*" else variable)
            if not isinstance(value, _NO_OBJECT) and value is _attribute(owner, name):
                found[name if attribute == "*" else variable] = module, name
    return found


def _attribute(module: types.ModuleType, name: str) -> Any:
    found = vars(module).get(name)
    # Some modules import their attributes when they are asked for.
    lazy = found is None and "__getattr__" in vars(module)
    return getattr(module, name, None) if lazy else found


@functools.cache
def _bound_in(cell: str) -> frozenset[tuple[str, str, str]]:
    """Return ``(module, attribute, variable)`` of what a cell imports from modules.

    For ``variable = a.b.attribute`` the module is empty, and the attribute the dotted name.
    """
    if "import " not in cell and "." not in cell:
        return frozenset()
    found: set[tuple[str, str, str]] = set()
    for node in cells.parsed(cell):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update((node.module, a.name, a.asname or a.name) for a in node.names)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            chain = cells.dotted(node.value)
            targets = [t.id for t in node.targets if isinstance(t, ast.Name)]
            found.update(("", chain, target) for target in targets if chain[0] != ".")
    return frozenset(found)


def _looked_up(namespace: dict[str, Any], chain: str) -> Place | None:
    first, *path, attribute = chain.split(".")
    owner = namespace.get(first)
    for part in path:
        owner = vars(owner).get(part) if isinstance(owner, types.ModuleType) else None
    return (owner.__name__, attribute) if isinstance(owner, types.ModuleType) else None


def is_installed(module: str) -> bool:
    """Return whether a module belongs to Python or an installed package."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return reducers_functions.is_installed(getattr(spec, "origin", None) or "")


def references(context: SaveContext) -> dict[int, Place]:
    """Return id → place of the objects of libraries that are saved as references."""
    known: dict[int, Place] | None = context.kept.get("imported objects")
    if known is None:
        known = {
            id(context.namespace[name]): place
            for name, place in find(context.namespace).items()
            if is_installed(place[0])
            and type(context.namespace[name]) not in CONTAINERS
            and not hasattr(type(context.namespace[name]), "__array__")
        }
        known.update((key, place) for key, (_, place) in referred.items())
        context.kept["imported objects"] = known
        context.kept["imported types"] = {type(v) for v in _values(context, known)}
    return known


def _values(context: SaveContext, known: dict[int, Place]) -> Iterator[Any]:
    for value in list(context.namespace.values()):
        if id(value) in known:
            yield value
    for value, _ in referred.values():
        yield value


def has_reference(context: SaveContext, kind: type) -> bool:
    """Return whether an object of this type is saved as a reference."""
    references(context)
    return kind in context.kept["imported types"]


def aliases(namespace: dict[str, Any]) -> dict[str, Place]:
    """Return the variables that hold a container of an installed module.

    Other containers are saved with their content (`module_changes`).
    """
    return {
        name: place
        for name, place in find(namespace).items()
        if type(namespace[name]) in CONTAINERS and is_installed(place[0])
    }


def resolve(place: Place) -> Any:
    """Return the object at a place; raises `AttributeError` or `KeyError` if there is none."""
    module, attribute = place
    return getattr(sys.modules[module], attribute)


def put(owner: types.ModuleType, attribute: str, value: Any) -> None:
    """Set an attribute of a module; of a user's also in the modules that imported it from there."""
    before = vars(owner).get(attribute)
    setattr(owner, attribute, value)
    if before is value or type(before) is not type(value) or isinstance(value, _NO_OBJECT):
        return
    if is_installed(owner.__name__):
        return
    modules: dict[str, Any] = dict(sys.modules)
    for name, module in modules.items():
        if name == "__main__" or not isinstance(module, types.ModuleType) or is_installed(name):
            continue
        for other, content in list(vars(module).items()):
            if content is before:
                setattr(module, other, value)
