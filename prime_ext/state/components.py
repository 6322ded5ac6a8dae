"""Connected components: names that share an object are pickled together.

Each root (a name, or a class of the notebook) is first pickled on its own. The pickler's memo
then lists every object of the root. Roots whose memos have an object in common whose identity
matters are pickled again, as one component with one memo. This preserves identity across names,
and a change to one variable changes only its own component.
"""

from __future__ import annotations

import io
import pickle
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from . import (
    classes,
    deep_stack,
    forking,
    library_objects,
    patches,
    reducers,
    restorers,
)
from .component import Component, dump
from .deadline import DeadlineExceeded, deadline
from .dill_pickler import VERDICTS, kinds_lost, pickler_class
from .interrupts import is_interrupt, watch
from .losses import shares
from .pickling import (
    LEAF_SECONDS,
    PROTOCOL,
    ComponentPickler,
    PythonPickler,
    SalvagePickler,
    SaveContext,
    TooManyLosses,
    describe,
)
from .plain_code import PlainCode
from .quiet import Quiet
from .risk import TrialNeeded, remember_failure
from .sharing import is_apart, matters
from .time_budget import Budget, TotalExceeded

LARGE_STREAM = 128 * 1024
_QUICKLY_SEARCHED = 1024 * 1024
_TRIAL_SECONDS = 2.0
_QUICK = 0.2


@dataclass
class Pickled:
    """The pickled namespace. ``skipped`` maps each root that is in no component to the reason."""

    components: list[Component]
    skeletons: bytes
    skeleton_keys: list[str]
    skipped: dict[Any, str]
    context: SaveContext


@dataclass
class Hints:
    """What the last save of this process found out, to make the next one quicker.

    Roots of one of the ``groups`` are pickled together at once, instead of first on their own.
    ``costs`` maps a root to the seconds that pickling its component took.
    """

    groups: list[list[Any]] = field(default_factory=list)
    costs: dict[Any, float] = field(default_factory=dict)


_hints: dict[int, Hints] = {}


def pickle_all(
    namespace: dict[str, Any], names: list[str], budget: Budget, in_place: bool = True
) -> Pickled:
    """Pickle the names with all reducers registered, using the hints of the last save."""
    reducers.load()
    restorers.publish()
    if id(namespace) not in _hints:
        _hints.clear()  # a process saves one namespace again and again: keep no others
    hints = _hints.setdefault(id(namespace), Hints())
    context = SaveContext(namespace, in_place=in_place)
    return pickle_namespace(context, names, budget, hints)


def pickle_namespace(
    context: SaveContext, names: list[str], budget: Budget, hints: Hints
) -> Pickled:
    """Pickle the names, the patches to modules, and the classes that they need."""
    work = _Work(context, budget)
    with Quiet(), watch():
        with work.alarm:
            work.alarm.pause()
            patched = [("patch", where) for where in patches.find(context.namespace)]
            work.run([("name", name) for name in names] + patched, hints)
            work.attribute_losses()
        skeletons, keys = work.skeletons()
    hints.groups = [c.roots for c in work.components() if len(c.roots) > 1]
    hints.costs = {root: c.cost for c in work.components() for root in c.roots}
    for component in work.components():
        component.pickler = None
    return Pickled(work.components(), skeletons, keys, work.skipped, context)


