"""The components of a snapshot, made into objects of a namespace."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

from . import (
    altered,
    classes,
    format,
    interrupts,
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
from .segments import SegmentReader
from .tolerant import TolerantUnpickler, lost_class
from .unrestorable import Unrestorable

UNREAD_SECONDS = 10.0
"""For a component that nobody has read back yet and nobody has asked for by name."""

LEAST_SECONDS = 3.0
"""For such a one, after others have used up that time in vain."""

_unfilled: set[str] = set()
"""Keys of this process's classes whose contents were left out, or hung: filled when asked for."""


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
        """Bytes of mapped data that may still be compared before use."""
        self._limit = limit
        self._cautious = False
        self._dangers: dict[int, str] = {}
        self._in_vain = 0.0
        """Seconds that went to components which never finished loading."""
        self._fresh: set[str] = set()
        self._damaged: dict[str, str] = {}
        self._patched: dict[str, Any] | None = None

    def beware(self, dangers: dict[int, str]) -> None:
        """Leave out these components (index → problem); be brief with what was not read back."""
        self._cautious = True
        self._dangers = dangers

    def stream(self, extent: Extent) -> bytes | memoryview:
        """A component stream: from the signed head, or from a segment by its signed digest."""
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

    def process_state(self) -> dict[str, Any]:
        """The process-state record."""
        extent = self.head.manifest.process_state
        if extent is None:
            raise SnapshotMissing("The snapshot has no process state.")
        state: dict[str, Any] = pickle.loads(self.stream(extent))
        return state

    def cells(self) -> list[str]:
        """The cells that the saving process had run, as far as they are known."""
        try:
            found: list[str] = (self.process_state().get("history") or {}).get("inputs", [])
            return found
        except SnapshotError:
            return []

    def restore(self, names: list[str], patched: bool) -> Restored:
        """Load the components of these names, the classes they need, and patches if asked to."""
        restored = Restored()
        if not names and not patched:
            return restored
        self._patched = restored.patched if patched else None
        collecting = gc.isenabled()
        gc.disable()  # only slows down the making of many objects
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
                    # What was made here stays. Frozen and released, it counts as old, and the
                    # collector does not walk through all of it at once.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
        return restored

    def _leave_out(
        self, records: list[ComponentRecord], names: set[str], restored: Restored
    ) -> list[ComponentRecord]:
        """All but the dangerous ones, which are told."""
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
        """Skeletons of all classes; a class that is alive in this process is used as it is."""
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
        """Make and fill all classes; component index → problem, for those that failed.

        Those with ``known`` problems are not tried; ``begin`` is told each that is.
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
        """Components to load, those with the contents of a class before those that use it."""
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
        """Code of the notebook that runs while an object is loaded reads global names. So what
        cannot run any comes first: modules, then plain data, then functions and classes."""

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
            # What may turn out to hang or to end the process comes last.
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
        """``later``: takes the component if it fails, to be tried once the others are there."""
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
        keys = [value for what, value in record.roots if what == "class"]
        self._damaged.update(dict.fromkeys(keys, problem))
        if isinstance(problem, _Fatal):
            _unfilled.update(keys)
        else:
            try:
                values = self.read(record, own, TolerantUnpickler)
                if corrupt:  # what is no more than a placeholder is better not there
                    lost = [n for n, value in values.items() if isinstance(value, Unrestorable)]
                    restored.failed.update((n, str(values.pop(n)._why)) for n in lost)
                restored.values.update(values)
                self.context.namespace.update(values)
                self._tell_degraded(values, restored, problem)
                return
            except BaseException as error:
                if is_interrupt(error):
                    raise  # else the first problem is the one to tell
        restored.failed.update(dict.fromkeys(own, problem))

    def _tell_damaged_classes(self, record: ComponentRecord, restored: Restored) -> None:
        for key in record.uses:
            if key in self._damaged:
                problem = f"its class {key.partition('#')[0]}: {self._damaged[key]}"
                for what, name in record.roots:
                    if what == "name" and name in restored.values:
                        restored.degraded.setdefault(name, problem)

    def _tell_degraded(self, values: dict[str, Any], restored: Restored, problem: str) -> None:
        """A component has a placeholder in it; of its names those are degraded that hold it."""
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
        """Load one component: fills the classes in it, returns the values of the names ``own``."""
        values: dict[str, Any] = {}
        # A pack holds too many small ones to go on without.
        tolerant = kind is TolerantUnpickler and not record.packed
        buffers = [self._buffer(extent, own, tolerant) for extent in record.buffers]
        unpickler = kind(self.stream(record.stream), in_order(buffers, record.packed))
        for what, value in record.roots:
            loaded = unpickler.load()
            if what == "name":
                if value in own:
                    values[value] = loaded
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
                classes.fill(cls, attributes)
                _unfilled.discard(value)
                for registered_class in registered:
                    cls.register(registered_class)  # type: ignore[attr-defined]
            elif set(own) == {name for w, name in record.roots if w == "name"}:
                self._rejoin(cls, loaded, attributes)
        return values

    def _rejoin(self, cls: type, methods: Any, attributes: Any) -> None:
        """Give a live class the contents just loaded, if they equal its own.

        The names loaded with it share objects with the loaded contents, as a TypeVar does with
        the generic class that it parametrises.
        """
        namespace = self.context.namespace
        live = classes.contents(cls)[:2]
        if contents_digest(namespace, live) == contents_digest(namespace, (methods, attributes)):
            classes.fill(cls, methods)
            classes.fill(cls, attributes)


class _Fatal(str):
    """A problem that loading with placeholders cannot help."""


def _explain(error: BaseException, limit: float) -> str:
    if isinstance(error, DeadlineExceeded):
        return _Fatal(f"loading it took longer than {limit:g} s")
    return str(error) if isinstance(error, SnapshotCorrupt) else describe(error)
