"""Functions and classes that the notebook has registered with Python, IPython and libraries:
handlers of signals, callbacks of IPython, reducers of `copyreg`, classes of an ABC, cases of a
generic function, adapters of SQLite.

None of these is a variable. Each kind is a *table*: what the notebook has put there is found, saved
as the patches of modules are (`patches`), and put there again.
"""

from __future__ import annotations

import ast
import copyreg
import functools
import importlib
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import cells
from .classes import registered_with
from .deadline import users_handler
from .namespace import shell

Found = Iterator[tuple[str, Any]]
"""Names in a table, and values; several entries may have the same name."""


def _is_own(value: Any) -> bool:
    """Return whether it is a function, method or class of the notebook."""
    value = getattr(value, "__func__", value)
    return getattr(value, "__module__", None) == "__main__"


def _title(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def numbered(found: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries under unique names: the second ``a`` is ``a 2``."""
    result: dict[str, Any] = {}
    for name, value in found:
        unique, count = name, 1
        while unique in result:
            count += 1
            unique = f"{name} {count}"
        result[unique] = value
    return result


# --- Python ---------------------------------------------------------------------------------


_IGNORED_FROM_THE_START = ("SIGPIPE", "SIGXFSZ", "SIGXFZ")
"""Signals that Python ignores unless told otherwise."""


def _handlers(namespace: dict[str, Any]) -> Found:
    # A signal may also be ignored because the parent process did, as with nohup.
    may_differ = cells.mention(namespace, "SIG_IGN", "SIG_DFL")
    for number in signal.Signals:
        handler = users_handler(number)
        if _is_own(handler) or (may_differ and _is_changed(number, handler)):
            yield number.name, handler


def _is_changed(number: signal.Signals, handler: Any) -> bool:
    """Return whether a signal is ignored, or ends the process, though it does not in Python."""
    if number == signal.SIGINT:  # Jupyter changes this one for each cell
        return False
    usual = signal.SIG_IGN if number.name in _IGNORED_FROM_THE_START else signal.SIG_DFL
    return handler in (signal.SIG_IGN, signal.SIG_DFL) and handler != usual


def _put_handler(name: str, handler: Any) -> None:
    signal.signal(getattr(signal, name), handler)


def _reducers(_namespace: dict[str, Any]) -> Found:
    for kind, reducer in list(copyreg.dispatch_table.items()):
        if _is_own(kind) or _is_own(reducer):
            yield _title(kind), (kind, reducer)


def _put_reducer(_name: str, value: Any) -> None:
    copyreg.pickle(*value)


def _owners(namespace: dict[str, Any]) -> Iterator[Any]:
    """Yield what the notebook calls ``register`` of, as in ``numbers.Number.register(Mine)``."""
    seen: set[int] = set()
    for chain in sorted({chain for text in cells.texts(namespace) for chain in _registering(text)}):
        first, *path = chain.split(".")
        owner = namespace.get(first)
        for part in path:
            owner = vars(owner).get(part) if isinstance(owner, (types.ModuleType, type)) else None
        if owner is not None and id(owner) not in seen and not _is_own(owner):
            seen.add(id(owner))
            yield owner


@functools.cache
def _registering(cell: str) -> frozenset[str]:
    """Return the dotted names before ``.register`` in a cell."""
    if ".register" not in cell:
        return frozenset()
    return frozenset(
        cells.dotted(node.value)
        for node in cells.parsed(cell)
        if isinstance(node, ast.Attribute) and node.attr == "register"
    )


def _virtual_subclasses(namespace: dict[str, Any]) -> Found:
    for owner in _owners(namespace):
        for kind in sorted(filter(_is_own, registered_with(owner)), key=_title):
            yield f"{_title(owner)} {_title(kind)}", (owner, kind)


def _put_subclass(_name: str, value: Any) -> None:
    owner, kind = value
    owner.register(kind)


def _cases(namespace: dict[str, Any]) -> Found:
    for owner in _owners(namespace):
        registry = getattr(owner, "registry", None)
        if isinstance(owner, types.FunctionType) and isinstance(registry, types.MappingProxyType):
            for kind, function in registry.items():
                if _is_own(function):
                    yield f"{_title(owner)} {_title(kind)}", (owner, kind, function)


def _put_case(_name: str, value: Any) -> None:
    owner, kind, function = value
    owner.register(kind, function)


def _adapters(_namespace: dict[str, Any]) -> Found:
    sqlite: Any = sys.modules.get("sqlite3")
    for (kind, _), adapter in list(getattr(sqlite, "adapters", {}).items()):
        if _is_own(adapter):
            yield f"adapter of {_title(kind)}", (kind, adapter)
    for name, converter in list(getattr(sqlite, "converters", {}).items()):
        if _is_own(converter):
            yield f"converter of {name}", (name, converter)


def _put_adapter(name: str, value: Any) -> None:
    kind = name.partition(" ")[0]
    getattr(importlib.import_module("sqlite3"), f"register_{kind}")(*value)


# --- IPython --------------------------------------------------------------------------------

_TRANSFORMERS = ("ast_transformers", "input_transformers_cleanup", "input_transformers_post")


def _shell_of(namespace: dict[str, Any]) -> Any:
    found = shell()
    return found if found is not None and found.user_ns is namespace else None


def _callbacks(namespace: dict[str, Any]) -> Found:
    found = _shell_of(namespace)
    for event, callbacks in found.events.callbacks.items() if found is not None else ():
        for callback in callbacks:
            if _is_own(callback):
                yield event, callback


def _put_callback(name: str, callback: Any) -> None:
    found = shell()
    if found is not None:
        found.events.register(name.partition(" ")[0], callback)


def _transformers(namespace: dict[str, Any]) -> Found:
    found = _shell_of(namespace)
    for name in _TRANSFORMERS if found is not None else ():
        for transformer in getattr(found, name, ()):
            if _is_own(transformer) or _is_own(type(transformer)):
                yield name, transformer


def _put_transformer(name: str, transformer: Any) -> None:
    found = shell()
    if found is not None:
        getattr(found, name.partition(" ")[0]).append(transformer)


TABLES: dict[str, tuple[Callable[[dict[str, Any]], Found], Callable[[str, Any], None]]] = {
    "handlers of signals": (_handlers, _put_handler),
    "reducers of copyreg": (_reducers, _put_reducer),
    "registered subclasses": (_virtual_subclasses, _put_subclass),
    "cases of generic functions": (_cases, _put_case),
    "functions of sqlite3": (_adapters, _put_adapter),
    "callbacks of IPython": (_callbacks, _put_callback),
    "transformers of IPython": (_transformers, _put_transformer),
}
"""Table → how to find the notebook's entries in it, and how to put one there again."""
