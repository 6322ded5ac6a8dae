"""Loading the components of a snapshot into a namespace."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

from . import (
    altered,
    classes,
    format,
    generic_models,
    interrupts,
    plain_state,
    restorers,
    verification,
)
from .component import contents_digest
from .deadline import DeadlineExceeded, deadline
from .errors import SnapshotCorrupt, SnapshotError, SnapshotMissing
from .format import ComponentRecord, Extent, Head
from .interrupts import is_interrupt
from .losses import placeholder_in
from .packing import in_order
from .pickling import ComponentUnpickler, describe
from .restored import Restored
from .same_text import one_object
from .segments import SegmentReader
from .tolerant import TolerantUnpickler, lost_class
from .unrestorable import Unrestorable

UNREAD_SECONDS = 10.0
"""Time limit, in a cautious load, for a component that has not been read back yet."""

LEAST_SECONDS = 3.0
"""The same limit once other such components have used up that time without finishing."""

_unfilled: set[str] = set()
"""Keys of live classes whose contents were left out or timed out; a later load may fill them."""


class Loader:
    """Loads components of one snapshot into one namespace."""

    def __init__(
        self,
        head: Head,
        reader: SegmentReader,
        namespace: dict[str, Any],
        at_once: int,
        limit: float,
    ) -> None:
        self.head = head
        self.unchecked: altered.Unchecked = {}
        self.context = restorers.LoadContext(namespace, modules=head.manifest.modules)
        self._reader = reader
        self._at_once = at_once
        """Bytes of mapped data that may still be compared with their digests before use."""
        self._limit = limit
        self._cautious = False
        self._dangers: dict[int, str] = {}
        self._in_vain = 0.0
        """Seconds spent on components that did not finish loading in time."""
        self._fresh: set[str] = set()
        self._damaged: dict[str, str] = {}
        self._patched: dict[str, Any] | None = None

    def beware(self, dangers: dict[int, str]) -> None:
        """Load cautiously: leave out ``dangers`` (component index → problem), and give components
        that have not been read back yet only `UNREAD_SECONDS`."""
        self._cautious = True
        self._dangers = dangers

    def stream(self, extent: Extent) -> bytes | memoryview:
        """Return a stream, from the signed head or from a segment checked against its digest."""
        if extent.where == format.IN_HEAD:
            return self.head.stream(extent)
        return self._reader.copy(extent)

    def _buffer(self, extent: Extent, own: list[str], tolerant: bool) -> Any:
        check = extent.length <= self._at_once
        if check:
            self._at_once -= extent.length
        else:
            where = (extent.where, extent.offset)
            self.unchecked.setdefault(where, (extent, set()))[1].update(own)
        try:
            return self._reader.lend(extent, check)
        except SnapshotCorrupt as error:
            if not tolerant:
                raise
            return Unrestorable("buffer", str(error))

    def process_state(self) -> tuple[dict[str, Any], list[str]]:
        """Return the process-state record, and a note on each part that cannot be loaded here."""
        extent = self.head.manifest.process_state
        if extent is None:
            raise SnapshotMissing("The snapshot has no process state.")
        try:
            return plain_state.load(self.stream(extent))
        except (SnapshotError, OSError):
            raise
        except Exception as error:
            raise SnapshotCorrupt(f"it cannot be read here: {describe(error)}") from error

    def cells(self) -> list[str]:
        """Return the cells that the saving process had run; empty if they are unknown."""
        try:
            state, _ = self.process_state()
            found: list[str] = (state.get("history") or {}).get("inputs", [])
            return found
        except SnapshotError:
            return []

    def restore(self, names: list[str], patched: bool) -> Restored:
        """Load the components of these names and the classes they need.

        With ``patched``, also load the patches that the notebook made to modules.
        """
        restored = Restored()
        if not names and not patched:
            return restored
        self._patched = restored.patched if patched else None
        collecting = gc.isenabled()
        gc.disable()  # it would only slow down the creation of many objects
        try:
            with restorers.loading(self.context), interrupts.watch():
                self._make_classes()
                wanted = set(names)
                records = pending = self._leave_out(self._in_order(wanted), wanted, restored)
                with deadline(self._limit) as alarm:
                    while pending:
                        later: list[ComponentRecord] = []
                        for record in pending:
                            self._load(record, wanted, restored, alarm, later)
                        if len(later) == len(pending):
                            break
                        pending = later
                    for record in pending:
                        self._load(record, wanted, restored, alarm, None)
                for record in records if self._damaged else ():
                    self._tell_damaged_classes(record, restored)
        finally:
            self.context.keepalive.clear()
            self.context.twins.clear()
            self.context.kept.clear()
            if collecting:
                if not gc.get_freeze_count():
                    # The loaded objects will live long. Freezing and unfreezing moves them to the
                    # oldest generation, so the next collection need not traverse all of them.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
        return restored

    def _leave_out(
        self, records: list[ComponentRecord], names: set[str], restored: Restored
    ) -> list[ComponentRecord]:
        """Return the records without the dangerous ones, which are reported in ``restored``."""
        if not self._dangers:
            return records
        components = self.head.manifest.components
        dangers = {id(components[i]): problem for i, problem in self._dangers.items()}
        for record in records:
            problem = dangers.get(id(record))
            if problem is not None:
                for what, value in record.roots:
                    if what == "class":
                        self._damaged[value] = problem
                        _unfilled.add(value)
                    elif what == "name" and value in names:
                        restored.failed[value] = f"left out: {verification.BY_NAME}"
                        restored.left_out[value] = verification.kind_of(problem)
                    elif what == "patch" and self._patched is not None:
                        self.context.notes.append(f"left out of {value}: {problem}")
        return [record for record in records if id(record) not in dangers]

    def _seconds(self, record: ComponentRecord) -> float:
        if not self._cautious or record.verified:
            return self._limit
        patience = max(LEAST_SECONDS, UNREAD_SECONDS - self._in_vain)
        return min(self._limit, round(verification.seconds_for(record, patience), 1))

    def _make_classes(self) -> None:
        """Make the skeletons of all classes; a class alive in this process is used as it is."""
        extent = self.head.manifest.skeletons
        if extent is None:
            return
        keys = self.head.manifest.skeleton_keys
        problem = ""
        try:
            skeletons = pickle.loads(self.stream(extent))
        except SnapshotCorrupt as error:
            problem = str(error)
            skeletons = [b""] * len(keys)
        for key, skeleton in zip(keys, skeletons):  # noqa: B905 - Python 3.9
            live = classes.KEYS.live(key)
            if live is None and problem:
                live = self._lost(key, problem)
            elif live is None:
                live = self._make_class(key, skeleton)
            elif key in _unfilled:
                self._fresh.add(key)
            self.context.classes[key] = live

    def _make_class(self, key: str, skeleton: bytes) -> type:
        try:
            made = classes.restore_skeleton(*ComponentUnpickler(skeleton, ()).load())
        except BaseException as error:
            if is_interrupt(error):
                raise
            return self._lost(key, describe(error))
        self._fresh.add(key)
        return made

    def _lost(self, key: str, problem: str) -> type:
        self._damaged[key] = problem
        return lost_class(key.partition("#")[0], problem)

    def load_classes(self, known: dict[int, str], begin: Callable[[int], None]) -> dict[int, str]:
        """Make and fill all classes.

        Components with ``known`` problems are not tried. ``begin`` is called with the index of
        each component before it is loaded. Returns component index → problem, for those that
        failed.
        """
        problems: dict[int, str] = {}
        index_of = {id(r): index for index, r in enumerate(self.head.manifest.components)}
        with restorers.loading(self.context):
            self._make_classes()
            for record in self._in_order(set()):
                index = index_of[id(record)]
                if index in known:
                    continue
                begin(index)
                try:
                    self.read(record, [])
                except BaseException as error:
                    problems[index] = describe(error)
        return problems

    def _in_order(self, names: set[str]) -> list[ComponentRecord]:
        """Return the components to load: the contents of a class before components that use it."""
        records = self.head.manifest.components
        holder = {
            value: index
            for index, record in enumerate(records)
            for what, value in record.roots
            if what == "class"
        }
        order: list[int] = []
        seen: set[int] = set()

        def visit(index: int) -> None:
            stack = [(index, iter(records[index].uses))]
            seen.add(index)
            while stack:
                current, uses = stack[-1]
                for key in uses:
                    needed = holder.get(key)
                    if needed is not None and needed not in seen and key in self._fresh:
                        seen.add(needed)
                        stack.append((needed, iter(records[needed].uses)))
                        break
                else:
                    order.append(current)
                    stack.pop()

        for index, record in self._by_need():
            wanted = any(
                (what == "name" and value in names)
                or (what == "class" and value in self._fresh)
                or (what == "patch" and self._patched is not None)
                for what, value in record.roots
            )
            if wanted and index not in seen:
                visit(index)
        return [records[index] for index in order]

    def _by_need(self) -> list[tuple[int, ComponentRecord]]:
        """Return all components with their indices, those that cannot run user code first.

        The notebook's code that runs while an object is loaded reads global names. So the order is
        modules, plain data, functions and classes, and then everything else.
        """

        def rank(entry: tuple[int, ComponentRecord]) -> int:
            record = entry[1]
            types = {
                self.head.manifest.names[value]["type"]
                for what, value in record.roots
                if what == "name"
            }
            if types == {"module"}:
                return 0
            has_classes = any(what == "class" for what, _ in record.roots)
            if types and not (record.uses or has_classes or "function" in types):
                return 1
            if types <= {"function", "type"}:
                return 2
            # Components that may hang or end the process come last.
            return 3 if record.verified else 4

        return sorted(enumerate(self.head.manifest.components), key=rank)

    def _load(
        self,
        record: ComponentRecord,
        names: set[str],
        restored: Restored,
        alarm: deadline,
        later: list[ComponentRecord] | None,
    ) -> None:
        """Load one component into the namespace and ``restored``.

        A component that fails is appended to ``later``, to be tried again after the others.
        Without ``later``, its failed objects are replaced by placeholders. A component that times
        out is reported as failed at once.
        """
        own = [value for what, value in record.roots if what == "name" and value in names]
        seconds = self._seconds(record)
        alarm.renew(seconds)
        try:
            self.context.missed.clear()
            values = self.read(record, own)
            restored.values.update(values)
            self.context.namespace.update(values)
            problem = verification.join(*self.context.missed)
            if problem:
                self._note_damaged(record, problem)
                self._tell_degraded(values, restored, problem)
            return
        except BaseException as error:
            if is_interrupt(error):
                raise
            alarm.renew(at_once=True)
            problem = _explain(error, seconds)
            if isinstance(error, DeadlineExceeded):
                self._in_vain += seconds
                if seconds < self._limit:
                    problem = _Fatal(f"{problem}; {verification.BY_NAME}")
                    restored.left_out.update(dict.fromkeys(own, verification.SLOW))
            corrupt = isinstance(error, SnapshotCorrupt)
        if later is not None and not isinstance(problem, _Fatal):
            later.append(record)
            return
        keys = self._note_damaged(record, problem)
        if isinstance(problem, _Fatal):
            _unfilled.update(keys)
        else:
            try:
                values = self.read(record, own, TolerantUnpickler)
                if corrupt:  # a name that would be nothing but a placeholder is not restored
                    lost = [n for n, value in values.items() if isinstance(value, Unrestorable)]
                    restored.failed.update((n, str(values.pop(n)._why)) for n in lost)
                restored.values.update(values)
                self.context.namespace.update(values)
                self._tell_degraded(values, restored, problem)
                return
            except BaseException as error:
                if is_interrupt(error):
                    raise  # any other error: report the first problem
        restored.failed.update(dict.fromkeys(own, problem))

    def _note_damaged(self, record: ComponentRecord, problem: str) -> list[str]:
        """Note the classes whose contents are in a component, and return their keys."""
        keys = [value for what, value in record.roots if what == "class"]
        self._damaged.update(dict.fromkeys(keys, problem))
        return keys

    def _tell_damaged_classes(self, record: ComponentRecord, restored: Restored) -> None:
        for key in record.uses:
            if key in self._damaged:
                problem = f"its class {key.partition('#')[0]}: {self._damaged[key]}"
                for what, name in record.roots:
                    if what == "name" and name in restored.values:
                        restored.degraded.setdefault(name, problem)

    def _tell_degraded(self, values: dict[str, Any], restored: Restored, problem: str) -> None:
        """Mark the names that hold a placeholder as degraded, or all if none can be singled out."""
        found = {
            name: placeholder_in(value, self.context.namespace, problem)
            for name, value in values.items()
        }
        everywhere = not any(found.values())
        for name, why in found.items():
            if why or everywhere:
                restored.degraded[name] = verification.join(problem, why)

    def read(
        self, record: ComponentRecord, own: list[str], kind: Any = ComponentUnpickler
    ) -> dict[str, Any]:
        """Load one component: fill its classes, and return the values of the names in ``own``."""
        values: dict[str, Any] = {}
        # A damaged pack is not replaced by a placeholder: it holds too many small buffers.
        tolerant = kind is TolerantUnpickler and not record.packed
        buffers = [self._buffer(extent, own, tolerant) for extent in record.buffers]
        unpickler = kind(self.stream(record.stream), in_order(buffers, record.packed))
        for what, value in record.roots:
            loaded = unpickler.load()
            if what == "name":
                if value in own:
                    values[value] = one_object(loaded)
                continue
            if what == "patch":
                if self._patched is not None:
                    self._patched[value] = loaded
                if value in own:
                    values[value] = loaded
                continue
            attributes, registered = unpickler.load()
            cls = self.context.classes[value]
            if value in self._fresh:
                classes.fill(cls, loaded)
                classes.fill(cls, [(name, one_object(item)) for name, item in attributes])
                generic_models.remember(cls)
                _unfilled.discard(value)
                for registered_class in registered:
                    cls.register(registered_class)  # type: ignore[attr-defined]
            elif set(own) == {name for w, name in record.roots if w == "name"}:
                self._rejoin(cls, loaded, attributes)
        return values

    def _rejoin(self, cls: type, methods: Any, attributes: Any) -> None:
        """Give a live class the contents just loaded, if they equal its own.

        The names loaded with the class share objects with the loaded contents: a TypeVar, for
        example, with the generic class that it parametrises.
        """
        namespace = self.context.namespace
        live = classes.contents(cls)[:2]
        if contents_digest(namespace, live) == contents_digest(namespace, (methods, attributes)):
            classes.fill(cls, methods)
            classes.fill(cls, attributes)


class _Fatal(str):
    """A problem that neither a retry nor loading with placeholders can solve."""


def _explain(error: BaseException, limit: float) -> str:
    if isinstance(error, DeadlineExceeded):
        return _Fatal(f"loading it took longer than {limit:g} s")
    return str(error) if isinstance(error, SnapshotCorrupt) else describe(error)
