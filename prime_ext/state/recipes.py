"""How a name came about, told without running anything."""

from __future__ import annotations

import ast
from typing import Any

from .namespace import shell
from .pickling import safe_repr
from .plans import module_of
from .report import Recipe

_MAX_SOURCE = 4000


class Recipes:
    """Looks up the cells that assigned names; parses the history once, when first asked."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._cells: dict[str, str] | None = None

    def of(self, name: str) -> Recipe:
        """The recipe of one name."""
        value = self._namespace.get(name)
        source = self._assignments().get(name)
        return Recipe(
            type=type_name(value),
            repr=safe_repr(value),
            source=source,
            depends=[] if source is None else self._reads(source, name),
        )

    def _assignments(self) -> dict[str, str]:
        if self._cells is None:
            self._cells = {}
            found = shell()
            history = getattr(found, "history_manager", None)
            live = found is not None and found.user_ns is self._namespace
            for cell in list(history.input_hist_parsed) if live and history is not None else []:
                for name in assigned_names(cell):
                    self._cells[name] = cell[:_MAX_SOURCE]
        return self._cells

    def _reads(self, source: str, own: str) -> list[str]:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return []
        read = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        return sorted(name for name in read if name in self._namespace and name != own)


def assigned_names(source: str) -> set[str]:
    """Names that a cell binds at its top level (also in loops, ``with`` and ``if`` blocks)."""
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
    """Qualified name of the value's type; plain for built-in types."""
    kind = type(value)
    module = module_of(kind)
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