class _Work:
    """The state of one `pickle_namespace` call: the components pickled so far (*attempts*), and a
    union-find structure of which of them share objects."""

    def __init__(self, context: SaveContext, budget: Budget) -> None:
        self.context = context
        self.budget = budget
        self.skipped: dict[Any, str] = {}
        self._attempts: list[Component] = []
        self._parent: list[int] = []
        self._owner: dict[int, int] = {}
        self._shared_freely: set[int] = set()
        self._apart: set[Any] = set()
        self._large: list[int] = []
        self._classes_seen = 0
        self._pairs: dict[Any, list[Any]] = {}
        self._plain = PlainCode(context)
        self._may_fork = forking.is_safe()
        self.alarm = deadline(budget.per_root)

    def components(self) -> list[Component]:
        return self._attempts

    def run(self, roots: list[Any], hints: Hints) -> None:
        self._pair_classes(roots)
        wanted = set(roots)
        grouped: set[Any] = set()
        together = {root: group for group in hints.groups for root in group}
        # Roots that were slow last time come last: they should be the ones to exceed the total
        # budget.
        for root in sorted(roots, key=lambda root: hints.costs.get(root, 0.0)):
            if root in grouped:
                continue
            group = together.get(root) or self._with_partner(root)
            if len(group) > 1:
                group = [r for r in group if r in wanted or self._is_live_class(r)]
                group = [r for r in group if r not in grouped]
            grouped.update(group)
            self._take(group)
            self._attempt_classes(grouped)
        self._merge(grouped)

    def _take(self, roots: list[Any]) -> None:
        """Pickle roots that belong together, by the shortcut of `plain_code` where possible.

        They are in the order of `_order`, because streams are compared to detect changes.
        """
        found = self._plain.pickled(roots)
        if found is None:
            self._attempt(roots)
        else:
            stream, used, shared = found
            self._add(Component(roots, stream, [], used_classes=used, shared=shared))

    def _pair_classes(self, roots: list[Any]) -> None:
        """Pair each class that is saved by value with its name, to get one component for both."""
        registrar = ComponentPickler(io.BytesIO(), self.context)
        for what, name in roots:
            value = self.context.namespace.get(name) if what == "name" else None
            key = None
            if isinstance(value, type):
                with suppress(pickle.PicklingError):  # raised again, and reported, on pickling
                    key = classes.saved_key(registrar, value)
            if key is not None and ("class", key) not in self._pairs:
                pair = [("class", key), ("name", name)]
                self._pairs.update(dict.fromkeys(pair, pair))

    def _with_partner(self, root: Any) -> list[Any]:
        return self._pairs.get(root) or [root]

    def _is_live_class(self, root: Any) -> bool:
        if root[0] != "class":
            return False
        cls = classes.KEYS.live(root[1])
        if cls is None:
            return False
        registrar = ComponentPickler(io.BytesIO(), self.context)
        with suppress(pickle.PicklingError):  # raised again, and reported, on pickling
            return classes.saved_key(registrar, cls) is not None
        return False

    def _attempt_classes(self, done: set[Any]) -> None:
        """Pickle the contents of the classes found so far, and of those that they need in turn."""
        while len(self.context.classes) > self._classes_seen:
            known = self.context.classes
            # From the end, where the new ones are: skipping the old ones would be quadratic.
            new = list(islice(reversed(known), len(known) - self._classes_seen))[::-1]
            self._classes_seen = len(known)
            for root in [("class", key) for key in new if ("class", key) not in done]:
                group = [r for r in self._with_partner(root) if r not in done]
                done.update(group)
                self._take(group)

    def _attempt(self, roots: list[Any]) -> None:
        try:
            component = self._pickle(roots)
        except BaseException as error:
            self.alarm.pause()  # it may have fired before `_pickle` could pause it
            if is_interrupt(error):
                raise
            if len(roots) > 1:
                # Saving each root without the shared identity is better than saving none.
                self._apart.update(roots)
                for root in roots:
                    self._attempt([root])
                return
            self.skipped[roots[0]] = _explain(error, self.budget)
            return
        self._add(component)

    def _add(self, component: Component) -> None:
        self._attempts.append(component)
        self._parent.append(len(self._attempts) - 1)
        self._note_sharing(len(self._attempts) - 1)

    def _note_sharing(self, index: int) -> None:
        component = self._attempts[index]
        if component.roots[0] in self._apart:
            return
        if len(component.stream) >= LARGE_STREAM:
            self._large.append(index)
            return
        if component.pickler is None and self._owner.keys().isdisjoint(map(id, component.shared)):
            self._owner.update(dict.fromkeys(map(id, component.shared), index))
            return
        self._compare(index, component.memo())

    def _compare(self, index: int, memo: dict[int, tuple[int, Any]]) -> None:
        in_both = self._owner.keys() & memo.keys() - self._shared_freely
        library_objects.lend(self.context, in_both)
        for shared in in_both:
            if matters(self.context, memo[shared][1]):
                self._union(index, self._owner[shared])
            else:
                self._shared_freely.add(shared)
        self._owner.update(dict.fromkeys(memo, index))

    def _note_large(self) -> None:
        """Find the objects that large attempts share with others.

        For the largest attempt, `is_apart` often proves without listing its memo that there are
        none.
        """
        large = sorted(self._large, key=lambda index: len(self._attempts[index].stream))
        self._large = []
        for index in large[:-1]:
            self._compare(index, self._attempts[index].memo())
        for index in large[-1:]:
            others = (c.memo() for i, c in enumerate(self._attempts) if i != index)
            largest = self._attempts[index]
            if not is_apart(self.context, largest.pickler, len(largest.stream), others):
                self._compare(index, self._attempts[index].memo())

    def _find(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index

    def _union(self, one: int, other: int) -> None:
        self._parent[self._find(one)] = self._find(other)

    def _merge(self, done: set[Any]) -> None:
        """Pickle the attempts that share an object again, as one component, and outdated ones."""
        while True:
            self._note_large()
            groups: dict[int, list[int]] = {}
            for index in range(len(self._attempts)):
                groups.setdefault(self._find(index), []).append(index)
            before = self._attempts
            outdated = set(map(id, self.context.outdated))
            again = [
                members
                for members in groups.values()
                if len(members) > 1 or id(before[members[0]].pickler) in outdated
            ]
            if not again:
                return
            self.context.outdated = []
            # Start over: note the attempts that stay, then pickle and note the merged ones.
            self._attempts, self._parent, self._owner, self._large = [], [], {}, []
            self._shared_freely = set()  # the merged attempts kept these objects alive
            anew = {index for members in again for index in members}
            for index, component in enumerate(before):
                if index not in anew:
                    self._add(component)
            for members in again:
                roots = (root for index in members for root in before[index].roots)
                self._attempt(sorted(roots, key=_order))
            self._attempt_classes(done)

    def _pickle(self, roots: list[Any]) -> Component:
        seconds = min(self.budget.per_root * len(roots), self.budget.left())
        if seconds <= 0:
            raise TotalExceeded
        started = time.monotonic()
        try:
            self.alarm.renew(seconds)
            self.context.tried = set() if self._may_fork else None
            component = self._dump(roots, ComponentPickler)
        except TooManyLosses:
            raise
        except RecursionError:
            self.alarm.renew(2 * seconds + 5, at_once=True)
            try:
                component = self._pickle_deep(roots, seconds)
            except RecursionError as error:  # the nesting has no end
                component = self._salvage(roots, error)
        except BaseException as error:
            if is_interrupt(error):
                raise
            component = self._salvage(roots, error)
        finally:
            self.alarm.renew(self.budget.per_root, at_once=time.monotonic() - started > 0.1)
            self.alarm.pause()
        component.cost = time.monotonic() - started
        return component

    def _dump(self, roots: list[Any], kind: Any) -> Component:
        """Call `dump`, after trying out risky types of objects in a forked child (`risk`)."""
        while True:
            try:
                return dump(self.context, roots, kind)
            except TrialNeeded as needed:
                tried = self.context.tried
                assert tried is not None
                tried.add(needed.kind)
                attempt = partial(dump, self.context, roots, ComponentPickler)
                with self.alarm.held():
                    problem = forking.trial(attempt, _TRIAL_SECONDS)
                if problem:
                    remember_failure(needed.kind, problem)

    def _pickle_deep(self, roots: list[Any], seconds: float) -> Component:
        """Pickle in a thread with a deep stack, by the C pickler or else by the Python one."""

        def work() -> Component:
            with suppress(RecursionError):
                return self._dump(roots, ComponentPickler)
            return self._dump(roots, PythonPickler)

        return deep_stack.run(work, seconds)

    def _salvage(self, roots: list[Any], cause: BaseException) -> Component:
        # A component that is merely large does not get more time than for the first attempt.
        seconds = min(self.budget.left(), self.budget.per_root)
        if seconds <= 0:
            raise cause
        self.alarm.renew(LEAF_SECONDS, at_once=True)
        kind = partial(SalvagePickler, alarm=self.alarm, ends=time.monotonic() + seconds)
        component = self._dump(roots, kind)
        if not component.losses and isinstance(cause, DeadlineExceeded):
            raise cause
        component.tier = "salvage"
        return self._with_dill(component)

    def _with_dill(self, component: Component) -> Component:
        kinds = kinds_lost(component.losses)
        if not kinds or VERDICTS.get(kinds) is False or pickler_class() is None:
            return component
        self.alarm.renew(max(0.1, min(self.budget.left(), self.budget.per_root)), at_once=True)
        try:
            alternative = dump(self.context, component.roots, pickler_class())
        except BaseException as error:
            if is_interrupt(error):
                raise
            return component
        alternative.tier = "dill"
        if VERDICTS.get(kinds):
            return alternative
        alternative.pickler = None
        component.alternative = alternative
        return component

    def attribute_losses(self) -> None:
        """Attribute losses and notes to the names of their component, where that is quick."""
        for component in self._attempts:
            names = [name for what, name in component.roots if what == "name"]
            pickler = component.pickler
            if not (component.losses or component.notes) or len(names) < 2 or pickler is None:
                continue
            if component.cost > _QUICK or len(component.stream) > _QUICKLY_SEARCHED:
                continue
            lost = list(zip(pickler.lost, component.losses))  # noqa: B905 - Python 3.9
            self.alarm.renew(1.0, at_once=True)
            try:
                found = shares(self.context, component.roots, lost, component.notes)
                component.shares.update(found)
            except DeadlineExceeded:
                pass
            finally:
                self.alarm.pause()

    def skeletons(self) -> tuple[bytes, list[str]]:
        """Return the pickled skeletons of all classes, bases first, and the keys of the classes."""
        registrar = ComponentPickler(io.BytesIO(), self.context)
        order = classes.bases_first(self.context.classes, registrar)
        return pickle.dumps([self.context.skeletons[key] for key in order], PROTOCOL), order


def _order(root: Any) -> tuple[bool, Any]:
    return root[0] != "class", root


def _explain(error: BaseException, budget: Budget) -> str:
    if isinstance(error, TotalExceeded):
        return f"the time for all variables together ({budget.total:g} s) was used up"
    if isinstance(error, DeadlineExceeded):
        return f"pickling it took longer than {budget.per_root:g} s"
    return describe(error)
