"""What can go wrong with a snapshot, as exceptions that say what to do."""

from __future__ import annotations


class SnapshotError(Exception):
    """Base of everything this library raises on purpose."""


class SnapshotMissing(SnapshotError):
    """There is no snapshot in the directory (or not the generation asked for)."""


class SnapshotRefused(SnapshotError):
    """The snapshot was not made with this key. Nothing in it was unpickled."""


class SnapshotCorrupt(SnapshotError):
    """The snapshot is damaged: truncated, altered, or a part of it is missing."""


class SnapshotTooNew(SnapshotCorrupt):
    """Another version of this library made the snapshot."""


class SnapshotBusy(SnapshotError):
    """Another process is writing to the same directory and did not finish in time."""


class SnapshotWriteError(SnapshotError):
    """The snapshot could not be written; the one before it is untouched."""
