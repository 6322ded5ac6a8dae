"""Deciding which shared objects make two roots one component."""

from __future__ import annotations

import copyreg
import datetime
import decimal
import enum
import fractions
import io
import logging
import re
import sys
import types
import typing
import uuid
import zoneinfo
from collections.abc import Iterable
from typing import Any

from . import library_objects, nans, plans
from .pickling import ComponentPickler, SaveContext
from .risk import StartOver

LARGE = 64 * 1024
"""Size in bytes from which a shared ``bytes`` object is worth storing only once."""

_MOST_CANDIDATES = 100_000
_BYTES_A_CANDIDATE = 64
_PLAIN = (str, bytes, int, float, complex)


def memo_of(pickler: Any) -> dict[int, tuple[int, Any]]:
    """Return id → (number, object) for every object that the pickler has pickled."""
    memo = pickler.memo
    copied: dict[int, tuple[int, Any]] = memo if isinstance(memo, dict) else memo.copy()
    return copied if pickler.nans is None else {**copied, **pickler.nans.own()}


def is_apart(
    context: SaveContext, large: Any, nbytes: int, others: Iterable[dict[int, tuple[int, Any]]]
) -> bool:
    """Return true if it is certain that a large pickler shares no object with the other memos.

    Listing the memo of the large pickler would cost more than the pickling did. Instead its memo is
    cloned, which is quick, and the objects of the other memos are pickled with the clone: an object
    in the memo comes out as a mere reference. Children are pickled before their parents, so each
    object costs only its own few bytes. False means that it is not certain, or that listing the
    memo costs less. ``nbytes`` is the number of bytes that the large pickler has written.
    """
    if not isinstance(large, ComponentPickler):
        return False
    file = io.BytesIO()
    probe = ComponentPickler(file, context)
    probe.memo = large.memo
    candidates = 0
    own_nans = large.nans.own() if large.nans is not None else {}
    for other in others:
        if not own_nans.keys().isdisjoint(other):
            return False
        found = [pair for pair in other.values() if type(pair[1]) not in _PLAIN]
        candidates += len(found)
        if candidates > min(_MOST_CANDIDATES, nbytes // _BYTES_A_CANDIDATE):
            return False
        for _, value in sorted(found, key=lambda pair: pair[0], reverse=True):
            file.seek(0)
            file.truncate()
            try:
                probe.dump(value)
            except (Exception, StartOver):
                return False
            # A mere reference: the protocol (2 bytes), BINGET or LONG_BINGET, and STOP.
            if file.tell() <= 8 and file.getbuffer()[2] in b"hj" and matters(context, value):
                return False
        probe.buffers.clear()
    return True


_VALUES: tuple[type, ...] = (
    str,
    int,
    float,
    complex,
    type(None),
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.GenericAlias,
    vars(typing)["_GenericAlias"],
    *((types.UnionType,) if hasattr(types, "UnionType") else ()),
    enum.Enum,
    re.Pattern,
    datetime.date,
    datetime.time,
    datetime.tzinfo,
    datetime.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    zoneinfo.ZoneInfo,
    uuid.UUID,
)


def matters(context: SaveContext, shared: Any) -> bool:
    """Return whether roots that share this object must share it after a restore too.

    That is so for mutable objects and for large ``bytes``, but not for plain values, objects of
    libraries, and objects that are saved by name.
    """
    if id(shared) in context.references:
        return False
    if isinstance(shared, _VALUES):
        return nans.is_nan(shared)
    kind = type(shared)
    if kind is bytes:
        return len(shared) >= LARGE
    if kind is frozenset or (isinstance(shared, tuple) and not hasattr(shared, "__dict__")):
        return any(matters(context, item) for item in shared)
    if kind is slice:
        return any(matters(context, item) for item in (shared.start, shared.stop, shared.step))
    if library_objects.is_lent(context, shared):
        return False
    if kind in (list, dict, set, bytearray, types.FunctionType, types.CellType):
        return True
    if _is_value_of_library(shared):
        return False
    if context.plans.get(kind, plans.default) is not plans.default:
        return True  # saved by value: objects saved by name are in `references` by now
    return not _is_named(shared)


def _is_value_of_library(shared: Any) -> bool:
    """Return whether it is a NumPy dtype or a pandas period, whose identity does not matter."""
    if "numpy" in sys.modules and isinstance(shared, sys.modules["numpy"].dtype):
        return True
    kind = type(shared)
    return kind.__name__ == "Period" and plans.module_of(kind).partition(".")[0] == "pandas"


def _is_named(shared: Any) -> bool:
    """Return whether loading looks the object up by its name, as with loggers and ufuncs.

    An object that is made again from plain arguments counts too if it is hashed by its value, like
    a path. Any other, such as an ``itertools.count``, may change, and its users have to see that.
    """
    kind = type(shared)
    if plans.reduces_by_default(kind):
        return False
    try:
        reducer = copyreg.dispatch_table.get(kind)
        reduction = shared.__reduce_ex__(4) if reducer is None else reducer(shared)
    except Exception:
        return False
    if isinstance(reduction, str):
        return True
    if len(reduction) != 2 or not all(
        isinstance(item, (str, int, type(None))) for item in reduction[1]
    ):
        return False
    hashed: Any = kind.__hash__
    return isinstance(shared, logging.Logger) or hashed not in (object.__hash__, None)
