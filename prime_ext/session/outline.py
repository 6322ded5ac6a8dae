"""Summary of a session from its log alone, without opening the session.

Each log is read as a whole only once. The offsets of the few relevant records (the first one, the
newest title and notebook, pending items) are kept in memory, and later only newly appended lines
are read. For long logs these offsets are also stored in ``outline.json`` next to the log, so that
the first list after a server start need not read every log again.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.private_file import replace_private
from prime_ext.session import waiting
from prime_ext.session.log import decode_json, decode_record
from prime_ext.session.records import SessionStart, Settings, Title
from prime_ext.session.waiting import Waiting

if TYPE_CHECKING:
    from pathlib import Path

    from prime_ext.session.records import AnyRecord

OUTLINE_NAME = "outline.json"

KEEP_BYTES = 1 << 20
"""``outline.json`` is written each time that this many more bytes of the log have been read."""

_KIND = re.compile(rb'\{"kind":"(\w{1,40})"')
_KINDS = frozenset(kind.encode() for kind in ("settings", "title", *waiting.KINDS))


@dataclass(frozen=True)
class SessionSummary:
    """One entry of the list of sessions."""

    id: str
    notebook: str
    title: str | None
    created: str
    """Time of the first record, UTC, ISO 8601."""
    updated: str
    """Time of the newest record."""
    records: int
    queue: list[dict[str, Any]]
    """Queued messages, see ``Waiting.describe``."""
    approvals: list[dict[str, Any]]
    """Unanswered approval requests, see ``Waiting.describe``."""

    @property
    def waiting_turn(self) -> str | None:
        """Id of the turn that waits for an approval; ``None`` if none does."""
        return next((a["turn"] for a in self.approvals if a["turn"] is not None), None)


class _Places(msgspec.Struct, forbid_unknown_fields=True):
    """Content of ``outline.json``: offsets of the relevant records in the log."""

    end: int
    """Bytes of the log that were read, up to the end of a line."""
    last: int
    """Offset of the last line that was read."""
    last_id: str
    """``id`` of the record in that line, to check that the file belongs to this log."""
    offsets: list[int]
    """Offsets of the relevant records."""


class Outline:
    """Summarises one log incrementally. Not thread-safe.

    Parameters
    ----------
    path:
        Path of the log.
    inode:
        Inode number of its file, by which the caller notices that the file was replaced.
    """

    def __init__(self, path: Path, inode: int) -> None:
        self.inode = inode
        self.waiting = Waiting()
        """Pending items, as far as the log has been read."""
        self._path = path
        self._end = 0
        self._last = 0
        self._kept = 0
        """Bytes of the log that ``outline.json`` covers."""
        self._start: SessionStart | None = None
        self._title: Title | None = None
        self._settings: Settings | None = None
        """The newest one that changed the session's notebook."""
        self._offsets: dict[int, int] = {}
        """``seq`` of each relevant record → its offset."""

    @property
    def end(self) -> int:
        """Bytes of the log that have been read."""
        return self._end

    def summary(self) -> SessionSummary | None:
        """Read newly appended records and return the summary.

        ``None`` if the log does not begin with a ``session_start`` record.

        Raises
        ------
        OSError
            If the log cannot be read.
        """
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return None
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with data:
            if self._end == 0:
                self._take_kept(data)
            self._read(data)
            newest = _last_line(data)
        start = self._start
        if start is None:
            return None
        if self._end - self._kept >= KEEP_BYTES:
            self._keep()
        seq, updated = newest or (start.seq, start.ts)
        return SessionSummary(
            id=self._path.parent.name,
            notebook=(self._settings and self._settings.notebook) or start.notebook,
            title=self._title.title if self._title else start.title,
            created=start.ts,
            updated=updated,
            records=seq,
            **self.waiting.describe(),
        )

    def _read(self, data: mmap.mmap) -> None:
        size = len(data)
        while self._end < size:
            line_end = data.find(b"\n", self._end)
            if line_end < 0:
                line_end = size
                if decode_json(data[self._end : size]) is None:
                    break  # A partial line. The next call reads from here again.
            self._take(data, self._end, line_end)
            self._last, self._end = self._end, min(line_end + 1, size)
        needed = {record.seq for record in self._needed()}
        self._offsets = {seq: at for seq, at in self._offsets.items() if seq in needed}

    def _take(self, data: mmap.mmap, offset: int, end: int) -> None:
        kind = _KIND.match(data, offset, min(offset + 60, end))
        if offset > 0 and (kind is None or kind[1] not in _KINDS):
            return
        record = decode_record(data[offset:end])
        if record is None:
            return
        self._offsets[record.seq] = offset
        if offset == 0:
            self._start = record if isinstance(record, SessionStart) else None
        elif isinstance(record, Title):
            self._title = record
        elif isinstance(record, Settings):
            self._settings = record if record.notebook else self._settings
        else:
            self.waiting.observe(record)

    def _needed(self) -> list[AnyRecord]:
        single = (self._start, self._title, self._settings)
        return [
            *(record for record in single if record is not None),
            *self.waiting.queue.values(),
            *self.waiting.approvals.values(),
        ]

    # --- outline.json -------------------------------------------------------------------------

    def _take_kept(self, data: mmap.mmap) -> None:
        """Load ``outline.json``, if it fits the log, and continue where it ends."""
        try:
            file = self._path.with_name(OUTLINE_NAME)
            if not stat.S_ISREG(file.lstat().st_mode):
                return
            places = msgspec.json.decode(file.read_bytes(), type=_Places)
        except (OSError, msgspec.DecodeError):
            return
        if not 0 <= places.last < places.end <= len(data):
            return
        last = decode_json(data[places.last : places.end])
        if last is None or last.get("id") != places.last_id or data[places.end - 1] != _LINE_FEED:
            return
        for offset in sorted({0, *places.offsets}):
            if 0 <= offset < places.end:
                self._take(data, offset, data.find(b"\n", offset))
        self._last, self._end, self._kept = places.last, places.end, places.end

    def _keep(self) -> None:
        # The file is derived from the log, so failing to write it does no harm.
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(self._last)
            last = decode_json(file.readline())
            if last is None or not isinstance(last.get("id"), str):
                return
            places = _Places(self._end, self._last, last["id"], sorted(self._offsets.values()))
            replace_private(self._path.with_name(OUTLINE_NAME), msgspec.json.encode(places))
            self._kept = self._end


_LINE_FEED = ord("\n")


def _last_line(data: mmap.mmap) -> tuple[int, str] | None:
    """Return ``seq`` and ``ts`` of the last valid record, ignoring a torn end."""
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        if start < end:
            record = decode_json(data[start:end])
            if record is not None and isinstance(record.get("seq"), int):
                return record["seq"], str(record.get("ts", ""))
        end = start - 1
    return None
