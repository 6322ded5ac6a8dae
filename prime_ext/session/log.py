"""``session.jsonl``: an append-only file of records that stays consistent if a process is killed.

Each line is one record in JSON. Written records are never changed. A partial line that a crash left
at the end is moved to ``session.jsonl.torn`` before the next record is appended; a damaged line
before the end stays in place and is skipped. ``docs/session-log.md`` describes the format and its
guarantees.
"""

from __future__ import annotations

import os
import stat
import threading
import uuid
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from prime_ext.clean_text import well_formed
from prime_ext.session.records import FORMAT, AnyRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prime_ext.redaction import Redaction

# Absent on Windows, where creating symbolic links needs a privilege.
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: opening a FIFO in place of the log must not block the server.
_SAFE = _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Damage:
    """A part of the file that is not a valid record.

    Parameters
    ----------
    offset, length:
        Its position and size in the file, in bytes.
    reason:
        Description for the server's log.
    """

    offset: int
    length: int
    reason: str


class _Header(msgspec.Struct):
    """Fields that every line must have. Decoding them checks the syntax of the whole line."""

    seq: int
    kind: str


_header = msgspec.json.Decoder(_Header)
_record = msgspec.json.Decoder(AnyRecord)
_encoder = msgspec.json.Encoder(enc_hook=str)


def decode_record(line: bytes) -> AnyRecord | None:
    """Decode ``line`` to a record; ``None`` if this version does not know its kind or fields."""
    try:
        return _record.decode(line)
    except msgspec.DecodeError:
        return None


def decode_json(line: bytes) -> dict[str, Any] | None:
    """Decode ``line`` to plain JSON values; ``None`` if it is not a JSON object."""
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None


