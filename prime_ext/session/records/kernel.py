"""Records of the kernel's variables: saved, restored, offered."""

from __future__ import annotations

from typing import Any, ClassVar

from prime_ext.session.records.record import Record

NO_KERNEL = "no kernel is running"
"""Reason given for a snapshot that was not taken, and in a ``kernel_state`` of status ``none``."""


class Snapshot(Record, frozen=True, kw_only=True, omit_defaults=True, tag="snapshot"):
    kind: ClassVar[str] = "snapshot"

    outcome: str
    """``ok``, ``unchanged``, ``skipped``, ``failed``, or ``removed`` if all earlier snapshots were
    deleted from the disk."""
    trigger: str
    """``compaction``, ``turn``, ``shutdown``, ``manual`` or ``import``. For ``removed``: ``limit``
    (size of all snapshots) or ``off`` (snapshots turned off for the notebook)."""
    snapshot_id: str | None = None
    generation: int = 0
    """Number of the snapshot, incremented with each save; 0 if unknown."""
    kernel_id: str | None = None
    names: dict[str, dict[str, Any]] = {}
    """Name → ``{status, reason, recipe, type, size}``."""
    bytes: int = 0
    duration_ms: int = 0
    pause_ms: int = 0
    """Time for which the kernel was blocked."""
    reason: str | None = None


class RestoreStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="restore_start"):
    """The beginning of an automatic restore.

    If neither a ``restore`` nor a later ``snapshot`` follows, the server ended during the restore,
    perhaps because of it.
    """

    kind: ClassVar[str] = "restore_start"

    trigger: str
    """As in `Restore`."""
    consecutive: int = 1
    """1, or higher if the automatic restores before it did not last: its number in their row."""


class Restore(Record, frozen=True, kw_only=True, omit_defaults=True, tag="restore"):
    kind: ClassVar[str] = "restore"

    outcome: str
    """``ok``, ``partial``, ``unchanged``, ``failed``, ``skipped`` (with ``reason``) or ``offered``.

    ``offered`` means that the kernel is fresh, that ``snapshot_id`` can be restored, and that the
    user has not decided yet. If a restore was stopped, ``reason`` says so, and some variables may
    be defined."""
    mode: str
    """``hot`` or ``cold``."""
    trigger: str
    """``compaction``, ``crash``, ``restart``, ``shutdown`` (of the kernel, by the user or by
    culling), ``manual`` or ``resume``."""
    snapshot_id: str | None = None
    kernel_id: str | None = None
    names: dict[str, dict[str, Any]] = {}
    """Name → ``{status, reason, recipe, type, size, action, left_out}``; empty if ``unchanged``.

    ``left_out`` is given for names that are in the snapshot but were not loaded for safety, because
    reading them back ``hung`` or ``ended`` the process, was ``slow``, or was ``interrupted`` by the
    user. They are loaded if requested by name. Names that cannot be loaded at all have no
    ``left_out``.
    """
    asked: list[str] = []
    """Names that the user requested; empty if all."""
    saved: str | None = None
    """Time at which the snapshot that was restored, or is offered, was taken (UTC, ISO 8601), if it
    is not the newest. An older one is offered if the newest contains no variables."""
    behind: dict[str, Any] = {}
    """Runs in the ended process that are newer than the snapshot: ``{as_of, runs, code, cut_off?}``
    with the time of the snapshot (UTC, ISO 8601), the number of runs, the first lines of the last
    ten, and whether the last one was still running when the process ended. Empty if no such run is
    known."""
    attempts: int = 1
    duration_ms: int = 0
    reason: str | None = None
    empty: bool = False
    """Whether the snapshot contains no variables, so that there was nothing to restore."""


class Checkpoint(Record, frozen=True, kw_only=True, omit_defaults=True, tag="checkpoint"):
    """What was saved when a turn was complete, including its compaction if there was one.

    Its ``seq`` is the point in the conversation that the two other versions belong to.
    """

    kind: ClassVar[str] = "checkpoint"

    snapshot_id: str | None = None
    """Last snapshot of the kernel's variables that is recorded; ``None`` if there is none.

    The snapshot of the turn's last run may still be on its way, and is recorded later."""
    notebook_hash: str | None = None
    """SHA-256 of the notebook's file, in hexadecimal; ``None`` if the server has no such file."""
