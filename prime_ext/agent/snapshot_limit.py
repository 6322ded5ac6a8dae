"""Keeping the snapshots of all sessions within a size: the oldest go first."""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.errors import PrimeError
from prime_ext.kernel.snapshot_files import stored_bytes, stored_stamp
from prime_ext.session.records import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.session.store import SessionStore

AUTOMATIC_BYTES = 50_000_000_000
AUTOMATIC_SHARE = 0.1

REASON = "removed to keep all snapshots within SnapshotConfig.total_bytes"


@dataclass(frozen=True)
class Stored:
    """What is kept for one session."""

    session_id: str
    updated: str
    """When the session was last written; ISO 8601, UTC."""
    bytes: int


def to_remove(stored: Sequence[Stored], limit: int, in_use: frozenset[str]) -> list[str]:
    """Sessions whose snapshots go, the one that was used least recently first.

    A session in use keeps its own, even if they alone exceed the limit. All others count alike: a
    snapshot nobody came back for is the only copy of its variables nearly always, so that an
    exception for those would leave nothing to remove.
    """
    total = sum(entry.bytes for entry in stored)
    removed = []
    for entry in sorted(stored, key=lambda entry: entry.updated):
        if total <= limit:
            break
        if entry.bytes and entry.session_id not in in_use:
            removed.append(entry.session_id)
            total -= entry.bytes
    return removed


class SnapshotLimit:
    """Looks after the sum of all snapshots.

    Parameters
    ----------
    files:
        The snapshots of a session, by its id.
    total_bytes:
        The limit; 0: 10 % of the disk, 50 GB at most.
    """

    def __init__(
        self,
        store: SessionStore,
        files: Callable[[str], SnapshotFiles],
        total_bytes: int,
        log: logging.Logger,
    ) -> None:
        self._store = store
        self._files = files
        self._total_bytes = total_bytes
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._measured: dict[str, tuple[tuple[int, ...], int]] = {}
        """Session → stamp and size of its snapshots: most have not changed since."""

    @property
    def bytes(self) -> int:
        """The limit in bytes."""
        if self._total_bytes:
            return self._total_bytes
        share = int(shutil.disk_usage(self._store.folder).total * AUTOMATIC_SHARE)
        return min(AUTOMATIC_BYTES, share)

    def stored(self) -> list[Stored]:
        """What is kept, for each session. Looks at the disk: call it in a thread."""
        measured = {}
        stored = []
        for summary in self._store.list():
            folder = self._store.folder / summary.id
            stamp = stored_stamp(folder)
            known = self._measured.get(summary.id)
            if known is None or known[0] != stamp:
                known = (stamp, stored_bytes(folder))
            measured[summary.id] = known
            stored.append(Stored(summary.id, summary.updated, known[1]))
        self._measured = measured
        return stored

    def look(self) -> None:
        """Something was saved: see in the background whether anything has to go."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Let a removal that is under way end."""
        self._again = False
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                await asyncio.to_thread(self.enforce)
            except Exception:  # looking after the disk must not end anything else
                self._log.warning("Snapshots could not be kept within their limit", exc_info=True)

    def enforce(self) -> list[str]:
        """Remove what has to go; returns the sessions it belonged to. Call it in a thread."""
        removed = []
        for session_id in to_remove(self.stored(), self.bytes, self._store.open_ids()):
            if self._remove(session_id):
                removed.append(session_id)
        return removed

    def _remove(self, session_id: str) -> bool:
        from prime_ext.state import SnapshotError

        try:
            with self._store.exclusive(session_id) as log:
                size = self._files(session_id).delete()
                log.append(
                    Snapshot(outcome="removed", trigger="limit", bytes=size, reason=REASON),
                    sync=True,
                )
        except (PrimeError, SnapshotError, OSError) as error:
            # In use by another server, or deleted meanwhile.
            self._log.info("The snapshots of session %s stay: %s", session_id, error)
            return False
        self._log.info("The snapshots of session %s (%d bytes) were %s", session_id, size, REASON)
        return True
