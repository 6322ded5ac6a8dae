"""One component: names and classes that are pickled together, and the result."""

from __future__ import annotations

import builtins
import io
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from . import classes, digests, own_attributes, packing, patches
from .pickling import ComponentPickler, Loss, PythonPickler, Reducing, SaveContext
from .restorers import current, restorer
from .risk import PickleAgain
from .sharing import memo_of


@dataclass
class Component:
    """A pickled component.

    Attributes
    ----------
    roots: ``(kind, value)``, where kind is ``name``, ``class`` or ``patch``, in stream order.
    stream: the pickles of all roots, one after the other, with one memo.
    buffers: its out-of-band buffers; the first may be a pack (`packing`).
    tier: how it was pickled: ``c``, ``python``, ``dill`` or ``salvage``.
    used_classes: keys of the saved classes it refers to.
    losses: the objects that were replaced by placeholders.
    notes: remarks for the user about objects in it.
    cost: seconds that pickling took.
    packed: the order in which the stream takes buffers, if the first of them is a pack.
    alternative: dill's version of it, until another process has shown whether that loads.
    shares: for each name its share of losses and notes, where that is known.
    pickler: the pickler that made it, whose memo lists its objects.
    shared: without a pickler, the objects that other components may share with it.
    attributes: those of objects whose class says what is saved of them (`own_attributes`).
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
    attributes: str = ""

    def memo(self) -> dict[int, tuple[int, Any]]:
        """Return id → (number, object) for the objects of the component."""
        if self.pickler is None:
            return {id(value): (0, value) for value in self.shared}
        return memo_of(self.pickler)

    def fingerprint(self) -> str:
        """Return a digest of the content, comparable within one process and its snapshots."""
        fast = [digests.fast(self.stream), *map(packing.fast, self.buffers)]
        return combine(self.roots, fast, self.attributes)


def combine(roots: list[Any], fast: list[str], attributes: str = "") -> str:
    """Combine a component's roots and the digests of its stream and buffers into a fingerprint."""
    return digests.fast("\0".join([*map(" ".join, roots), *fast, attributes]).encode())


def dump(context: SaveContext, roots: list[Any], kind: Any) -> Component:
    """Pickle the roots one after the other with one memo, by a pickler of class ``kind``."""
    while True:
        with suppress(PickleAgain):
            return _dump(context, roots, kind)


def _dump(context: SaveContext, roots: list[Any], kind: Any) -> Component:
    file = io.BytesIO()
    pickler = kind(file, context)
    pickler.may_start_over = True
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
        attributes=own_attributes.join(pickler.described.values()),
    )


def contents_digest(namespace: dict[str, Any], contents: Any) -> str | None:
    """Return a digest of objects outside of a component; None if they cannot be pickled."""
    file = io.BytesIO()
    pickler = ComponentPickler(file, SaveContext(namespace))
    try:
        pickler.dump(contents)
    except Exception:
        return None
    return combine(
        [], [digests.fast(b.raw()) for b in pickler.buffers] + [digests.fast(file.getvalue())]
    )


_NAMESPACE = "namespace"
_ONE_PER_PROCESS = {id(sys.modules): "modules", id(vars(builtins)): "builtins"}


class _Live:
    """Stands for a dictionary that a restored name must not get a copy of, as after
    ``g = globals()``."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __reduce__(self) -> Any:
        return restore_live, (self._place,)


class _Attributes:
    """Stands for the dictionary of a module's attributes, as after ``constants = vars(math)``."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __reduce__(self) -> Any:
        return vars, (self._module,)


def _owner(found: Any) -> types.ModuleType | None:
    """Return the module whose attributes a dictionary holds."""
    name = found.get("__name__") if type(found) is dict else None
    module = sys.modules.get(name) if type(name) is str else None
    return module if type(module) is types.ModuleType and vars(module) is found else None


@restorer
def restore_live(place: str) -> dict[str, Any]:
    places = {"modules": sys.modules, "builtins": vars(builtins)}
    return current().namespace if place == _NAMESPACE else places[place]


def _parts(context: SaveContext, roots: list[Any]) -> Iterator[Any]:
    """Yield what is pickled for each root: a value, or a class's methods and then the rest."""
    for what, value in roots:
        if what == "name":
            found = context.namespace[value]
            place = _ONE_PER_PROCESS.get(id(found)) or (found is context.namespace and _NAMESPACE)
            module = None if place else _owner(found)
            yield _Live(place) if place else _Attributes(module) if module else found
        elif what == "patch":
            yield patches.value_at(value)
        else:
            methods, attributes, registered = classes.contents(context.classes[value])
            yield methods
            yield attributes, registered
