"""Recipes: which cell assigned a name and what the cell reads, found without running anything."""

from __future__ import annotations

import ast
import functools
from collections.abc import Container
from typing import Any

from . import history
from .format import Manifest
from .namespace import shell
from .pickling import safe_repr
from .plans import module_of
from .report import DEGRADED, SKIPPED, Recipe, Report

_MAX_SOURCE = 4000


class Recipes:
    """The recipes of a live namespace. The history is parsed once, at the first call of `of`."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._makers: dict[str, str] | None = None

    def of(self, name: str) -> Recipe:
        """Return the recipe of one name."""
        if self._makers is None:
            found = shell()
            manager = getattr(found, "history_manager", None)
            cells: list[str] = []
            if manager is not None and found.user_ns is self._namespace:
                cells = [*history.earlier, *manager.input_hist_parsed]
            self._makers = makers(cells)
        value = self._namespace.get(name)
        source = self._makers.get(name)
        return Recipe(
            type=type_name(value),
            repr=safe_repr(value),
            source=source,
            depends=[] if source is None else reads(source, name, self._namespace),
        )


def complete(report: Report, manifest: Manifest, cells: list[str]) -> None:
    """Add recipes for the names that were saved without one and lost only while loading."""
    made_by = makers(cells)
    for name, status in report.names.items():
        if status.status in (DEGRADED, SKIPPED) and status.recipe is None:
            source = made_by.get(name)
            status.recipe = Recipe(
                type=status.type,
                source=source,
                depends=[] if source is None else reads(source, name, manifest.names),
            )


def makers(cells: list[str]) -> dict[str, str]:
    """Return name → source of the last cell that assigned it."""
    return {name: cell[:_MAX_SOURCE] for cell in cells for name in _assigned(cell)}


@functools.lru_cache(maxsize=4096)
def _assigned(cell: str) -> frozenset[str]:
    return frozenset(assigned_names(cell))


def reads(source: str, own: str, known: Container[str]) -> list[str]:
    """Return the names among ``known`` that a cell reads, without ``own``, sorted."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    read = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return sorted(name for name in read if name in known and name != own)


def assigned_names(source: str) -> set[str]:
    """Return the names that a cell binds at its top level, also in loops and other blocks."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    found: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not isinstance(node, ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))
    return found


def type_name(value: Any) -> str:
    """Return the qualified name of the value's type, without the module for built-in types."""
    kind = type(value)
    module = module_of(kind)
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
