"""Whether a snapshot is what is live: decided from what is known, without asking the kernel."""

from __future__ import annotations

from dataclasses import dataclass


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
