"""What to do when the process that held the variables is gone."""

from __future__ import annotations

from typing import Literal

Action = Literal["restore", "offer", "leave"]


def decide(mode: str, trigger: str) -> Action:
    """Restore by itself, offer to, or leave it.

    Parameters
    ----------
    mode:
        ``auto``, ``always``, ``ask`` or ``never``, as ``SnapshotConfig.restore``.
    trigger:
        ``crash``; or ``restart`` by a person, ``shutdown`` of the kernel, ``resume`` after a
        restart of the server or on another machine. After these a clean kernel may be what is
        wanted, so that ``auto`` asks.
    """
    if mode == "never":
        return "leave"
    if mode == "always" or (mode == "auto" and trigger == "crash"):
        return "restore"
    return "offer"
