"""The picklers and the unpickler of component streams.

The C pickler does the work, and `reducer_override` adds the types that it does not support. The
pickler written in Python takes over only for objects nested too deeply for the C stack.
"""

from __future__ import annotations

import builtins
import copyreg
import importlib
import importlib.util
import io
import os
import pickle
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import BuiltinFunctionType, ModuleType
from typing import Any

from . import nans, plans
from .deadline import DeadlineExceeded, deadline
from .interrupts import is_interrupt
from .packing import Outlet
from .restorers import ALIAS, RESTORERS, current
from .risk import StartOver, guarded, remember_failure
from .unrestorable import Unrestorable, restore_placeholder

PROTOCOL = 5

LIMIT_OF_LOSSES = 20
"""Largest number of placeholders in a component; with more it is not worth keeping."""

LEAF_SECONDS = 1.0
"""Time limit for a single object while a failed component is salvaged."""


@dataclass
class Loss:
    """An object that was replaced by a placeholder.

    ``what`` is its qualified type, ``why`` the reason. ``final``: no other tier can pickle it
    either. ``before``: it was a placeholder already.
    """

    what: str
    why: str
    final: bool
    before: bool = False


class TooManyLosses(Exception):
    """A component in which more than `LIMIT_OF_LOSSES` objects cannot be pickled."""


def _builtin_ids() -> set[int]:
    """Return the ids of the built-ins: all dictionaries of globals refer to them."""
    return {id(vars(builtins)), *map(id, vars(builtins).values())}


