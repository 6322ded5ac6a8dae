"""The live inventory: a description of the namespace, made without running the user's code."""

from __future__ import annotations

import sys
import types
from typing import Any

from .namespace import current_namespace, user_names
from .plans import inherits, module_of
from .recipes import type_name

_REPR_LIMIT = 120
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_SIZED = (list, tuple, dict, set, frozenset, bytearray, range)


def inventory(namespace: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return one entry per user name.

    An entry has ``name``, ``type``, ``shape`` (a list of int, or None), ``length`` (or None),
    ``size`` (bytes, or None if unknown) and ``repr``. Only objects of built-in types and of
    well-known libraries are inspected. An object of a user-defined class is described by its class
    alone, because its ``__len__`` or ``__repr__`` may do anything.
    """
    namespace = current_namespace() if namespace is None else namespace
    return [describe_value(name, namespace[name]) for name in user_names(namespace)]


def describe_value(name: str, value: Any) -> dict[str, Any]:
    """Return the entry of one name."""
    entry: dict[str, Any] = {
        "name": name,
        "type": type_name(value),
        "shape": None,
        "length": None,
        "size": None,
        "repr": "",
    }
    try:
        if type(value) in _PLAIN or type(value) in _SIZED:
            _describe_builtin(entry, value)
        elif isinstance(value, types.ModuleType):
            entry["repr"] = f"module {value.__name__}"
        elif isinstance(value, types.FunctionType):
            entry["repr"] = _signature(value)
        elif isinstance(value, type):
            entry["repr"] = f"class {value.__qualname__}"
        else:
            _describe_library(entry, value)
    except Exception:  # noqa: S110
        pass  # a thread may be changing the object right now; the entry still has the type
    return entry


def _describe_builtin(entry: dict[str, Any], value: Any) -> None:
    entry["size"] = sys.getsizeof(value)
    if type(value) in _PLAIN:
        if isinstance(value, (str, bytes)):
            entry["length"] = len(value)
            value = value[:_REPR_LIMIT]
        entry["repr"] = _cut(repr(value))
        return
    entry["length"] = len(value)
    if len(value) <= 20 and all(type(item) in _PLAIN for item in value):
        values = value.values() if type(value) is dict else ()
        if all(type(item) in _PLAIN for item in values):
            entry["repr"] = _cut(repr(value))
            return
    entry["repr"] = f"{type(value).__name__} of {len(value)}"


def _signature(function: types.FunctionType) -> str:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    return _cut(f"def {function.__name__}({', '.join(code.co_varnames[:count])})")


def _describe_library(entry: dict[str, Any], value: Any) -> None:
    library = module_of(type(value)).partition(".")[0]
    if library == "numpy" and hasattr(value, "dtype"):
        entry["shape"] = [int(extent) for extent in value.shape]
        entry["size"] = int(value.nbytes)
        entry["repr"] = f"{value.dtype} array" if value.shape else _cut(repr(value))
    elif library in ("pandas", "polars", "pyarrow") and hasattr(value, "shape"):
        entry["shape"] = [int(extent) for extent in value.shape]
        entry["size"] = _frame_size(value)
        entry["repr"] = _columns(value)
    elif library == "torch" and hasattr(value, "dtype") and hasattr(value, "shape"):
        entry["shape"] = [int(extent) for extent in value.shape]
        entry["size"] = int(value.element_size() * value.nelement())
        entry["repr"] = f"{value.dtype} tensor"
    elif library == "scipy" and hasattr(value, "nnz"):
        entry["shape"] = [int(extent) for extent in value.shape]
        entry["repr"] = f"{value.dtype} sparse, {value.nnz} stored"
    elif inherits(type(value), "__repr__", object):
        entry["repr"] = _cut(object.__repr__(value))


def _frame_size(value: Any) -> int | None:
    if hasattr(value, "memory_usage"):
        usage = value.memory_usage()
        return int(usage if isinstance(usage, int) else usage.sum())
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if hasattr(value, "estimated_size"):
        return int(value.estimated_size())
    return None


def _columns(value: Any) -> str:
    columns = getattr(value, "columns", None)
    if columns is None:
        return _cut(str(getattr(value, "dtype", getattr(value, "type", ""))))
    dtypes = getattr(value, "dtypes", None)
    if dtypes is None:
        return _cut(", ".join(value.schema.names))
    return _cut(", ".join(f"{name}: {kind}" for name, kind in zip(columns, list(dtypes))))  # noqa: B905


def _cut(text: str) -> str:
    return text if len(text) <= _REPR_LIMIT else text[: _REPR_LIMIT - 1] + "…"
