"""The policy for restoring variables when the process that held them is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from prime_ext.agent.kernel_events import RESTORE_STOPPED
from prime_ext.session.records import AnyRecord, Interrupt, Restore, RestoreStart, Snapshot

MAX_CUT_OFF = 2
"""Number of consecutive automatic restores that may end with their server. After that, restoring
may be what ends it: a load that takes all memory, or that hangs until somebody stops the server."""

TELLING = ("restore_start", "restore", "snapshot", "interrupt")
"""Kinds of the records that say how automatic restores have ended."""

Action = Literal["restore", "offer", "leave"]


def decide(mode: str, trigger: str, cut_off: int = 0) -> Action:
    """Decide whether to restore automatically, offer a restore, or do nothing.

    Parameters
    ----------
    mode:
        ``auto``, ``always``, ``ask`` or ``never``, as ``SnapshotConfig.restore``.
    trigger:
        ``crash``, ``restart`` (by a person), ``shutdown`` (of the kernel) or ``resume`` (after a
        restart of the server, or on another machine). In all cases except a crash a clean kernel
        may be wanted, so ``auto`` only offers the restore.
    cut_off:
        As `cut_off_restores` returns it.
    """
    if mode == "never":
        return "leave"
    if cut_off >= MAX_CUT_OFF:
        return "offer"
    if mode == "always" or (mode == "auto" and trigger == "crash"):
        return "restore"
    return "offer"


def cut_off_restores(records: Iterable[AnyRecord]) -> int:
    """Count the last automatic restores that ended with their server, without one that ended well.

    A restore that a person has stopped is not counted, and ends the count.

    Parameters
    ----------
    records:
        Records of the kinds in `TELLING`, newest first.
    """
    count = 0
    stopped = set()
    for record in records:
        if isinstance(record, Interrupt) and record.user is not None:
            stopped.add(record.turn)
        elif isinstance(record, RestoreStart):
            if record.turn is not None and record.turn in stopped:
                break
            count += 1
        elif isinstance(record, Snapshot) and record.outcome == "ok":
            break  # What the kernel holds has been saved since.
        elif isinstance(record, Restore) and not (
            record.trigger == "compaction" or record.reason == RESTORE_STOPPED
        ):
            break
    return count
