"""The source of the cells that have run, and the submodules that they imported."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from . import history
from .namespace import shell

_LONGEST = 100_000


def texts(namespace: dict[str, Any]) -> Iterator[str]:
    """Yield the source of all cells run in IPython's namespace, also those not in the history."""
    found = shell()
    if found is None or found.user_ns is not namespace:
        return
    yield from history.earlier
    yield from found.history_manager.input_hist_parsed
    for name in list(getattr(found.compile, "_filename_map", ())):
        entry = linecache.cache.get(name)
        if entry is not None and len(entry) == 4:
            yield "".join(entry[2])


def mention(namespace: dict[str, Any], *parts: str) -> bool:
    """Return whether a cell contains one of the texts."""
    return any(part in text for text in texts(namespace) for part in parts)


def parsed(text: str) -> list[ast.AST]:
    """Return all AST nodes of a cell; none if it is not Python or longer than `_LONGEST`."""
    try:
        return list(ast.walk(ast.parse(text))) if len(text) <= _LONGEST else []
    except (SyntaxError, ValueError, RecursionError):
        return []


def dotted(node: ast.AST) -> str:
    """Return an attribute chain as ``a.b.c``; a leading dot if its first part is not a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def submodules(namespace: dict[str, Any]) -> list[str]:
    """Return submodules used through their package, as after ``import xml.dom.minidom``.

    The namespace refers only to the package, and importing that does not always import them.
    """
    named = {name for text in texts(namespace) for name in _imported_in(text)}
    return sorted(
        name
        for name in named
        if name in sys.modules
        and namespace.get(name.partition(".")[0]) is sys.modules.get(name.partition(".")[0])
    )


@functools.cache
def _imported_in(text: str) -> frozenset[str]:
    if "import " not in text:
        return frozenset()
    return frozenset(
        alias.name
        for node in parsed(text)
        if isinstance(node, ast.Import)
        for alias in node.names
        if "." in alias.name and alias.asname is None
    )
