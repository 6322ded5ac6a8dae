"""The exceptions of this library. Their messages say what to do."""

from __future__ import annotations


class SnapshotError(Exception):
    """Base class of this library's exceptions."""


class SnapshotMissing(SnapshotError):
    """There is no snapshot in the directory (or not the generation asked for)."""


class SnapshotRefused(SnapshotError):
    """The snapshot was altered, was signed with another key, or is not a regular file.

    Nothing in it was unpickled.
    """


class SnapshotCorrupt(SnapshotError):
    """The snapshot is damaged: truncated, altered, or a part of it is missing."""


class SnapshotTooNew(SnapshotCorrupt):
    """The snapshot has the format of another version of this library."""


class SnapshotBusy(SnapshotError):
    """Another process is writing to the same directory and did not finish in time."""


class SnapshotWriteError(SnapshotError):
    """The snapshot could not be written; the one before it is untouched."""
