"""Attributing placeholders and lost objects to the names of a component."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from . import classes, patches
from .pickling import ComponentPickler, Loss, SaveContext
from .risk import StartOver
from .unrestorable import Unrestorable


class _Finder(ComponentPickler):
    """Visits every object of a value and finds the first placeholder. Its output is not used."""

    found: str = ""

    def reducer_override(self, value: Any) -> Any:
        lost = isinstance(value, Unrestorable)
        if lost or (isinstance(value, type) and issubclass(value, Unrestorable)):
            self.found = self.found or getattr(value, "_why", "") or "a placeholder"
            return str, ()
        return super().reducer_override(value)


def placeholder_in(value: Any, namespace: dict[str, Any], otherwise: str) -> str:
    """Return the reason of the first placeholder in a value; an empty string if it has none.

    Returns ``otherwise`` for a value that cannot be pickled, and so not be searched.
    """
    finder = _Finder(io.BytesIO(), SaveContext(namespace))
    try:
        finder.dump(value)
    except Exception:
        return finder.found or otherwise
    return finder.found


@dataclass
class Share:
    """One root's part of its component's losses, notes and used classes."""

    losses: list[Loss]
    notes: list[str]
    classes: set[str]


class _Searcher(ComponentPickler):
    """Visits every object of a value and records the losses among them."""

    lost: dict[int, Loss]  # type: ignore[assignment]

    def reducer_override(self, value: Any) -> Any:
        loss = self.lost.get(id(value))
        if loss is not None:
            self.losses.append(loss)
            return str, ()
        return super().reducer_override(value)


def shares(
    context: SaveContext, roots: list[Any], lost: list[tuple[Any, Loss]], notes: list[str]
) -> dict[str, Share]:
    """Return the part that each name of a component has in its losses and notes.

    Losses and notes found in no root are attributed to every name. A name whose value cannot be
    searched is left out.
    """
    found = {root: _share(context, root, lost) for root in map(tuple, roots)}
    known = [share for share in found.values() if share is not None]
    placed = {id(loss) for share in known for loss in share.losses}
    told = {note for share in known for note in share.notes}
    others = [loss for _, loss in lost if id(loss) not in placed]
    untold = [note for note in notes if note not in told]
    result: dict[str, Share] = {}
    for (what, name), share in found.items():
        if what != "name" or share is None:
            continue
        parts = _with_classes(share, found)
        if parts is not None:
            losses = {id(loss): loss for part in parts for loss in part.losses}
            of_parts = dict.fromkeys(note for part in parts for note in part.notes)
            result[name] = Share([*losses.values(), *others], [*of_parts, *untold], set())
    return result


def _share(
    context: SaveContext, root: tuple[str, str], lost: list[tuple[Any, Loss]]
) -> Share | None:
    searcher = _Searcher(io.BytesIO(), context)
    searcher.lost = {id(value): loss for value, loss in lost}
    what, name = root
    try:
        if what == "name":
            searcher.dump(context.namespace[name])
        elif what == "class":
            searcher.dump(classes.contents(context.classes[name]))
        else:
            searcher.dump(patches.value_at(name))
    except (Exception, StartOver):
        return None
    return Share(searcher.losses, searcher.notes, searcher.used_classes)


def _with_classes(share: Share, found: dict[Any, Share | None]) -> list[Share] | None:
    """Return a share and those of the component's classes that it uses, directly or indirectly.

    Returns None if one of these classes could not be searched.
    """
    parts = [share]
    seen: set[str] = set()
    pending = set(share.classes)
    while pending:
        key = pending.pop()
        seen.add(key)
        if ("class", key) in found:
            of_class = found["class", key]
            if of_class is None:
                return None
            parts.append(of_class)
            pending |= of_class.classes - seen
    return parts
