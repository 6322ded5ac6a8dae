"""Whether a snapshot is what is live: decided from what is known, without asking the kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.state import Manifest


@dataclass(frozen=True)
class Moment:
    """Which process, and how far it had come: code that ran since makes a difference."""

    kernel_id: str | None
    generation: int
    runs: int

    def same_process(self, other: Moment | None) -> bool:
        return other is not None and (other.kernel_id, other.generation) == (
            self.kernel_id,
            self.generation,
        )

    def is_reached_by(self, other: Moment | None) -> bool:
        """Whether ``other`` is the same or a later one, of this process or of one after it."""
        return other is not None and (other.generation, other.runs) >= (
            self.generation,
            self.runs,
        )


def kernel_status(
    *, state: str, unavailable: str | None, captured: Moment | None, now: Moment
) -> str:
    """``current``, ``busy``, ``stale`` or ``none``: what may be said of the snapshot.

    Parameters
    ----------
    state:
        State of the kernel.
    unavailable:
        Why there can be no snapshot; ``None`` if there can.
    captured:
        When the last snapshot was taken; ``None`` if there is none of this server's life.
    now:
        The present.
    """
    if state in ("none", "dead") or unavailable is not None:
        return "none"
    if captured == now and state != "starting":
        return "current"
    return "busy" if state == "busy" else "stale"


def told_state(
    status: str, manifest: Manifest | None, reason: str | None, *, is_off: bool
) -> dict[str, Any]:
    """``{status, names, snapshot_id?, age_s?, reason?, off?}``: kernel and snapshot in a few words.

    Parameters
    ----------
    status:
        ``current`` (what is live is what is saved), ``busy``, ``stale`` (older than what is live)
        or ``none`` (no kernel, or no snapshot possible).
    manifest:
        Of the newest snapshot, whose names are counted by status.
    reason:
        Why there can be no snapshot.
    is_off:
        That is somebody's choice.
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
    """Seconds since then; ``None`` if that is no date."""
    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return None
    return max(0, round((datetime.now(timezone.utc) - then).total_seconds()))
