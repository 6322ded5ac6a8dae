"""Whether a snapshot matches the live variables, decided without asking the kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.state import Manifest


@dataclass(frozen=True)
class Moment:
    """A kernel process at a point of its life, counted in the runs of code that have begun."""

    kernel_id: str | None
    generation: int
    runs: int

    def same_process(self, other: Moment | None) -> bool:
        return other is not None and (other.kernel_id, other.generation) == (
            self.kernel_id,
            self.generation,
        )

    def is_reached_by(self, other: Moment | None) -> bool:
        """Whether ``other`` is the same moment or a later one, in this process or a later one."""
        return other is not None and (other.generation, other.runs) >= (
            self.generation,
            self.runs,
        )


def kernel_status(
    *, state: str, unavailable: str | None, captured: Moment | None, now: Moment
) -> str:
    """Return the status of the snapshot: ``current``, ``busy``, ``stale`` or ``none``.

    Parameters
    ----------
    state:
        State of the kernel.
    unavailable:
        Why no snapshot can be made; ``None`` if it can.
    captured:
        Moment of the last snapshot; ``None`` if this server has made none.
    now:
        The present moment.
    """
    if state in ("none", "dead") or unavailable is not None:
        return "none"
    if captured == now and state != "starting":
        return "current"
    return "busy" if state == "busy" else "stale"


def told_state(
    status: str, manifest: Manifest | None, reason: str | None, *, is_off: bool
) -> dict[str, Any]:
    """Summarize kernel and snapshot: ``{status, names, snapshot_id?, age_s?, reason?, off?}``.

    Parameters
    ----------
    status:
        ``current`` (the live variables are saved), ``busy``, ``stale`` (the snapshot is older than
        the live variables) or ``none`` (no kernel, or no snapshot possible).
    manifest:
        Manifest of the newest snapshot. Its names are counted by status.
    reason:
        Why no snapshot can be made.
    is_off:
        Whether snapshots were switched off on purpose.
    """
    told: dict[str, Any] = {"status": status, "names": {}}
    if manifest is not None:
        told["snapshot_id"] = manifest.id
        told["names"] = dict(Counter(entry["status"] for entry in manifest.names.values()))
        told["age_s"] = _age(manifest.created)
    if reason:
        told["reason"] = reason
    if is_off:
        told["off"] = True
    return told


def _age(created: str) -> int | None:
    """Seconds since ``created``; ``None`` if it is not an ISO date."""
    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return None
    return max(0, round((datetime.now(timezone.utc) - then).total_seconds()))
