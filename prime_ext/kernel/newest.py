"""The last snapshot of a session according to the session's records.

If somebody puts an older snapshot in its place, from a backup or on purpose, that one has a valid
signature too. The generation number tells them apart: it grows with every save.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.session.records import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prime_ext.session.log import SessionLog
    from prime_ext.session.records import AnyRecord
    from prime_ext.state import Manifest


@dataclass(frozen=True)
class Newest:
    """Id and generation number of the last snapshot; empty and 0 if no record names one."""

    snapshot_id: str = ""
    generation: int = 0

    def is_replaced_by(self, found: Manifest) -> bool:
        """Whether ``found``, the current snapshot on disk, is an older one than recorded.

        A different snapshot with a higher number is legitimate: it became durable just before a
        crash, too late to be recorded.
        """
        return found.id != self.snapshot_id and found.generation <= self.generation

    def is_lost(self, found: Manifest | None) -> bool:
        """Whether the current snapshot on disk is older than recorded, missing or unreadable."""
        return bool(self.generation) and (found is None or self.is_replaced_by(found))


def newest_in(records: Iterable[AnyRecord]) -> Newest:
    """Find the last snapshot in ``records``, which are ordered newest first."""
    for record in records:
        if isinstance(record, Snapshot) and record.snapshot_id and record.generation:
            return Newest(record.snapshot_id, record.generation)
    return Newest()


def newest_recorded(log: SessionLog) -> Newest:
    """Find the last snapshot that a session's log has a record of."""
    return newest_in(filter(None, map(log.get, reversed(log.seqs_of("snapshot")))))
