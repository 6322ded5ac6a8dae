"""Restoring a namespace."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import (
    altered,
    baseline,
    format,
    history,
    live,
    lock,
    patches,
    process_state,
    recipes,
    reducers,
    restorers,
    verification,
)
from .errors import SnapshotCorrupt
from .format import Head, Manifest
from .function_settings import is_place
from .loader import Loader
from .namespace import current_namespace, user_names
from .offload import monotonic_ms
from .pickling import describe
from .process import PROCESS
from .report import SKIPPED, NameStatus, Report
from .restored import fill_report
from .segments import SegmentReader
from .signing import user_key
from .unrestorable import Unrestorable
from .writer import keep_head

SECONDS_PER_COMPONENT = 120.0
WRITER_SECONDS = 30.0

_log = logging.getLogger("prime_ext.state")


def load(
    directory: str | os.PathLike[str],
    namespace: dict[str, Any] | None = None,
    *,
    key: bytes | None = None,
    mode: str = "auto",
    names: list[str] | None = None,
    overwrite: bool = False,
    generation: str = "current",
    verify: str = "background",
    restore_process_state: bool = True,
    seconds_per_component: float = SECONDS_PER_COMPONENT,
    lock_timeout: float = WRITER_SECONDS,
    cautious: bool | None = None,
) -> Report:
    """Restore a snapshot into a namespace.

    Parameters
    ----------
    directory, namespace, key: as for saving.
    mode: ``hot`` restores variables only; ``cold`` also restores the process state and, unless
        ``names`` are given, the notebook's changes to modules; ``auto`` is ``hot`` in the
        process that saved the snapshot, otherwise ``cold``.
    names: load only these names; default: all.
    overwrite: replace names that exist and differ from the snapshot. Without it they stay. A name
        whose live value is as it was saved always keeps it.
    generation: ``current``, ``previous``, ``kept`` (the one that was set aside, for example
        because its restore was incomplete), or ``kept-N`` (that of an earlier process).
    verify: compare mapped data with its digests before use (``wait``), not at all (``off``), or
        small snapshots before use and the bulk of large ones in the ``background`` (`altered`).
        A mismatch found in the background is logged, and changes the status and reason of the
        names in the report.
    restore_process_state: restore working directory, ``sys.path``, random states and options.
    seconds_per_component: a component that takes longer to load is abandoned and reported.
    lock_timeout: seconds to wait for a writer in progress, such as one that outlives a killed
        kernel. After that the snapshot before is loaded, with a note.
    cautious: leave out, and report, the components that hung or ended the process that read
        them back, and allow those not read back yet only a few seconds. Default: cautious unless
        ``names`` are given.

    Raises `SnapshotMissing`, `SnapshotRefused` or `SnapshotCorrupt` before anything is unpickled
    or changed. Later failures concern single names and are in the report.
    """
    if mode not in ("auto", "hot", "cold"):
        raise ValueError(f"mode must be 'auto', 'hot' or 'cold', not {mode!r}.")
    if verify not in ("background", "wait", "off"):
        raise ValueError(f"verify must be 'background', 'wait' or 'off', not {verify!r}.")
    started = time.perf_counter()
    source = Path(os.path.abspath(directory))
    namespace = current_namespace() if namespace is None else namespace
    key = user_key() if key is None else key
    reducers.load()
    restorers.publish()
    superseded = generation == "current" and not lock.wait_for_writer(
        source / format.DATA_NAME, lock_timeout
    )
    head, reader = _open(source, key, generation)
    results = verification.read(source, key)
    verification.merge(head.manifest, results)
    loader = Loader(
        head, reader, namespace, _checked_at_once(verify, head.manifest), seconds_per_component
    )
    if names is None if cautious is None else cautious:
        loader.beware(verification.dangers(head.manifest, results))
    hot = mode == "hot" or (mode == "auto" and head.manifest.process == PROCESS)
    report = Report(
        "load", generation=head.manifest.generation, fingerprint=head.manifest.fingerprint
    )
    if superseded:
        report.notes.append(
            "another process was still saving here: this is the snapshot before that one"
        )
    wanted = [name for name in head.manifest.names if names is None or name in names]
    for name in set(names or ()) - set(wanted):
        report.names[name] = NameStatus(SKIPPED, "the snapshot does not hold this name")
    to_load = live.decide(head.manifest, namespace, wanted, overwrite, report)
    state = None
    if not hot and restore_process_state:
        try:
            state, problems = loader.process_state()
            report.notes.extend(problems)
            report.complete &= not problems
        except SnapshotCorrupt as error:
            report.notes.append(f"the state of the process is not restored: {error}")
            report.complete = False
    if state is not None:
        process_state.apply_early(state, report.notes)
    try:
        restored = loader.restore(to_load, patched=not hot and names is None)
    except BaseException:  # an interrupt: whatever is saved next holds only a part of the names
        _set_aside(source, generation)
        raise
    namespace.update(restored.values)
    settings = {w: restored.patched.pop(w) for w in filter(is_place, list(restored.patched))}
    _patch(restored.patched, report, loader.context)
    if state is not None:
        process_state.apply_late(state, namespace, report.notes)
        if names is None:
            with restorers.loading(loader.context):
                history.restore(state.get("history"), namespace, set(restored.values))
    # Now, because setting other options may have reset these.
    _patch(settings, report, loader.context)
    fill_report(report, head.manifest, to_load, restored)
    if not report.complete:
        recipes.complete(report, head.manifest, loader.cells())
    report.notes.extend(dict.fromkeys(loader.context.notes))
    hint = format.other_generation(source, generation)
    for problem in reader.damaged.values():
        report.notes.append(f"{problem} {hint}".rstrip())
        _log.error("The kernel state to restore is damaged: %s", report.notes[-1])
    for name, value in restored.values.items():
        if altered.MARK in head.manifest.names[name]["reason"]:
            altered.remember(name, value)
    if not hot and set(restored.values) == set(user_names(namespace)):
        baseline.learn(namespace, head.manifest)
    report.bytes = reader.mapped
    report.total_bytes = head.manifest.total_bytes
    if not report.complete:
        _set_aside(source, generation)
    if verify == "background":

        def alarm(problem: str, names: set[str]) -> None:
            told = f"{problem} {hint}".rstrip()
            report.found_altered(names, altered.ALTERED, told)
            of = f" ({', '.join(sorted(names))})" if names else ""
            _log.error("Restored kernel state is damaged%s: %s", of, told)

        comparison = altered.Comparison(reader, loader.unchecked, restored.values, alarm)
        report._check = comparison.thread
    report.duration_ms = report.pause_ms = monotonic_ms(started)
    return report


def _set_aside(directory: Path, generation: str) -> None:
    """Keep a snapshot that was not restored completely, whatever is saved after it."""
    if not generation.startswith("kept"):
        keep_head(format.head_path(directory, generation), format.head_path(directory, "kept"))


def _patch(patched: dict[str, Any], report: Report, context: restorers.LoadContext) -> None:
    for where, value in patched.items():
        try:
            if not isinstance(value, Unrestorable):
                with restorers.loading(context):  # the module may have to be imported
                    patches.put(where, value)
        except Exception as error:
            report.notes.append(f"the patch of {where} could not be applied: {describe(error)}")


def _open(directory: Path, key: bytes, generation: str) -> tuple[Head, SegmentReader]:
    """Return a head and its open segments, consistent even while another process is saving."""
    attempts = 3
    while True:
        head = format.read_head(directory, key, generation)
        reader = SegmentReader(directory / format.DATA_NAME)
        reader.open_all(head.manifest.segments())
        attempts -= 1
        if not reader.problems or not attempts:
            return head, reader
        # A save may have replaced head and segments between the two steps above.
        again = format.read_head(directory, key, generation)
        if again.manifest.id == head.manifest.id:
            return head, reader


def _checked_at_once(verify: str, manifest: Manifest) -> int:
    """Return how many bytes of mapped data to compare with their digests before use."""
    return {"wait": sys.maxsize, "background": altered.at_once(manifest), "off": 0}[verify]
