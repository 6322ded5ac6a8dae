"""The notebook's patches to modules: functions it replaced, methods it added, values it set.

A patched function is found by its globals: it belongs to the notebook, but is an attribute of a
module or of a class in one. Only modules that the namespace refers to are searched. Other values
are found by `module_changes`, functions among the settings of libraries by `function_settings`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

from . import function_settings, imported_objects, module_changes
from .pickling import import_module


def find(namespace: dict[str, Any]) -> list[str]:
    """Return the places of patches: ``"module:attribute"`` or ``"module:Class.attribute"``.

    ``[]`` at the end means that the container there was changed in place.
    """
    found: list[str] = []
    seen: set[int] = set()
    for module in list(namespace.values()):
        if not isinstance(module, types.ModuleType) or id(module) in seen:
            continue
        seen.add(id(module))
        if sys.modules.get(module.__name__) is module and module.__name__ != "__main__":
            found.extend(f"{module.__name__}:{where}" for where in _in_module(module, namespace))
    found.extend(module_changes.find(namespace)[0])
    found.extend(function_settings.find(namespace))
    return found


def _in_module(module: types.ModuleType, namespace: dict[str, Any]) -> Iterator[str]:
    for name, value in list(vars(module).items()):
        if _is_own(value, namespace):
            yield name
        elif isinstance(value, type) and value.__module__.startswith(module.__name__):
            for attribute, content in list(vars(value).items()):
                if _is_own(content, namespace):
                    yield f"{name}.{attribute}"


def _is_own(value: Any, namespace: dict[str, Any]) -> bool:
    return isinstance(value, types.FunctionType) and value.__globals__ is namespace


def value_at(where: str) -> Any:
    """Return the value at a place that `find` returned."""
    if function_settings.is_place(where):
        return function_settings.value_at(where)
    module, _, path = where.removesuffix("[]").partition(":")
    owner = sys.modules[module]
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return module_changes.content(owner, name)


def put(where: str, value: Any) -> None:
    """Apply a patch again, importing the module if necessary."""
    if function_settings.is_place(where):
        function_settings.put(where, value)
        return
    module, _, path = where.removesuffix("[]").partition(":")
    owner: Any = import_module(module, "")
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    module_changes.restored.add(where)
    if where.endswith("[]"):
        module_changes.fill(module_changes.content(owner, name), value)
    elif isinstance(owner, types.ModuleType):
        imported_objects.put(owner, name, value)
    else:
        setattr(owner, name, value)
