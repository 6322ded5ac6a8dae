"""What was done, name by name."""

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
"""For changes that another thread makes, and for reading a report as a whole."""


@dataclass
class Recipe:
    """How a name came about: reported, never replayed on its own.

    Attributes
    ----------
    type: qualified type name.
    repr: short representation, made without running the user's code.
    source: source of the cell that assigned the name, if it is known.
    depends: names of the namespace which that cell reads.
    """

    type: str
    repr: str = ""
    source: str | None = None
    depends: list[str] = field(default_factory=list)


@dataclass
class NameStatus:
    """The fate of one name.

    Attributes
    ----------
    status: ``verified`` (read back), ``unverified`` (written, not read back yet), ``degraded``
        (a placeholder inside, or data that was altered on the disk), or ``skipped`` (not in the
        snapshot, or not restored).
    reason: why it is not simply fine; an empty string where there is nothing to say.
    type: qualified type name.
    size: bytes of the name's component in the snapshot (shared by the names of the component).
    action: after a load, ``loaded``, ``kept`` (the live object stayed) or ``none``.
    left_out: after a cautious load, why a name was not loaded that is if it is asked for by name:
        reading it back ``hung``, reading it back ``ended`` the process, or it was ``slow`` here.
        Else an empty string.
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
        """From a manifest's entry."""
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
    names: every name concerned.
    notes: what concerns no single name (a module that is gone, a changed library).
    bytes: bytes written (save) or mapped and read (load).
    total_bytes: bytes of all live data of the snapshot.
    duration_ms: until durable (save) or until the namespace was complete (load).
    pause_ms: how long the calling thread could do nothing else.
    pickling_ms: what pickling has of that.
    generation: the number of the snapshot, counted from 1 in its directory.
    fingerprint: of the namespace as it was saved.
    unchanged: the save found the last snapshot still current and wrote nothing.
    complete: the load restored every name that the snapshot holds.
    writer: who wrote: ``fork``, ``thread``, ``inline``, or ``none``.
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
        """After a load: wait until the mapped data was compared with its digests.

        True once that is over; what was found is then in ``names``, ``notes`` and ``complete``.
        """
        if self._check is None:
            return True
        self._check.join(timeout)
        return not self._check.is_alive()

    def found_altered(self, names: Iterable[str], reason: str, note: str) -> None:
        """Bring it up to date with a check that ends after the load; from any thread."""
        with _changing:
            for name in names:
                status = self.names[name]
                status.reason = f"{status.reason}; {reason}" if status.reason else reason
                status.status = DEGRADED
            self.notes.append(note)
            self.complete = False

    def by_status(self) -> dict[str, list[str]]:
        """Names grouped by status, each group sorted."""
        groups: dict[str, list[str]] = {}
        for name in sorted(self.names):
            groups.setdefault(self.names[name].status, []).append(name)
        return groups

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        with _changing:
            return asdict(self)
