"""Saving a namespace."""

from __future__ import annotations

import datetime
import os
import platform
import secrets
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from . import (
    altered,
    baseline,
    dill_judge,
    forking,
    format,
    library_settings,
    lock,
    plain_state,
    process_state,
    size_budget,
    verification,
    verifier,
    writer,
)
from .components import Pickled, pickle_all
from .errors import SnapshotError, SnapshotMissing, SnapshotWriteError
from .format import Manifest
from .namespace import current_namespace, stray_keys, user_names
from .offload import Writing, monotonic_ms
from .process import PROCESS
from .quiet import Quiet
from .recipes import Recipes, type_name
from .report import DEGRADED, SKIPPED, UNVERIFIED, NameStatus, Report
from .signing import user_key
from .time_budget import Budget

LOCK_SECONDS = 30.0

TOGETHER = "in an object that is saved together with it: "


_compared: set[str] = set()
"""Ids of the snapshots from which a save of this process has taken over data."""


class Saving:
    """A save whose pickling is done, while the writing may still be in progress.

    Attributes
    ----------
    report: complete once the snapshot is durable. Until then it lacks sizes, generation and
        fingerprint, and the results of comparisons of restored data that are still running.
    """

    def __init__(
        self, report: Report, release: ExitStack, started: float, last: Manifest | None
    ) -> None:
        self.report = report
        self._last = last
        self._release = release
        self._started = started
        self._event = Event()
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return whether the write has ended, with a durable snapshot or with an error."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> Report:
        """Wait until the snapshot is durable and return the report.

        Raises the writer's exception if the write failed, and `TimeoutError` after ``timeout``
        seconds.
        """
        if not self._event.wait(timeout):
            raise TimeoutError("The snapshot is still being written.")
        if self._error is not None:
            raise self._error
        return self.report

    def _finish(self, outcome: writer.Written | BaseException, kind: str) -> None:
        self._release.close()
        if isinstance(outcome, BaseException):
            self._error = outcome
        else:
            _complete(self.report, outcome)
            if self._last is not None:
                _compared.add(self._last.id)
            self.report.writer = "none" if outcome.unchanged else kind
            self.report.duration_ms = monotonic_ms(self._started)
        self._event.set()


def _complete(report: Report, written: writer.Written) -> None:
    report.bytes = written.bytes
    report.unchanged = written.unchanged
    report.total_bytes = written.total_bytes
    report.generation = written.generation
    report.fingerprint = written.fingerprint
    for name, (status, size) in written.names.items():
        report.names[name].status = status
        report.names[name].size = size
    for name, entry in written.altered.items():
        report.names[name] = NameStatus.from_entry(entry)


