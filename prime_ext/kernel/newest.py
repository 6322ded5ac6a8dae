"""The snapshot of a session that was written last, as the session's records tell it.

A snapshot that somebody has put back over it, from a backup or on purpose, has a valid signature
too. What tells them apart is the number that each save gives, which never goes down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.session.records import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prime_ext.session.records import AnyRecord
    from prime_ext.state import Manifest


@dataclass(frozen=True)
class Newest:
    """Id and number of that snapshot; nothing, if no record tells."""

    snapshot_id: str = ""
    generation: int = 0

    def is_replaced_by(self, found: Manifest) -> bool:
        """Whether ``found``, which lies in its place, is an older one.

        One that became durable just before a crash, so that no record tells of it, has a higher
        number.
        """
        return found.id != self.snapshot_id and found.generation <= self.generation

    def is_lost(self, found: Manifest | None) -> bool:
        """Whether what lies in its place is an older one, or nothing that can be read."""
        return bool(self.generation) and (found is None or self.is_replaced_by(found))


def newest_in(records: Iterable[AnyRecord]) -> Newest:
    """From the records of snapshots, the latest first."""
    for record in records:
        if isinstance(record, Snapshot) and record.snapshot_id and record.generation:
            return Newest(record.snapshot_id, record.generation)
    return Newest()
