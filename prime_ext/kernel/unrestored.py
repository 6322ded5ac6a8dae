"""Variables that a former process of the kernel had and the present one lacks.

After a restart, what was saved is often only offered. A snapshot of the fresh process is then
current and yet holds none of these variables, so a current snapshot alone does not mean that the
state of the kernel is preserved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prime_ext.session.records import Restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prime_ext.session.log import SessionLog
    from prime_ext.session.records import AnyRecord
    from prime_ext.state import Manifest

_BROUGHT_BACK = ("ok", "unchanged")


def is_lacking(restores: Iterable[AnyRecord | None]) -> bool:
    """Whether the kernel was replaced, and its variables were not all restored since.

    Parameters
    ----------
    restores:
        ``restore`` records of the session, newest first. A restore of single names and the
        comparison after a compaction decide nothing.
    """
    for record in restores:
        if isinstance(record, Restore) and record.trigger != "compaction" and not record.asked:
            return record.outcome not in _BROUGHT_BACK
    return False


def recorded_as_lacking(log: SessionLog) -> bool:
    """Apply `is_lacking` to a session's log, of which it reads only the last records."""
    return is_lacking(map(log.get, reversed(log.seqs_of("restore"))))


def unrestored(generations: Sequence[Manifest], *, of_this_process: bool) -> list[str]:
    """Return the names that were saved of a former process and are not in the present one.

    Parameters
    ----------
    generations:
        Manifests of the snapshots, newest first.
    of_this_process:
        Whether the first one was saved by the kernel's present process.
    """
    present = generations[0] if generations and of_this_process else None
    for former in generations:
        if former.names and (present is None or former.process != present.process):
            return [
                name
                for name, entry in former.names.items()
                if entry["component"] is not None and (present is None or name not in present.names)
            ]
    return []