class SessionLog:
    """The records of one session on disk.

    Appending takes one ``write`` whatever the length of the log, and reading a slice reads only
    that slice. The index in memory takes 25 bytes per record. Thread-safe, but only one process may
    append (see ``SessionStore``).
    """

    _size: int
    """Bytes of the file that have been scanned."""
    _tail: int
    """Bytes at the end of these that are torn or damaged."""
    _open_line: bool
    """Whether the last record is complete but its line feed is missing."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._lock = threading.RLock()
        self._clear_index()
        self._scan()

    @classmethod
    def open(cls, path: Path) -> SessionLog:
        """Open the log at ``path``, or create it with mode 0600.

        Opening never changes the content of an existing log, however damaged.

        Raises
        ------
        OSError
            If the file cannot be opened or is not a regular file (e.g. a symbolic link).
        """
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE, 0o600)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{path} is not a regular file")
            if stat.S_IMODE(status.st_mode) & 0o077 and hasattr(os, "fchmod"):
                os.fchmod(fd, 0o600)
            return cls(path, fd)
        except BaseException:
            os.close(fd)
            raise

    def close(self) -> None:
        """Close the file. Records can still be read, but no more can be appended."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    # --- What is there -------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """``seq`` of the newest record, 0 if there is none."""
        with self._lock:
            return self._seqs[-1] if self._seqs else 0

    @property
    def last_length(self) -> int:
        """Length of the newest record in bytes, 0 if there is none."""
        with self._lock:
            return self._ends[-1] - self._offsets[-1] if self._seqs else 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._seqs)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Parts of the file that were unreadable and skipped, in order of their offset."""
        with self._lock:
            return tuple(self._damage)

    def seqs_of(self, *kinds: str) -> list[int]:
        """Return the ``seq`` of all records of these kinds, oldest first, from the index."""
        with self._lock:
            codes = {self._kinds.index(kind) for kind in kinds if kind in self._kinds}
            if not codes:
                return []
            return [seq for seq, code in zip(self._seqs, self._codes, strict=True) if code in codes]

    @property
    def format(self) -> int:
        """Format of the log, as its first record tells it."""
        beginning = next(
            (line for _, line in self.lines_of(self.seqs_of("session_start")[:1])), b""
        )
        told = (decode_json(beginning) or {}).get("format")
        return told if isinstance(told, int) else FORMAT

    # --- Reading -------------------------------------------------------------------------

    def read(self, after: int = 0, limit: int | None = None) -> list[AnyRecord]:
        """Return at most ``limit`` records with ``seq > after``, oldest first.

        Records that this version cannot decode are left out, but count towards ``limit``.
        """
        decoded = (decode_record(line) for _, line in self.lines(after, limit))
        return [record for record in decoded if record is not None]

    def get(self, seq: int) -> AnyRecord | None:
        """Return the record ``seq``, or ``None``."""
        return next(iter(self.get_all([seq])), None)

    def get_all(self, seqs: Iterable[int]) -> list[AnyRecord]:
        """Return the records with these ``seq``, in that order; missing ones are left out."""
        found = (decode_record(line) for _, line in self.lines_of(seqs))
        return [record for record in found if record is not None]

    def lines_of(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield ``(seq, line)`` of these records, in that order, reading each line on demand."""
        spans = []
        with self._lock:
            for seq in seqs:
                place = bisect_left(self._seqs, seq)
                if place < len(self._seqs) and self._seqs[place] == seq:
                    spans.append((seq, self._offsets[place], self._ends[place]))
        yield from self._read_spans(spans)

    def lines(
        self, after: int = 0, limit: int | None = None, max_bytes: int | None = None
    ) -> list[tuple[int, bytes]]:
        """Return ``(seq, line)`` of the records with ``seq > after``, undecoded.

        At most ``limit`` lines and ``max_bytes`` bytes are returned, but at least one line, however
        long, if ``limit`` allows it.
        """
        with self._lock:
            first = bisect_right(self._seqs, max(after, 0))
            last = len(self._seqs)
            if limit is not None:
                last = min(last, first + max(limit, 0))
            if first >= last:
                return []
            if max_bytes is not None:
                end = self._offsets[first] + max_bytes
                last = max(first + 1, bisect_right(self._ends, end, first, last))
            spans = list(
                zip(
                    self._seqs[first:last],
                    self._offsets[first:last],
                    self._ends[first:last],
                    strict=True,
                )
            )
        return list(self._read_spans(spans))

    def _read_spans(self, spans: list[tuple[int, int, int]]) -> Iterator[tuple[int, bytes]]:
        with self._reader() as file:
            for seq, offset, end in spans:
                file.seek(offset)
                yield seq, file.read(end - offset)

    def _reader(self) -> BinaryIO:
        return os.fdopen(os.open(self.path, os.O_RDONLY | _SAFE), "rb", buffering=1 << 18)

    # --- Appending -----------------------------------------------------------------------

    def append(
        self, record: AnyRecord, *, sync: bool = False, redact: Redaction | None = None
    ) -> AnyRecord:
        """Append ``record`` with the next ``seq``, a new ``id`` and the current time.

        Parameters
        ----------
        sync:
            Wait for an fsync, so that the record survives a power cut.
        redact:
            Removes the secrets in the record's strings.

        Returns
        -------
        AnyRecord
            The record as a reader will see it: lone surrogates are replaced, and no mutable value
            is shared with the argument.

        Raises
        ------
        OSError
            If the record cannot be written (disk full, log closed). The log is then unchanged. If
            only the fsync failed, the record is in the log but may not survive a power cut.
        """
        with self._lock:
            if self._fd < 0:
                raise OSError(f"{self.path} is closed")
            self._mend_end()
            stamped = msgspec.structs.replace(
                record,
                seq=self.last_seq + 1,
                id=uuid.uuid4().hex,
                ts=_now(),
            )
            line, stored = _encode(stamped, redact)
            self._write(b"\n" + line + b"\n" if self._open_line else line + b"\n")
            if self._open_line:
                self._size += 1
                self._open_line = False
            self._index(stored.seq, stored.kind, self._size, self._size + len(line))
            self._size += len(line) + 1
        if sync:
            self.sync()
        return stored

    def sync(self) -> None:
        """Wait until everything appended so far is on the disk (fsync)."""
        with self._lock:
            if self._fd >= 0:
                os.fsync(self._fd)

    def _write(self, data: bytes) -> None:
        before = os.fstat(self._fd).st_size
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            # Remove the partial line; nobody has been told of this record, so it need not be kept.
            # If this fails too, the next append finds a torn end and sets it aside.
            os.ftruncate(self._fd, before)
            raise

    def _mend_end(self) -> None:
        """Scan bytes that others have appended, and set a torn end aside."""
        size = os.fstat(self._fd).st_size
        if size < self._size:
            self._clear_index()
        if size != self._size or self._tail:
            self._scan()
        if self._tail:
            self._set_aside(self._size - self._tail, self._tail)

    def _set_aside(self, offset: int, length: int) -> None:
        # Copied and synced before it is truncated, so that a kill in between loses nothing.
        with self._reader() as file:
            file.seek(max(offset - 1, 0))
            self._open_line = offset > 0 and file.read(1) != b"\n"
            torn = file.read(length)
        aside = self.path.with_name(self.path.name + ".torn")
        fd = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFE, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(torn if torn.endswith(b"\n") else torn + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.ftruncate(self._fd, offset)
        os.fsync(self._fd)
        self._size = offset
        self._tail = 0

    # --- The index -----------------------------------------------------------------------

    def _clear_index(self) -> None:
        self._seqs = array("Q")
        self._offsets = array("Q")
        self._ends = array("Q")
        self._codes = array("B")
        self._kinds: list[str] = []
        self._damage: list[Damage] = []
        self._size = 0
        self._tail = 0
        self._open_line = False

    def _index(self, seq: int, kind: str, offset: int, end: int) -> None:
        # Code 255 means "any other kind", in case a log has more kinds than codes.
        if kind not in self._kinds and len(self._kinds) < 255:
            self._kinds.append(kind)
        self._seqs.append(seq)
        self._offsets.append(offset)
        self._ends.append(end)
        self._codes.append(self._kinds.index(kind) if kind in self._kinds else 255)

    def _scan(self) -> None:
        """Index the part of the file after the last known record."""
        offset = self._size - self._tail
        tail: list[Damage] = []
        known = [damage for damage in self._damage if damage.offset < offset]
        last = self._seqs[-1] if self._seqs else 0
        open_line = self._open_line
        with self._reader() as file:
            file.seek(offset)
            for line in file:
                body = line.rstrip(b"\n")
                if open_line and not body:
                    # Another writer has ended the line whose line feed was missing.
                    offset, open_line = offset + len(line), False
                    continue
                reason = ""
                try:
                    if not body.isascii():
                        body.decode()  # The header decoder does not check skipped strings.
                    header = _header.decode(body)
                    if header.seq <= last:
                        reason = f"record {header.seq} follows record {last}"
                except (msgspec.DecodeError, ValueError) as error:
                    reason = str(error) if line.endswith(b"\n") else "cut off while being written"
                if reason:
                    tail.append(Damage(offset, len(line), reason))
                else:
                    known += tail
                    tail = []
                    last = header.seq
                    self._index(last, header.kind, offset, offset + len(body))
                    open_line = not line.endswith(b"\n")
                offset += len(line)
        self._damage = known + tail
        self._size = offset
        self._tail = sum(damage.length for damage in tail)
        self._open_line = open_line and not tail


def _encode(record: AnyRecord, redact: Redaction | None) -> tuple[bytes, AnyRecord]:
    """Return the line of ``record``, and the record that a reader will see.

    Usually the record holds neither a secret nor what JSON cannot represent. Only otherwise it is
    looked at value by value, which takes ten times as long as the rest.
    """
    try:
        line = _encoder.encode(record)
        if redact is None or not redact.is_due(line):
            return line, _record.decode(line)
    except (ValueError, msgspec.MsgspecError):
        pass  # A lone surrogate, or an integer that JSON readers cannot represent.
    values = mend(msgspec.to_builtins(record, str_keys=True, enc_hook=str))
    line = _encoder.encode(values if redact is None else redact.throughout(values))
    return line, _record.decode(line)


def mend(value: Any) -> Any:
    """Return a copy of ``value`` in which all strings and integers can be written as JSON.

    Surrogate pairs are joined and lone surrogates become U+FFFD; integers beyond 64 bits become
    hexadecimal strings.
    """
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {mend(key): mend(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mend(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return hex(value)
    return value


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
