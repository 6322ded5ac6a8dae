"""The policy for restoring variables when the process that held them is gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from prime_ext.agent.kernel_events import RESTORE_STOPPED
from prime_ext.session.records import AnyRecord, Interrupt, Restore, RestoreStart, Snapshot

MAX_IN_A_ROW = 2
"""Number of consecutive automatic restores that may fail to last. After that, what is restored may
be what ends the kernel or the server: a value whose threads crash the process, or a load that takes
all memory, or that hangs until somebody stops the server."""

LASTING_SECONDS = 300.0
"""Seconds that a restored process must live for its restore to have lasted, if no code runs in it.

Short enough that a long cell that crashes at its end is restored each time, and long enough that a
state that ends its process a while after each restore is noticed."""

FOLLOWING = ("restore", "snapshot", "interrupt")
"""Kinds of the records that say, after a ``restore_start``, what became of that restore."""

Action = Literal["restore", "offer", "leave"]


def decide(mode: str, trigger: str, in_a_row: int = 0) -> Action:
    """Decide whether to restore automatically, offer a restore, or do nothing.

    Parameters
    ----------
    mode:
        ``auto``, ``always``, ``ask`` or ``never``, as ``SnapshotConfig.restore``.
    trigger:
        ``crash``, ``restart`` (by a person), ``shutdown`` (of the kernel) or ``resume`` (after a
        restart of the server, or on another machine). In all cases except a crash a clean kernel
        may be wanted, so ``auto`` only offers the restore.
    in_a_row:
        As `restores_in_a_row` returns it.
    """
    if mode == "never":
        return "leave"
    if in_a_row >= MAX_IN_A_ROW:
        return "offer"
    if mode == "always" or (mode == "auto" and trigger == "crash"):
        return "restore"
    return "offer"


def is_cut_off(start: RestoreStart, later: Sequence[AnyRecord]) -> bool:
    """Whether an automatic restore ended with its server, instead of by itself or by a person.

    Parameters
    ----------
    later:
        Records of the kinds in `FOLLOWING` that follow ``start``.
    """
    if _is_saved(later) or _is_stopped(start, later):
        return False
    return all(restore.reason == RESTORE_STOPPED for restore in _restores(later))


def restores_in_a_row(
    start: RestoreStart,
    later: Sequence[AnyRecord],
    *,
    trigger: str,
    lost_at: datetime,
    has_run: bool,
) -> int:
    """Count the consecutive automatic restores, up to the last one, that did not last.

    A restore has lasted if code has run to its end since, if the process then lived for
    `LASTING_SECONDS`, or if a person has acted: stopped the restore, restored variables, or
    restarted the kernel. One that was complete when the server ended is not counted, but does not
    end the row either, since the reason for that end is not known.

    Parameters
    ----------
    start:
        Record of the last automatic restore.
    later:
        Records of the kinds in `FOLLOWING` that follow ``start``, oldest first.
    trigger:
        As in `decide`, of the present loss.
    lost_at:
        Time of the present loss.
    has_run:
        Whether code is known to have run to its end after the last automatic restore.
    """
    restores = _restores(later)
    triggers = {trigger, *(restore.trigger for restore in restores)}
    if has_run or _is_stopped(start, later) or triggers & {"restart", "shutdown", "manual"}:
        return 0
    if not restores or restores[0].outcome == "offered":  # It was not completed.
        return 0 if _is_saved(later) else start.consecutive
    # If an offer has followed, the restored process ended then.
    ended = restores[1].time if len(restores) > 1 else lost_at
    if (ended - restores[0].time).total_seconds() >= LASTING_SECONDS:
        return 0
    return start.consecutive - (trigger == "resume")


def _restores(later: Sequence[AnyRecord]) -> list[Restore]:
    return [r for r in later if isinstance(r, Restore) and r.trigger != "compaction"]


def _is_saved(later: Sequence[AnyRecord]) -> bool:
    return any(isinstance(r, Snapshot) and r.outcome == "ok" for r in later)


def _is_stopped(start: RestoreStart, later: Sequence[AnyRecord]) -> bool:
    """Whether a person has stopped the turn of the restore."""
    stopped = [r.turn for r in later if isinstance(r, Interrupt) and r.user is not None]
    return start.turn is not None and start.turn in stopped
