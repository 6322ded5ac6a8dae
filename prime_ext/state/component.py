"""One component: names that are pickled together, and what came out."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import classes, digests, packing, patches
from .pickling import ComponentPickler, Loss, PythonPickler, Reducing, SaveContext
from .sharing import memo_of


@dataclass
class Component:
    """A pickled component.

    ``tier`` is ``c``, ``python``, ``dill`` or ``salvage``; ``cost`` the seconds it took;
    ``packed`` the order of ``buffers`` in the stream if the first of them is a pack;
    ``alternative`` what dill made of it, of which nobody knows yet whether it loads;
    ``shares`` for each name its share of losses and notes, where that is known; ``shared`` objects
    that others may have in common with it, in the place of a pickler that knows them.
    """

    roots: list[Any]
    stream: bytes
    buffers: list[Any]
    tier: str = "c"
    used_classes: set[str] = field(default_factory=set)
    losses: list[Loss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cost: float = 0.0
    packed: list[int] = field(default_factory=list)
    alternative: Component | None = None
    shares: dict[str, Any] = field(default_factory=dict)
    pickler: Reducing | None = None
    shared: list[Any] = field(default_factory=list)

    def memo(self) -> dict[int, tuple[int, Any]]:
        """Id → (number, object), of what the component consists of."""
        if self.pickler is None:
            return {id(value): (0, value) for value in self.shared}
        return memo_of(self.pickler)

    def fingerprint(self) -> str:
        """Digest of the content, comparable within one process and its snapshots."""
        fast = [digests.fast(self.stream), *map(packing.fast, self.buffers)]
        return combine(self.roots, fast)


def combine(roots: list[Any], fast: list[str]) -> str:
    """A component's fingerprint from its roots and the digests of its stream and buffers."""
    parts = [" ".join(root) for root in roots]
    return digests.fast("\0".join([*parts, *fast, ""]).encode())


def dump(context: SaveContext, roots: list[Any], kind: Any) -> Component:
    """Pickle roots one after the other with one memo."""
    file = io.BytesIO()
    pickler = kind(file, context)
    pickler.outlet.packs = True
    pickler.group_classes = {value for what, value in roots if what == "class"}
    for part in _parts(context, roots):
        pickler.dump(part)
    buffers, packed = pickler.outlet.stored()
    return Component(
        roots=list(roots),
        stream=file.getvalue(),
        buffers=buffers,
        packed=packed,
        tier="python" if kind is PythonPickler else "c",
        used_classes=pickler.used_classes,
        losses=pickler.losses,
        notes=pickler.notes,
        pickler=pickler,
    )


def contents_digest(namespace: dict[str, Any], contents: Any) -> str | None:
    """Digest of loose objects, to compare two versions of them; None if they do not pickle."""
    file = io.BytesIO()
    pickler = ComponentPickler(file, SaveContext(namespace))
    try:
        pickler.dump(contents)
    except Exception:
        return None
    return combine(
        [], [digests.fast(b.raw()) for b in pickler.buffers] + [digests.fast(file.getvalue())]
    )


def _parts(context: SaveContext, roots: list[Any]) -> Iterator[Any]:
    """What is dumped for each root: a name's value; a class's methods, then the rest."""
    for what, value in roots:
        if what == "name":
            yield context.namespace[value]
        elif what == "patch":
            yield patches.value_at(value)
        else:
            methods, attributes, registered = classes.contents(context.classes[value])
            yield methods
            yield attributes, registered
