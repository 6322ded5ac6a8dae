"""Objects of libraries that many user objects refer to: a default list, an empty path, a constant.

Two data frames hold the same list of ``NDFrame``, two figures the same path of ``MarkerStyle``.
That does not make the frames or the figures belong together. If such *lent* objects counted as
shared, all frames of a notebook would be one component, and a change to one would write them all.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Iterable
from itertools import islice
from typing import Any

from .pickling import ComponentPickler, SaveContext
from .plans import module_of
from .reducers_functions import module_is_importable

_MOST_PARTS = 100
"""Largest number of objects in a library's constant; a larger one may well hold user objects."""

_MOST_SETTINGS = 2000
_NO_OBJECT = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    str,
    int,
    float,
)


def is_lent(context: SaveContext, shared: Any) -> bool:
    """Return whether an object is known to be a library's own, or a part of one."""
    return id(shared) in context.lent


def lend(context: SaveContext, ids: Iterable[int]) -> None:
    """Find out which objects, among those with these ids, are a library's own."""
    if not ids:
        return
    _survey(context)
    for found in [context.lendable[i] for i in ids if i in context.lendable]:
        if id(found) not in context.lent:
            context.lent.update(_parts(context, found))


def _survey(context: SaveContext) -> None:
    """Collect the attributes of the library classes pickled so far, and of their modules."""
    new = list(islice(context.plans, context.planned, None))
    context.planned = len(context.plans)
    for kind in new:
        for base in type.mro(kind) if kind is not type else ():
            name = module_of(base)
            if base in context.surveyed or not _is_of_library(context, name):
                continue
            context.surveyed.add(base)
            _note(context, vars(base))
            for module in (name, name.partition(".")[0]):
                if module in sys.modules and module not in context.surveyed:
                    context.surveyed.add(module)
                    _note(context, vars(sys.modules[module]))


def _is_of_library(context: SaveContext, name: str) -> bool:
    """Return whether a module is part of an installed library, not a file of the user's."""
    module = sys.modules.get(name)
    if module is None or name in ("__main__", "builtins"):
        return False
    registrar = ComponentPickler(io.BytesIO(), context)
    return module_is_importable(registrar, module) and name not in context.modules


def _note(context: SaveContext, attributes: Any) -> None:
    for name, value in list(attributes.items()):
        if isinstance(value, _NO_OBJECT) or name in ("__dict__", "__builtins__"):
            continue
        context.lendable[id(value)] = value
        if isinstance(value, dict) and len(value) <= _MOST_SETTINGS:  # as matplotlib.rcParams
            for setting in dict.values(value):
                if isinstance(setting, (list, dict, set)):
                    context.lendable[id(setting)] = setting


def _parts(context: SaveContext, found: Any) -> dict[int, Any]:
    """Return all objects that a library's object contains; none if it may hold user objects."""
    pickler = ComponentPickler(io.BytesIO(), context)
    try:
        pickler.dump(found)
    except Exception:
        return {}
    met = pickler.memo.copy()
    if len(met) > _MOST_PARTS or pickler.used_classes or pickler.losses:
        return {}
    return {id(found): found, **{i: value for i, (_, value) in met.items()}}
