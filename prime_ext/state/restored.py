"""The result of loading components, and the statuses that the report gets from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import verification
from .format import Manifest
from .report import DEGRADED, SKIPPED, UNVERIFIED, VERIFIED, NameStatus, Report
from .unrestorable import Unrestorable


@dataclass
class Restored:
    """The loaded values and the problems, by name.

    ``failed`` maps the names that were not loaded to the reason, ``degraded`` those with
    placeholders inside; ``patched`` maps places of patches to values.
    """

    values: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Names among ``failed`` → `NameStatus.left_out`."""
    degraded: dict[str, str] = field(default_factory=dict)
    patched: dict[str, Any] = field(default_factory=dict)


def fill_report(report: Report, manifest: Manifest, to_load: list[str], restored: Restored) -> None:
    """Add the status of each name that was to be loaded to the report."""
    for name in to_load:
        status = NameStatus.from_entry(manifest.names[name])
        report.names[name] = status
        if name in restored.failed:
            status.status, status.action = SKIPPED, "none"
            status.reason = verification.join(status.reason, restored.failed[name])
            status.left_out = restored.left_out.get(name, "")
            report.complete = False
            continue
        status.action = "loaded"
        if name in restored.degraded:
            status.status = DEGRADED
            status.reason = verification.join(status.reason, restored.degraded[name])
            report.complete = False
        elif isinstance(restored.values[name], Unrestorable):
            status.status = DEGRADED
        elif status.status != DEGRADED:
            faithful, status.reason = verification.after_load(status.reason)
            status.status = VERIFIED if faithful else UNVERIFIED
