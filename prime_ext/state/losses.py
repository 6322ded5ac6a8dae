"""Which of the values that were loaded together hold placeholders."""

from __future__ import annotations

import io
from typing import Any

from .pickling import ComponentPickler, Loss, SaveContext
from .unrestorable import Unrestorable


class _Finder(ComponentPickler):
    """Meets every object that a value is made of; nothing of what it writes is used."""

    found: str = ""

    def reducer_override(self, value: Any) -> Any:
        lost = isinstance(value, Unrestorable)
        if lost or (isinstance(value, type) and issubclass(value, Unrestorable)):
            self.found = self.found or getattr(value, "_why", "") or "a placeholder"
            return str, ()
        return super().reducer_override(value)


def placeholder_in(value: Any, namespace: dict[str, Any], otherwise: str) -> str:
    """Why something in a value is a placeholder; empty if nothing is.

    ``otherwise`` is the answer for a value that cannot be looked through.
    """
    finder = _Finder(io.BytesIO(), SaveContext(namespace))
    try:
        finder.dump(value)
    except Exception:
        return finder.found or otherwise
    return finder.found


class _Searcher(ComponentPickler):
    """Meets every object that a value is made of, and tells which of those lost are among them."""

    lost: dict[int, Loss]  # type: ignore[assignment]

    def reducer_override(self, value: Any) -> Any:
        loss = self.lost.get(id(value))
        if loss is not None:
            self.losses.append(loss)
            return str, ()
        return super().reducer_override(value)


def losses_in(value: Any, context: SaveContext, lost: list[tuple[Any, Loss]]) -> list[Loss] | None:
    """Those of the objects lost from a component that one value of it holds; None if unknown."""
    searcher = _Searcher(io.BytesIO(), context)
    searcher.lost = {id(found): loss for found, loss in lost}
    try:
        searcher.dump(value)
    except Exception:
        return None
    return searcher.losses
