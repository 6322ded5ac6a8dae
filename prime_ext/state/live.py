"""Deciding which names of a snapshot to load, and which live objects to keep."""

from __future__ import annotations

from typing import Any

from . import baseline
from .components import pickle_all
from .format import Manifest
from .namespace import user_names
from .report import NameStatus, Report
from .time_budget import Budget

CHANGED = "it was changed since the snapshot, so the live value stays"


def decide(
    manifest: Manifest,
    namespace: dict[str, Any],
    wanted: list[str],
    overwrite: bool,
    report: Report,
) -> list[str]:
    """Return the names to load, and add the status of all others to the report.

    A live object that is as it was saved is kept. One that differs is kept too, unless
    ``overwrite`` is set.
    """
    live = set(user_names(namespace))
    present = [n for n in wanted if n in live and manifest.names[n]["component"] is not None]
    same = _unchanged(manifest, namespace, present) if present else set()
    to_load = []
    for name in wanted:
        entry = manifest.names[name]
        status = NameStatus.from_entry(entry)
        if name in same:
            status.action = "kept"
        elif entry["component"] is None:
            status.action = "kept" if name in live else "none"
            report.complete = report.complete and name in live
        elif name in live and not overwrite:
            status.action = "kept"
            status.reason = CHANGED
        else:
            to_load.append(name)
            continue
        report.names[name] = status
    return to_load


def _unchanged(manifest: Manifest, namespace: dict[str, Any], present: list[str]) -> set[str]:
    """Return the names whose components, if they contain one of ``present``, are as saved."""
    saved = {record.fingerprint for record in manifest.components}
    pickled = pickle_all(namespace, user_names(namespace), Budget())
    found: set[str] = set()
    for component in pickled.components:
        names = [name for what, name in component.roots if what == "name"]
        if not any(name in present for name in names):
            continue
        fingerprint = component.fingerprint()
        if fingerprint in saved or baseline.saved_as(fingerprint) in saved:
            found.update(names)
    return found
