"""Options of modules of the standard library, which a notebook sets for the whole process."""

from __future__ import annotations

import csv
import gc
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from . import cells
from .namespace import current_namespace

_DIALECTS_OF_CSV = frozenset({"excel", "excel-tab", "unix"})
_DIALECT = (
    "delimiter",
    "doublequote",
    "escapechar",
    "lineterminator",
    "quotechar",
    "quoting",
    "skipinitialspace",
    "strict",
)


def dialect_fields(dialect: Any) -> dict[str, Any]:
    """Return the parameters of a dialect of `csv`, as `csv.register_dialect` takes them."""
    return {name: getattr(dialect, name) for name in _DIALECT}


def _read_csv() -> dict[str, Any]:
    own = set(csv.list_dialects()) - _DIALECTS_OF_CSV
    return {
        "dialects": {name: dialect_fields(csv.get_dialect(name)) for name in own},
        "field_size_limit": csv.field_size_limit(),
    }


def _set_csv(state: dict[str, Any]) -> None:
    for name, fields in state["dialects"].items():
        csv.register_dialect(name, **fields)
    csv.field_size_limit(state["field_size_limit"])


def _read_gc() -> tuple[int, ...] | None:
    # The defaults depend on the version, so they are kept only if the notebook has changed them.
    return gc.get_threshold() if cells.mention(current_namespace(), "set_threshold") else None


def _set_gc(thresholds: tuple[int, ...]) -> None:
    gc.set_threshold(*thresholds)


_LIMITS = {"int_max_str_digits": "set_int_max_str_digits", "switchinterval": "setswitchinterval"}
_USUAL = {"int_max_str_digits": 4300, "switchinterval": 0.005}


def _read_sys() -> dict[str, Any]:
    found = {"switchinterval": sys.getswitchinterval()}
    if hasattr(sys, "get_int_max_str_digits"):
        found["int_max_str_digits"] = sys.get_int_max_str_digits()
    return {name: value for name, value in found.items() if value != _USUAL[name]}


def _set_sys(limits: dict[str, Any]) -> None:
    for name, value in limits.items():
        if hasattr(sys, _LIMITS[name]):
            getattr(sys, _LIMITS[name])(value)


def _set_time_zone(names: tuple[str, str]) -> None:
    """Make C's functions read ``TZ``, which has been restored, if the notebook had done that."""
    if time.tzname != names and hasattr(time, "tzset"):
        time.tzset()


OPTIONS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "csv": (_read_csv, _set_csv),
    "gc": (_read_gc, _set_gc),
    "socket": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    "sys": (_read_sys, _set_sys),
    "time": (lambda: time.tzname, _set_time_zone),
}
"""Module → how to read its options as plain data, and how to set them."""