@dataclass
class SaveContext:
    """The data that all picklers of one save share.

    Attributes
    ----------
    namespace: the dictionary being saved. Functions with these globals get the live namespace of
        the restoring process as their globals.
    classes: key → class, for each class that has to be saved by value, in order of discovery.
    skeletons: key → the class without its contents, pickled on its own.
    broken: key → why a class cannot be saved.
    references: ids of objects that streams refer to by name instead of containing them.
    lent: id → object, for objects of libraries that do not tie the objects sharing them together
        (`library_objects`).
    lendable: id → object, for the attributes of the ``surveyed`` classes and modules.
    planned: number of entries in ``plans`` that have been surveyed.
    scopes: id of a private dictionary of globals → the dictionary, its stand-in, and the picklers
        that have used that.
    held: id → dictionary of globals, for those that are part of what is saved.
    sources: file name → text, for code whose file is not on disk (notebook cells).
    modules: name → file, for modules that are not part of an installation.
    tried: risky types that a trial has shown to be harmless in this component; None: no trials.
    in_place: buffers can be written without a copy, because the user's program waits or a forked
        process writes them.
    keeps_owners: save the owner of a small view even if nobody else refers to it.
    alone: id → array, for views whose owner nobody else referred to when they were met first. From
        then on picklers may refer to it too.
    importable: id → (class or function, whether it can be imported).
    sentinels: class → id → (module, name) of its sentinels.
    kept: caches of reducers, by keys of their choice.
    outdated: picklers whose components have to be pickled again, since an object that was met later
        owns memory that they contain (`shared_memory`), or holds the globals of their functions.
    """

    namespace: dict[str, Any]
    plans: dict[type, plans.Plan] = field(default_factory=dict)
    classes: dict[str, type] = field(default_factory=dict)
    skeletons: dict[str, bytes] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    references: set[int] = field(default_factory=_builtin_ids)
    lent: dict[int, Any] = field(default_factory=dict)
    lendable: dict[int, Any] = field(default_factory=dict)
    surveyed: set[Any] = field(default_factory=set)
    planned: int = 0
    scopes: dict[int, tuple[Any, Any, list[Any]]] = field(default_factory=dict)
    held: dict[int, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    tried: set[type] | None = None
    in_place: bool = True
    keeps_owners: bool = False
    alone: dict[int, Any] = field(default_factory=dict)
    importable: dict[int, tuple[Any, bool]] = field(default_factory=dict)
    sentinels: dict[type, dict[int, tuple[str, str]]] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    outdated: list[Any] = field(default_factory=list)

    def met_globals(self, scope: dict[str, Any]) -> None:
        """Take note of a dictionary of globals among what is saved: it needs no stand-in."""
        if id(scope) in self.held:
            return
        self.held[id(scope)] = scope
        _, _, users = self.scopes.pop(id(scope), (scope, None, []))
        if users:
            self.outdated += [pickler for user in users if (pickler := user()) is not None]
            nans.expect(self.kept)


class Reducing:
    """The base of all picklers: applies plans, and collects classes, losses and notes."""

    memo: Any
    persistent_id: Any
    may_start_over = False
    keeps_nans = False

    def __init__(self, file: io.BytesIO, context: SaveContext) -> None:
        # The callback is not a method of the pickler: such a cycle would keep it, and all objects
        # in its memo, alive until the next garbage collection.
        self.outlet = Outlet()
        self.buffers = self.outlet.large
        super().__init__(file, PROTOCOL, buffer_callback=self.outlet)  # type: ignore[call-arg]
        self.context = context
        self.used_classes: set[str] = set()
        self.group_classes: set[str] = set()
        self.losses: list[Loss] = []
        self.lost: list[Any] = []
        self.notes: list[str] = []
        self.described: dict[int, list[str]] = {}
        self.nans: nans.Nans | None = None
        self._plans = context.plans
        self._file = file

    def dump(self, value: Any) -> None:
        """Pickle an object; of a component with NaNs, which stay the objects they are (`nans`)."""
        if not (self.may_start_over and self.keeps_nans):
            super().dump(value)  # type: ignore[misc]
            return
        if self.nans is None and nans.are_expected(self.context.kept):
            self.nans = nans.Nans(self.context.met_globals)
            self.persistent_id = self.nans.number
        start = self._file.tell()
        super().dump(value)  # type: ignore[misc]
        if self.nans is None:
            with self._file.getbuffer() as written:
                found = nans.are_in(written[start:])
            if found:
                nans.expect(self.context.kept)

    def met_builtins(self) -> None:
        """Pickle the component again with a reference to the dictionary of built-ins."""
        if self.may_start_over and self.keeps_nans and self.nans is None:
            nans.expect(self.context.kept)

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = guarded(plans.plan_for(self, kind), kind)
        if plan is plans.default:
            return NotImplemented
        return plan(self, value)

    def lose(self, value: Any, why: str, final: bool = True) -> tuple[Any, ...]:
        """Reduce ``value`` to a placeholder, and record the loss."""
        if sum(1 for loss in self.losses if not loss.before) >= LIMIT_OF_LOSSES:
            raise TooManyLosses(f"more than {LIMIT_OF_LOSSES} objects that cannot be kept")
        what = f"{plans.module_of(type(value))}.{type(value).__qualname__}"
        self.losses.append(Loss(what, why, final))
        self.lost.append(value)
        self.described.pop(id(value), None)
        return restore_placeholder, (what, why, safe_repr(value))

    def keep_lost(self, value: Unrestorable) -> tuple[Any, ...]:
        """Reduce a placeholder. Its loss is reported again, but does not count for the limit."""
        self.losses.append(Loss(value._what, value._why, final=True, before=True))
        self.lost.append(value)
        return restore_placeholder, (value._what, value._why, value._shown)


class ComponentPickler(Reducing, pickle.Pickler):
    """Tier 1: the C pickler with our reducers."""

    keeps_nans = True


class PythonPickler(Reducing, pickle._Pickler):
    """Tier 1 without the C stack: slow, for objects nested too deeply for the C pickler.

    `save` does the same as the method it overrides, but never calls with ``*arguments``: such a
    call goes through C, whose recursion depth Python limits since 3.12.
    """

    framer: Any
    get: Any
    write: Any
    save_global: Any
    save_reduce: Any

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        self.framer.commit_frame()
        known = self.memo.get(id(value))
        if known is not None:
            self.write(self.get(known[0]))
            return
        reduction = self.reducer_override(value)
        if reduction is NotImplemented:
            kind = type(value)
            own = self.dispatch.get(kind)
            if own is not None:
                own(self, value)  # type: ignore[arg-type]
                return
            if issubclass(kind, type):
                self.save_global(value)
                return
            reducer = copyreg.dispatch_table.get(kind)
            reduction = value.__reduce_ex__(PROTOCOL) if reducer is None else reducer(value)
        if isinstance(reduction, str):
            self.save_global(value, reduction)
            return
        made, args, state, items, pairs, setter = (*reduction, None, None, None, None)[:6]
        self.save_reduce(made, args, state, items, pairs, setter, obj=value)


class SalvagePickler(Reducing, pickle.Pickler):
    """Tier 3: like tier 1, but an object that cannot be pickled becomes a placeholder.

    The reduction of each object is computed inside a ``try``, so the failing object is known and
    everything around it is saved. ``alarm`` interrupts an object that takes too long; ``ends`` is
    the time limit for all of them, on the clock of ``time.monotonic``.
    """

    keeps_nans = True

    def __init__(
        self, file: io.BytesIO, context: SaveContext, alarm: deadline, ends: float
    ) -> None:
        super().__init__(file, context)
        self._alarm = alarm
        self._ends = ends

    def reducer_override(self, value: Any) -> Any:
        if time.monotonic() > self._ends:
            raise DeadlineExceeded
        self._alarm.renew(LEAF_SECONDS)
        try:
            reduction = super().reducer_override(value)
            return _reduction(value) if reduction is NotImplemented else reduction
        except (TooManyLosses, StartOver):
            raise
        except DeadlineExceeded:
            self._alarm.renew(LEAF_SECONDS, at_once=True)
            why = f"pickling it took longer than {LEAF_SECONDS:g} s"
            remember_failure(type(value), why)
            return self.lose(value, why)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return self.lose(value, describe(error), False)


def _reduction(value: Any) -> Any:
    """Return the object's own reduction, after checks of what would fail when it is written."""
    if isinstance(value, type) or type(value) in (BuiltinFunctionType, type(_reduction)):
        return NotImplemented
    reducer = copyreg.dispatch_table.get(type(value))
    reduction = value.__reduce_ex__(PROTOCOL) if reducer is None else reducer(value)
    if isinstance(reduction, str):
        module = pickle.whichmodule(value, reduction)  # type: ignore[attr-defined]
        found: Any = sys.modules[module]
        for part in reduction.split("."):
            found = getattr(found, part)
        if found is not value:
            raise pickle.PicklingError(f"it is not the same object as {module}.{reduction}")
        return NotImplemented
    if not (isinstance(reduction, tuple) and 2 <= len(reduction) <= 6):
        raise pickle.PicklingError("__reduce__ must return a string or tuple")
    if not callable(reduction[0]) or not isinstance(reduction[1], tuple):
        raise pickle.PicklingError("__reduce__ must return a callable and its arguments")
    return reduction


class DeadReference(Exception):
    """The stream refers to a restorer that this version of the library does not have."""


class ComponentUnpickler(nans.KeptNans, pickle.Unpickler):
    """Loads component streams; finds restorers, and imports modules from their files if needed."""

    def __init__(self, stream: bytes | memoryview, buffers: Iterable[Any]) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)

    def find_class(self, module: str, name: str) -> Any:
        if module == ALIAS:
            try:
                return RESTORERS[name]
            except KeyError:
                raise DeadReference(
                    f"The snapshot was made by a newer prime_ext (it needs {name!r})."
                ) from None
        if module not in sys.modules:
            import_module(module, current().modules.get(module, ""))
        return super().find_class(module, name)


def import_module(name: str, origin: str) -> ModuleType:
    """Import a module by name, or from the file ``origin`` if it is not on ``sys.path``."""
    try:
        return importlib.import_module(name)
    except ImportError:
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            import_module(parent, current().modules.get(parent, ""))
        if not origin or not os.path.exists(origin):
            raise
        package = os.path.basename(origin) == "__init__.py"
        spec = importlib.util.spec_from_file_location(
            name, origin, submodule_search_locations=[os.path.dirname(origin)] if package else None
        )
        if spec is None or spec.loader is None:
            raise
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module


def describe(error: BaseException) -> str:
    """Describe an exception in one line of limited length."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def safe_repr(value: Any, limit: int = 80) -> str:
    """Return a short representation, without running code of the user's classes; may be empty."""
    trusted = type(value).__module__ in _TRUSTED_REPR
    if trusted or plans.inherits(type(value), "__repr__", object):
        try:
            text = repr(value)
        except Exception:
            return ""
        return text if len(text) <= limit else text[: limit - 1] + "…"
    return ""


_TRUSTED_REPR = frozenset({"_io", "_thread", "socket", "threading", "sqlite3", "types"})