def begin(
    directory: str | os.PathLike[str],
    namespace: dict[str, Any] | None = None,
    *,
    key: bytes | None = None,
    names: list[str] | None = None,
    exclude: list[str] | None = None,
    seq: int | None = None,
    kernelspec: str | None = None,
    after_generation: int = 0,
    seconds_per_variable: float = Budget.per_root,
    seconds_total: float = Budget.total,
    max_bytes: int | None = None,
    lock_timeout: float = LOCK_SECONDS,
    fork: bool = True,
    wait: bool = False,
) -> Saving:
    """Pickle the namespace now and write it in the background, for callers that must not block.

    Parameters
    ----------
    directory: where the snapshot is stored; created with mode 0700 if missing.
    namespace: default: the user namespace in IPython, otherwise that of ``__main__``.
    key: signs the head; default: the per-user key.
    names: save only these names; default: all names the user has set.
    exclude: names to leave out.
    seq, kernelspec: stored in the manifest for the caller's own use.
    after_generation: the snapshot gets a higher generation than this, even if the files of the
        previous snapshot are lost; for callers that remember the last generation they saved.
    seconds_per_variable, seconds_total: time budgets for pickling. A variable that exceeds them
        is reported as skipped and stays in the namespace.
    max_bytes: limit for the size of the snapshot; the largest variables are left out to keep
        within it. The size never exceeds that of the last snapshot plus 90 % of the free disk
        space, whatever this limit is.
    lock_timeout: seconds to wait for another writer.
    fork: write in a forked child where that is safe.
    wait: block until the snapshot is durable. If the child process is lost, the calling thread
        writes the snapshot itself.

    Raises `SnapshotBusy` if another writer keeps the lock, and `SnapshotWriteError` if the
    directory cannot be used or the namespace has keys that are not strings (in the user namespace
    such keys are left out, with a note). `Saving.wait` raises the errors of the write itself. A
    `KeyboardInterrupt` leaves everything as it was.
    """
    started = time.perf_counter()
    target = Path(os.path.abspath(directory))
    namespace = current_namespace() if namespace is None else namespace
    strays = stray_keys(namespace)
    if strays and namespace is not current_namespace():
        raise SnapshotWriteError(
            "The keys of a namespace are strings, the names of its variables. Nothing was saved, "
            f"because of {strays}."
        )
    key = user_key() if key is None else key
    writer.make_directories(target)
    filters = library_settings.warning_filters()
    with ExitStack() as guard, Quiet():
        guard.enter_context(lock.exclusive(target / format.DATA_NAME, lock_timeout))
        writer.prepare_directory(target)
        last, intact = _last(target, key)
        pickling = time.perf_counter()
        pickled = pickle_all(
            namespace,
            _chosen(namespace, names, exclude),
            Budget(seconds_per_variable, seconds_total),
            in_place=wait or (fork and forking.is_safe()),
        )
        pickling_ms = monotonic_ms(pickling)
        dill_judge.judge(pickled)
        size_budget.leave_out(pickled, size_budget.allowed(target, last, max_bytes))
        number = 1 + max(after_generation, 0 if last is None else last.generation)
        # Listed before `_draft` asks which names hold altered data: a comparison that ends in
        # between then counts in both places, instead of in neither.
        under_way = altered.under_way(namespace)
        manifest = _draft(namespace, pickled, number, seq, kernelspec)
        report = _report(manifest)
        report.pickling_ms = pickling_ms
        places, others = process_state.unsaved_changes(namespace)
        report.notes.extend(_notes_on(places, others, pickled))
        if strays:
            report.notes.append(
                f"keys of the namespace that are not names were not saved: {strays}"
            )
        if not intact:
            report.notes.append(
                "The snapshot that was here is damaged or signed with another key. It is set "
                "aside, and loaded with generation='kept' and its own key."
            )
        unsaved = [*(place.removesuffix("[]") for place in places), *others]
        recorded, left_out = plain_state.dump(
            process_state.capture(pickled.context, filters, unsaved)
        )
        report.notes += left_out
        skeletons = pickled.skeletons
        components = writer.place_small(pickled.components)
        # What was only needed until here is freed before the fork, because afterwards that would
        # copy the memory pages that the child shares. `Writing` keeps the job for the same reason.
        del pickled
        job = writer.Job(
            directory=target,
            key=key,
            components=components,
            skeletons=skeletons,
            process_state=recorded,
            manifest=manifest,
            last=last,
            last_intact=intact,
            trusts_last=last is None or last.process == PROCESS or last.id in _compared,
            under_way=under_way,
            recipes=_recipes(namespace, manifest, set().union(*(of for _, of in under_way))),
            verified=verification.verified_fingerprints(target, key, last),
        )
        saving = Saving(report, guard.pop_all(), started, last)
        # Fork while garbage collection is still off: there are many new objects by now, so a
        # collection would take long, and it would find nothing.
        writing = Writing(job, fork=fork and forking.is_safe(), wait=wait, done=saving._finish)
    writing.start()
    report.pause_ms = monotonic_ms(started)
    return saving


def _notes_on(places: list[str], others: list[str], pickled: Pickled) -> list[str]:
    """Say what is not saved of the notebook's changes outside its variables, and why.

    ``places`` and ``others`` are those of `process_state.unsaved_changes`.
    """
    reasons = dict.fromkeys(places, "only plain values are")
    reasons.update(
        (place, why) for (what, place), why in pickled.skipped.items() if what == "patch"
    )
    for component in pickled.components:
        if component.losses:
            loss = component.losses[0]
            reasons.update(
                (place, f"{loss.what}: {loss.why}")
                for what, place in component.roots
                if what == "patch"
            )
    return [
        f"{place.removesuffix('[]')} was set by the notebook and is not saved: {why}"
        for place, why in reasons.items()
    ] + [f"{what} is not saved: run the cell that makes it again" for what in others]


def _chosen(
    namespace: dict[str, Any], names: list[str] | None, exclude: list[str] | None
) -> list[str]:
    found = user_names(namespace)
    if names is not None:
        found = [name for name in names if name in namespace]
    return [name for name in found if name not in (exclude or ())]


def _last(directory: Path, key: bytes) -> tuple[Manifest | None, bool]:
    """Return the manifest of the current head, and false if a head exists but is unreadable."""
    try:
        return format.read_head(directory, key).manifest, True
    except SnapshotMissing:
        return None, True
    except SnapshotError:
        return None, False


def _draft(
    namespace: dict[str, Any],
    pickled: Pickled,
    generation: int,
    seq: int | None,
    kernelspec: str | None,
) -> Manifest:
    return Manifest(
        id=secrets.token_hex(8),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        generation=generation,
        seq=seq,
        kernelspec=kernelspec,
        python=platform.python_version(),
        cache_tag=sys.implementation.cache_tag or "",
        process=PROCESS,
        names=_name_entries(namespace, pickled),
        skeleton_keys=pickled.skeleton_keys,
        modules=dict(pickled.context.modules),
    )


