"""Functions that the notebook has given to libraries: formats of numbers in NumPy and pandas, its
magics in IPython, and what it has registered (`registered_functions`).

They are saved as the patches of modules are (`patches`), so that they may use the notebook's names,
and be changed through them. The place of such a setting is ``"table:name"``.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from .namespace import shell
from .registered_functions import TABLES, numbered

_IPYTHON = "magics of IPython"
_NUMPY = "printoptions of numpy"
_PANDAS = "options of pandas"


def find(namespace: dict[str, Any]) -> Iterator[str]:
    """Yield the places of functions that the notebook has set."""
    if "numpy" in sys.modules:
        options = sys.modules["numpy"].get_printoptions()
        yield from (f"{_NUMPY}:{name}" for name in _FORMATS if options.get(name))
    if "pandas" in sys.modules:
        config: Any = importlib.import_module("pandas._config.config")
        for name, option in config._registered_options.items():
            if name not in config._deprecated_options:
                value = config.get_option(name)
                if callable(value) and value is not option.defval:
                    yield f"{_PANDAS}:{name}"
    found = shell()
    if found is not None and found.user_ns is namespace:
        for kind, magics in found.magics_manager.magics.items():
            for name, magic in magics.items():
                if _is_own(magic, namespace):
                    yield f"{_IPYTHON}:{kind} {name}"
    _found.clear()
    for table, (entries, _) in TABLES.items():
        for name, value in numbered(entries(namespace)).items():
            _found[f"{table}:{name}"] = value
    yield from _found


_found: dict[str, Any] = {}
"""Place → value, of what the last `find` has found registered."""


_FORMATS = ("formatter", "override_repr")


def _is_own(magic: Any, namespace: dict[str, Any]) -> bool:
    if isinstance(magic, types.FunctionType):
        return magic.__globals__ is namespace
    return type(getattr(magic, "__self__", None)).__module__ == "__main__"


def is_place(where: str) -> bool:
    """Return whether it is the place of such a function, and not one in a module."""
    table = where.partition(":")[0]
    return table in _TABLES or table in TABLES


def value_at(where: str) -> Any:
    """Return the function at a place that `find` has returned."""
    table, _, name = where.partition(":")
    return _found[where] if table in TABLES else _TABLES[table][0](name)


def put(where: str, value: Any) -> None:
    """Set the function at a place again."""
    table, _, name = where.partition(":")
    (TABLES if table in TABLES else _TABLES)[table][1](name, value)


def _magic(place: str) -> Any:
    kind, name = place.split(" ", 1)
    return shell().magics_manager.magics[kind][name]


def _put_magic(place: str, magic: Any) -> None:
    kind, name = place.split(" ", 1)
    found = shell()
    if found is not None:
        found.magics_manager.magics[kind][name] = magic


def _put_format(name: str, value: Any) -> None:
    numpy: Any = importlib.import_module("numpy")
    # Whatever `set_printoptions` is not given of these, it resets.
    kept = {n: v for n, v in numpy.get_printoptions().items() if n in _FORMATS}
    numpy.set_printoptions(**{**kept, name: value})


_TABLES: dict[str, tuple[Callable[[str], Any], Callable[[str, Any], None]]] = {
    _IPYTHON: (_magic, _put_magic),
    _NUMPY: (lambda name: sys.modules["numpy"].get_printoptions()[name], _put_format),
    _PANDAS: (
        lambda name: sys.modules["pandas"].get_option(name),
        lambda name, value: importlib.import_module("pandas").set_option(name, value),
    ),
}
