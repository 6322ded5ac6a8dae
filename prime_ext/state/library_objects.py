"""What libraries lend to the objects they make: a default list, an empty path, a constant.

Two frames hold the same list of ``NDFrame``, two figures the same path of ``MarkerStyle``. That
says nothing about the frames or the figures. Were it taken for sharing, all frames of a notebook
would be one component, and a change to one of them would write them all.
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
"""Objects that a library's constant may consist of; what is larger may well hold the user's."""

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
    """Whether an object is known to be a library's, or a part of one."""
    return id(shared) in context.lent


def lend(context: SaveContext, ids: Iterable[int]) -> None:
    """Find out which of these objects, all met while pickling, are a library's own."""
    if not ids:
        return
    _survey(context)
    for found in [context.lendable[i] for i in ids if i in context.lendable]:
        if id(found) not in context.lent:
            context.lent.update(_parts(context, found))


def _survey(context: SaveContext) -> None:
    """Note what the classes met so far, and the modules they are in, keep as attributes."""
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
    """Whether a module is part of an installation, and not one that the user works on."""
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
    """All objects a library's object is made of; none if it may hold something of the user's."""
    pickler = ComponentPickler(io.BytesIO(), context)
    try:
        pickler.dump(found)
    except Exception:
        return {}
    met = pickler.memo.copy()
    if len(met) > _MOST_PARTS or pickler.used_classes or pickler.losses:
        return {}
    return {id(found): found, **{i: value for i, (_, value) in met.items()}}