def _name_entries(namespace: dict[str, Any], pickled: Pickled) -> dict[str, dict[str, Any]]:
    """Return one manifest entry per name; those of degraded and skipped names have a recipe."""
    recipes = Recipes(namespace)
    holding = altered.holding(namespace)
    entries: dict[str, dict[str, Any]] = {}

    def add(name: str, status: str, reason: str, component: int | None) -> None:
        recipe = recipes.of(name) if status in (DEGRADED, SKIPPED) else None
        entries[name] = {
            "status": status,
            "reason": reason,
            "recipe": None if recipe is None else asdict(recipe),
            "type": type_name(namespace[name]),
            "size": 0,
            "component": component,
        }

    for index, component in enumerate(pickled.components):
        names = {name for what, name in component.roots if what == "name"}
        holds_altered = not names.isdisjoint(holding)
        for what, name in component.roots:
            if what == "name":
                share = component.shares.get(name)
                losses = component.losses if share is None else share.losses
                notes = component.notes if share is None else share.notes
                reasons = [f"{loss.what}: {loss.why}" for loss in losses] + notes
                if reasons and share is None and len(names) > 1:
                    reasons[0] = f"{TOGETHER}{reasons[0]}"
                if holds_altered:
                    reasons.append(altered.ALTERED)
                status = DEGRADED if losses or holds_altered else UNVERIFIED
                add(name, status, "; ".join(dict.fromkeys(reasons)), index)
    for (what, name), reason in pickled.skipped.items():
        if what == "name":
            add(name, SKIPPED, reason, None)
    return entries


def _recipes(
    namespace: dict[str, Any], manifest: Manifest, names: set[str]
) -> dict[str, dict[str, Any]]:
    """Return the recipes of all names that share a component with one of ``names``."""
    recipes = Recipes(namespace)
    return {name: asdict(recipes.of(name)) for name in writer.saved_with(manifest, names)}


def _report(manifest: Manifest) -> Report:
    report = Report("save")
    for name, entry in manifest.names.items():
        report.names[name] = NameStatus.from_entry(entry)
    return report


def fingerprint(namespace: dict[str, Any] | None = None) -> str:
    """Return a digest of the namespace as a save would see it, without writing anything."""
    namespace = current_namespace() if namespace is None else namespace
    return writer.combine_fingerprints(*_fingerprints(namespace, frozenset()))


def _fingerprints(
    namespace: dict[str, Any], left_out: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Return the fingerprints of all components, and the sorted names that are in none.

    A component all of whose names are in ``left_out`` (names that the snapshot to compare with
    does not hold) counts as skipped.
    """
    pickled = pickle_all(namespace, user_names(namespace), Budget())
    skipped = {name for what, name in pickled.skipped if what == "name"}
    parts = []
    for component in pickled.components:
        names = {name for what, name in component.roots if what == "name"}
        if names and names <= left_out:
            skipped |= names
        else:
            parts.append(component.fingerprint())
    return parts, sorted(skipped)


def save(
    directory: str | os.PathLike[str],
    namespace: dict[str, Any] | None = None,
    *,
    verify: str = "background",
    **options: Any,
) -> Report:
    """Save a namespace and return once the snapshot is durable.

    ``verify`` says when another process reads every new component back: in the ``background``
    (`inspect` then shows the results), before returning (``wait``), or never (``off``). The
    other options are those of `begin`.
    """
    if verify not in ("background", "wait", "off"):
        raise ValueError(f"verify must be 'background', 'wait' or 'off', not {verify!r}.")
    report = begin(directory, namespace, wait=True, **options).wait()
    if verify != "off":
        verify_saved(Path(os.path.abspath(directory)), options.get("key"), report, verify == "wait")
    return report


def verify_saved(directory: Path, key: bytes | None, report: Report, wait: bool) -> None:
    """Read a snapshot back in another process; with ``wait``, update the statuses of the report."""
    key = user_key() if key is None else key
    if all(status.status != UNVERIFIED for status in report.names.values()):
        return
    if not wait:
        verifier.start(directory, key)
        return
    verifier.run(directory, key)
    manifest = format.read_head(directory, key).manifest
    verification.merge(manifest, verification.read(directory, key))
    for name, entry in manifest.names.items():
        if name in report.names:
            report.names[name].status = entry["status"]
            report.names[name].reason = entry["reason"]


def is_current(
    directory: str | os.PathLike[str],
    namespace: dict[str, Any] | None = None,
    *,
    key: bytes | None = None,
) -> bool:
    """Return whether a save would give the last snapshot again, process state left aside."""
    key = user_key() if key is None else key
    namespace = current_namespace() if namespace is None else namespace
    try:
        manifest = format.read_head(Path(os.path.abspath(directory)), key).manifest
    except SnapshotError:
        return False
    if set(manifest.names) != set(user_names(namespace)):
        return False
    left_out = frozenset(n for n, entry in manifest.names.items() if entry["component"] is None)
    parts, skipped = _fingerprints(namespace, left_out)
    as_restored = [baseline.saved_as(part) for part in parts]
    return manifest.fingerprint in (
        writer.combine_fingerprints(parts, skipped),
        writer.combine_fingerprints(as_restored, skipped),
    )
