"""What can be said of a session from its log alone, without opening it.

A log is read once. From then on it is known where the few records stand that still matter (the
beginning, the newest title and notebook, what waits), and only what was appended since is read.
For long logs those places are kept in ``outline.json`` beside the log, so that the first list of a
server that starts does not read every log again.
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
"""How much must have been read for its outcome to be written down."""

_KIND = re.compile(rb'\{"kind":"(\w{1,40})"')
_KINDS = frozenset(kind.encode() for kind in ("settings", "title", *waiting.KINDS))


@dataclass(frozen=True)
class SessionSummary:
    """One line of the list of sessions."""

    id: str
    notebook: str
    title: str | None
    created: str
    """Time of the first record, UTC, ISO 8601."""
    updated: str
    """Time of the newest record."""
    records: int
    queue: list[dict[str, Any]]
    """Messages that wait to be sent, see ``Waiting.describe``."""
    approvals: list[dict[str, Any]]
    """Questions that wait for a person."""

    @property
    def waiting_turn(self) -> str | None:
        """The turn that goes on with an answer."""
        return next((a["turn"] for a in self.approvals if a["turn"] is not None), None)


class _Places(msgspec.Struct, forbid_unknown_fields=True):
    """``outline.json``: where in the log the records stand that still matter."""

    end: int
    """Bytes of the log that were read: whole lines."""
    last: int
    """Offset of the last line within them."""
    last_id: str
    """``id`` of the record there: what proves that this log is the one that was read."""
    offsets: list[int]


class Outline:
    """Follows one log. Not safe for several threads at once.

    Parameters
    ----------
    path:
        The log.
    inode:
        Of its file; another file in its place is another log.
    """

    def __init__(self, path: Path, inode: int) -> None:
        self.inode = inode
        self.waiting = Waiting()
        """What waits, as far as the log was read."""
        self._path = path
        self._end = 0
        self._last = 0
        self._kept = 0
        """Bytes that ``outline.json`` speaks of."""
        self._start: SessionStart | None = None
        self._title: Title | None = None
        self._settings: Settings | None = None
        """The last that attached the session to another notebook."""
        self._offsets: dict[int, int] = {}
        """``seq`` → where it stands."""

    @property
    def end(self) -> int:
        """Bytes of the log that were read."""
        return self._end

    def summary(self) -> SessionSummary | None:
        """Read what is new; ``None`` if the log does not begin as a session's does.

        Raises
        ------
        OSError
            If it cannot be read.
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
                    break  # half written; what comes instead of it is read then
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
        """Begin where an earlier reader of this log has ended."""
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
        # Derived, and made again when it is gone: that it cannot be written is no failure.
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
    """``seq`` and ``ts`` of the last record, past a torn end."""
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        if start < end:
            record = decode_json(data[start:end])
            if record is not None and isinstance(record.get("seq"), int):
                return record["seq"], str(record.get("ts", ""))
        end = start - 1
    return None
