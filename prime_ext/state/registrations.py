"""The notebook's registrations with IPython, pandas, polars and xarray: formatters of types,
accessors of frames and datasets, and aliases of magics. They are stored in tables of those
libraries, not in variables."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from . import setup_calls
from .namespace import shell

_FRAMES = ("DataFrame", "Series", "Index")
_DATASETS = {"Dataset": "dataset", "DataArray": "dataarray", "DataTree": "datatree"}
_OF_POLARS = ("DataFrame", "LazyFrame", "Series", "Expr")

Registration = tuple[str, str, str, Any]
"""Kind (``formatter``, ``alias``, ``accessor``), place (MIME type, kind of magic, or class),
name or type, and the registered value; classes and functions by reference."""


def find(namespace: dict[str, Any]) -> tuple[list[Registration], list[str]]:
    """Return the registrations that a restore can repeat, and descriptions of those it cannot.

    The latter include what the notebook has set up by other calls (`setup_calls`).
    """
    kept: list[Registration] = []
    lost: list[str] = []
    for kind, where, name, what in _registered(namespace):
        if kind == "alias":
            kept.append((kind, where, name, what))
            continue
        held = _reference(name, namespace), _reference(what, namespace)
        if None in held:
            shown = name if isinstance(name, str) else name.__qualname__
            lost.append(describe((kind, where, shown, None)))
        else:
            kept.append((kind, where, str(held[0]), held[1]))
    return kept, lost + setup_calls.find(namespace)


def describe(registration: Registration) -> str:
    """Describe a registration, for a note to the user."""
    kind, where, name, _ = registration
    if kind == "formatter":
        return f"the {where} display of {name.removeprefix(':')}"
    return f"the accessor {where}.{name}" if kind == "accessor" else f"the magic {name}"


def put(registration: Registration, namespace: dict[str, Any]) -> None:
    """Repeat a registration; an accessor that exists already stays as it is."""
    kind, where, name, what = registration
    if kind == "accessor":
        if where.startswith("polars."):
            polars: Any = importlib.import_module("polars")
            owner = where.partition(".")[2]
            if name not in vars(getattr(polars, owner)):
                register = getattr(polars.api, f"register_{owner.lower()}_namespace")
                register(name)(_resolve(what, namespace))
            return
        if where in _DATASETS:
            xarray: Any = importlib.import_module("xarray")
            if not hasattr(getattr(xarray, where), name):
                register = getattr(xarray, f"register_{_DATASETS[where]}_accessor")
                register(name)(_resolve(what, namespace))
            return
        pandas: Any = importlib.import_module("pandas")
        owner = getattr(pandas, where)
        if name not in owner._accessors:
            register = getattr(pandas.api.extensions, f"register_{where.lower()}_accessor")
            register(name)(_resolve(what, namespace))
        return
    found = shell()
    if found is None:
        return
    if kind == "alias":
        found.magics_manager.register_alias(name, what[0], where, what[1])
    else:
        formatter = found.display_formatter.formatters[where]
        formatter.for_type(_resolve(name, namespace), _resolve(what, namespace))


def _registered(namespace: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    found = shell()
    if found is not None and found.user_ns is namespace:
        for mime, formatter in found.display_formatter.formatters.items():
            for kind, printer in list(formatter.type_printers.items()):
                if getattr(printer, "__globals__", None) is namespace:
                    yield "formatter", mime, kind, printer
        for kind, magics in found.magics_manager.magics.items():
            for name, magic in list(magics.items()):
                # IPython makes its own aliases in every process.
                if type(magic).__name__ == "MagicAlias" and name not in _ALIASES_OF_IPYTHON:
                    yield "alias", kind, name, (magic.magic_name, magic.magic_params)
    pandas: Any = sys.modules.get("pandas")
    for owner in _FRAMES if hasattr(pandas, "Index") else ():
        attributes = vars(getattr(pandas, owner))
        for name in sorted(getattr(pandas, owner)._accessors):
            accessor = getattr(attributes.get(name), "_accessor", None)
            if getattr(accessor, "__module__", "") == "__main__":
                yield "accessor", owner, name, accessor
    xarray: Any = sys.modules.get("xarray")
    for owner in _DATASETS if hasattr(xarray, "Dataset") else ():
        for name, held in list(vars(getattr(xarray, owner, object)).items()):
            accessor = getattr(held, "_accessor", None)
            if getattr(accessor, "__module__", "") == "__main__":
                yield "accessor", owner, name, accessor
    polars: Any = sys.modules.get("polars")
    for owner in _OF_POLARS if hasattr(polars, "Expr") else ():
        for name, held in list(vars(getattr(polars, owner)).items()):
            accessor = getattr(held, "_ns", None)
            if getattr(accessor, "__module__", "") == "__main__":
                yield "accessor", f"polars.{owner}", name, accessor


_ALIASES_OF_IPYTHON = frozenset({"ed", "hist", "rep", "SVG", "HTML", "file"})


def _reference(value: Any, namespace: dict[str, Any]) -> str | None:
    """Return ``":name"`` for a class or function in a variable, ``"module:name"`` for a library's.

    Strings are returned unchanged; None means that neither place holds the value.
    """
    if isinstance(value, str):
        return value
    name = getattr(value, "__qualname__", "")
    if namespace.get(name) is value:
        return f":{name}"
    module = getattr(value, "__module__", "")
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is value:
        return f"{module}:{name}"
    return None


def _resolve(reference: str, namespace: dict[str, Any]) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name) if module else namespace[name]
