"""Instances of msgspec structs that the notebook defined."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from . import structs
from .classes import hooks_held_back, saved_key
from .pickling import Reducing
from .plans import reduces
from .restorers import current, restorer
from .structs import POST_INIT


@reduces("msgspec:Struct", subclasses=True)
def reduce_struct(pickler: Reducing, value: Any) -> Any:
    """Reduce a struct without msgspec's own reduction, which calls ``__post_init__`` again."""
    cls = type(value)
    try:
        if saved_key(pickler, cls) is None:
            return NotImplemented
    except pickle.PicklingError as error:
        return pickler.lose(value, str(error))
    try:
        fields = {name: getattr(value, name) for name in cls.__struct_fields__}
    except AttributeError as error:
        return pickler.lose(value, f"a field has no value: {error}")
    # Leave out fields that hold the default object itself: msgspec, when it encodes, recognizes a
    # default by identity.
    fields = {n: content for n, content in fields.items() if not _is_default(cls, n, content)}
    more = getattr(value, "__dict__", None) or None
    return restore_struct, (cls,), (fields, more), None, None, set_struct


def _is_default(cls: Any, name: str, content: Any) -> bool:
    found = structs.default(cls, name)
    return bool(found) and found[0] == "default" and found[1] is content


@restorer
def restore_struct(cls: Any) -> Any:
    twins = current().twins
    if cls not in twins:
        # A subclass whose `__post_init__` does nothing.
        body = {"__module__": cls.__module__, POST_INIT: lambda _self: None}
        with hooks_held_back((cls,)):
            twins[cls] = type(cls).__new__(type(cls), cls.__name__, (cls,), body)
    # Made with lists, because an instance made of plain values would not be tracked by the garbage
    # collector.
    value = twins[cls](**{name: [] for name in cls.__struct_fields__})
    vars(object)["__class__"].__set__(value, cls)
    return value


@restorer
def set_struct(value: Any, state: tuple[dict[str, Any], dict[str, Any] | None]) -> None:
    fields, more = state
    set_field = importlib.import_module("msgspec.structs").force_setattr
    for name in type(value).__struct_fields__:
        content = fields[name] if name in fields else structs.default(type(value), name)[1]
        set_field(value, name, content)
    if more:
        value.__dict__.update(more)
