"""The policy for restoring variables when the process that held them is gone."""

from __future__ import annotations

from typing import Literal

Action = Literal["restore", "offer", "leave"]


def decide(mode: str, trigger: str) -> Action:
    """Decide whether to restore automatically, offer a restore, or do nothing.

    Parameters
    ----------
    mode:
        ``auto``, ``always``, ``ask`` or ``never``, as ``SnapshotConfig.restore``.
    trigger:
        ``crash``, ``restart`` (by a person), ``shutdown`` (of the kernel) or ``resume`` (after a
        restart of the server, or on another machine). In all cases except a crash a clean kernel
        may be wanted, so ``auto`` only offers the restore.
    """
    if mode == "never":
        return "leave"
    if mode == "always" or (mode == "auto" and trigger == "crash"):
        return "restore"
    return "offer"
