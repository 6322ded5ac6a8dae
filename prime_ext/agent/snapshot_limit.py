"""Size limit for the snapshots of all sessions: the oldest are removed first."""

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
    """Size of the snapshots of one session."""

    session_id: str
    updated: str
    """When the session was last written; ISO 8601, UTC."""
    bytes: int


def to_remove(stored: Sequence[Stored], limit: int, in_use: frozenset[str]) -> list[str]:
    """Return the sessions whose snapshots are to be removed, the least recently used first.

    A session in use keeps its snapshots, even if they alone exceed the limit. All other sessions
    are treated alike. An unused snapshot is nearly always the only copy of its variables, so an
    exception for only copies would leave nothing to remove.
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
    """Keep the total size of all snapshots within a limit.

    Parameters
    ----------
    files:
        Returns the snapshot files of the session with the given id.
    total_bytes:
        Limit in bytes. 0 means 10 % of the disk, but at most 50 GB.
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
        """Session id → stamp and size of its snapshots, so that only changed ones are measured."""

    @property
    def bytes(self) -> int:
        """The limit in bytes."""
        if self._total_bytes:
            return self._total_bytes
        share = int(shutil.disk_usage(self._store.folder).total * AUTOMATIC_SHARE)
        return min(AUTOMATIC_BYTES, share)

    def stored(self) -> list[Stored]:
        """Return the size of each session's snapshots. This reads the disk: call it in a thread."""
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
        """Enforce the limit in the background, because a snapshot was saved."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Wait until a removal that is under way has ended."""
        self._again = False
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                await asyncio.to_thread(self.enforce)
            except Exception:  # a failure here must not affect anything else
                self._log.warning("Snapshots could not be kept within their limit", exc_info=True)

    def enforce(self) -> list[str]:
        """Remove snapshots over the limit; return their session ids. Call this in a thread."""
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
            # The session is in use by another server, or was deleted meanwhile.
            self._log.info("The snapshots of session %s stay: %s", session_id, error)
            return False
        self._log.info("The snapshots of session %s (%d bytes) were %s", session_id, size, REASON)
        return True
