"""Which of the values that were loaded together hold placeholders."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from . import classes, patches
from .pickling import ComponentPickler, Loss, SaveContext
from .risk import TrialNeeded
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


@dataclass
class Share:
    """What there is to tell of one value: the losses and notes in it, the classes that it uses."""

    losses: list[Loss]
    notes: list[str]
    classes: set[str]


class _Searcher(ComponentPickler):
    """Meets every object that a value is made of, and tells which of those lost are among them."""

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
    """The share of each name of a component in what is lost from it and noted of it.

    What is found in no root is everybody's. A name that cannot be looked through is left out.
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
    except (Exception, TrialNeeded):
        return None
    return Share(searcher.losses, searcher.notes, searcher.used_classes)


def _with_classes(share: Share, found: dict[Any, Share | None]) -> list[Share] | None:
    """A share and those of the classes of the group that it uses, directly or not."""
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
