"""The report of a save or load: the outcome for each name."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

VERIFIED = "verified"
DEGRADED = "degraded"
SKIPPED = "skipped"
UNVERIFIED = "unverified"

_changing = threading.Lock()
"""Guards a report against being read while a checking thread changes it."""


@dataclass
class Recipe:
    """How to make a variable again. A recipe is reported, never replayed automatically.

    Attributes
    ----------
    type: qualified type name.
    repr: short representation, made without running the user's code.
    source: source of the cell that assigned the name, or ``None`` if it is unknown.
    depends: names of the namespace that this cell reads.
    """

    type: str
    repr: str = ""
    source: str | None = None
    depends: list[str] = field(default_factory=list)


@dataclass
class NameStatus:
    """The outcome for one name.

    Attributes
    ----------
    status: ``verified`` (read back), ``unverified`` (written, not read back yet), ``degraded``
        (contains a placeholder, or data that was altered on disk), or ``skipped`` (not in the
        snapshot, or not restored).
    reason: explanation of the status; empty if there is nothing to explain.
    recipe: how to make the variable again, for degraded and skipped names.
    type: qualified type name.
    size: bytes of the name's component in the snapshot (shared by the names of the component).
    action: after a load, ``loaded``, ``kept`` (the live object stayed) or ``none``.
    left_out: after a cautious load, why the name was left out, although a load that asks for it
        by name would try it: reading it back ``hung``, reading it back ``ended`` the process, or
        loading it was ``slow`` here. Otherwise an empty string.
    """

    status: str
    reason: str = ""
    recipe: Recipe | None = None
    type: str = ""
    size: int = 0
    action: str = ""
    left_out: str = ""

    @classmethod
    def from_entry(cls, entry: dict[str, Any]) -> NameStatus:
        """Make a status from the name's entry in a manifest."""
        return cls(
            status=entry["status"],
            reason=entry["reason"],
            recipe=None if entry["recipe"] is None else Recipe(**entry["recipe"]),
            type=entry["type"],
            size=entry["size"],
        )


@dataclass
class Report:
    """The outcome of one save or load.

    Attributes
    ----------
    operation: ``save`` or ``load``.
    names: status by name, for every name concerned.
    notes: remarks that concern no single name (a missing module, a changed library).
    bytes: bytes written (save) or mapped and read (load).
    total_bytes: bytes of all live data of the snapshot.
    duration_ms: milliseconds until the snapshot was durable (save) or the namespace complete
        (load).
    pause_ms: milliseconds for which the calling thread was blocked.
    pickling_ms: the part of ``pause_ms`` spent on pickling.
    generation: number of the snapshot, counted from 1 in its directory.
    fingerprint: digest of the namespace as it was saved.
    unchanged: true if the last snapshot was still current, so that nothing was written.
    complete: true unless a load could not restore every name it was to restore.
    writer: what wrote the snapshot: ``fork``, ``thread``, ``inline``, or ``none``.
    """

    operation: str
    names: dict[str, NameStatus] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bytes: int = 0
    total_bytes: int = 0
    duration_ms: float = 0.0
    pause_ms: float = 0.0
    pickling_ms: float = 0.0
    generation: int = 0
    fingerprint: str = ""
    unchanged: bool = False
    complete: bool = True
    writer: str = "none"

    def __post_init__(self) -> None:
        self._check: threading.Thread | None = None

    def wait_for_check(self, timeout: float | None = None) -> bool:
        """After a load, wait until the mapped data has been compared with its digests.

        Returns true once the comparison is over; its results are then in ``names``, ``notes`` and
        ``complete``. Returns false after ``timeout`` seconds.
        """
        if self._check is None:
            return True
        self._check.join(timeout)
        return not self._check.is_alive()

    def found_altered(self, names: Iterable[str], reason: str, note: str) -> None:
        """Add the findings of a comparison that ran after the load. May be called in any thread."""
        with _changing:
            for name in names:
                status = self.names[name]
                status.reason = f"{status.reason}; {reason}" if status.reason else reason
                status.status = DEGRADED
            self.notes.append(note)
            self.complete = False

    def by_status(self) -> dict[str, list[str]]:
        """Return the names grouped by status, each group sorted."""
        groups: dict[str, list[str]] = {}
        for name in sorted(self.names):
            groups.setdefault(self.names[name].status, []).append(name)
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        with _changing:
            return asdict(self)
