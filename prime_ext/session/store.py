"""The folder of all sessions: making, finding, listing and deleting them."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
import shutil
import stat
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from prime_ext.errors import PrimeError
from prime_ext.session.log import SessionLog, decode_json, decode_record
from prime_ext.session.records import SessionStart, Settings, Title
from prime_ext.session.session import Session

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator
    from pathlib import Path

    from filelock import FileLock

LOG_NAME = "session.jsonl"
LOCK_NAME = "session.lock"
OUTPUTS_NAME = "outputs"

_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{12}")
_TAIL_BYTES = 1 << 16


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


@dataclass
class _Seen:
    """What is known of a log up to ``size`` bytes; a longer log is only read from there on."""

    size: int
    inode: int
    created: str
    notebook: str
    title: str | None


class SessionStore:
    """Sessions under one folder, ``{folder}/{session id}/session.jsonl``.

    Folders are made with mode 0700 and files with 0600; a symbolic link in the place of either is
    refused. A session is locked by the process that has it open until it is closed. Safe to use
    from several threads.

    Parameters
    ----------
    folder:
        Where the sessions are, made if need be.
    log:
        The server's logger: damage found in a session's log is reported there.
    """

    def __init__(self, folder: Path, log: logging.Logger) -> None:
        self.folder = folder
        self._log = log
        self._mutex = threading.RLock()
        self._open: dict[str, tuple[Session, FileLock]] = {}
        self._seen: dict[str, _Seen] = {}
        _make_private(folder)

    # --- One session ---------------------------------------------------------------------

    def create(self, start: SessionStart) -> Session:
        """A new session whose first record is ``start``; it is on the disk when this returns."""
        with self._mutex:
            now = datetime.now(timezone.utc)
            session_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(6)}"
            folder = self.folder / session_id
            with contextlib.ExitStack() as undo:
                try:
                    _make_private(self.folder)  # again, should it have been removed meanwhile
                    folder.mkdir(mode=0o700)
                    undo.callback(shutil.rmtree, folder, ignore_errors=True)
                    (folder / OUTPUTS_NAME).mkdir(mode=0o700)
                    lock = self._acquire(folder)
                    undo.callback(lock.release)
                    log = SessionLog.open(folder / LOG_NAME)
                    undo.callback(log.close)
                    log.append(start, sync=True)
                    _sync_folder(folder)
                    _sync_folder(self.folder)
                except OSError as error:
                    raise PrimeError(
                        f"No session could be made in {self.folder}: {error.strerror or error}.",
                        code="session_not_written",
                        hint="Check free space and permissions of that folder.",
                        status=507,
                    ) from error
                session = Session(session_id, folder, log)
                undo.pop_all()
            self._open[session_id] = (session, lock)
            return session

    def get(self, session_id: str) -> Session:
        """The session, opened if it is not open yet. Takes as long as reading its log once.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404); ``session_locked`` (409) if another process has it open;
            ``session_damaged`` (500) if its log has no readable beginning.
        """
        with self._mutex:
            if session_id in self._open:
                return self._open[session_id][0]
            folder = self._existing(session_id)
            lock = self._acquire(folder)
            try:
                log = SessionLog.open(folder / LOG_NAME)
            except OSError as error:
                lock.release()
                raise PrimeError(
                    f"The log of session {session_id} cannot be opened: {error.strerror or error}.",
                    code="session_damaged",
                    hint=f"Check the permissions of {folder}.",
                    status=500,
                ) from error
            for damage in log.damage:
                self._log.warning(
                    "%s: %d bytes at offset %d are not a record and are skipped: %s",
                    log.path,
                    damage.length,
                    damage.offset,
                    damage.reason,
                )
            try:
                session = Session(session_id, folder, log)
            except BaseException:
                log.close()
                lock.release()
                raise
            self._open[session_id] = (session, lock)
            return session

    def open_ids(self) -> frozenset[str]:
        """The sessions that this process has open."""
        with self._mutex:
            return frozenset(self._open)

    def is_held_elsewhere(self, session_id: str) -> bool:
        """Whether another process has the session open."""
        with self._mutex:
            if session_id in self._open:
                return False
            try:
                self._acquire(self._existing(session_id)).release()
            except PrimeError as error:
                return error.code == "session_locked"
            return False

    @contextlib.contextmanager
    def exclusive(self, session_id: str) -> Iterator[SessionLog]:
        """The log of a session that nobody has open, held for as long as the block runs.

        Raises
        ------
        PrimeError
            ``session_not_found``, or ``session_locked``: it is open here or elsewhere.
        """
        with self._mutex:
            folder = self._existing(session_id)
            if session_id in self._open:
                raise PrimeError(f"{session_id} is open.", code="session_locked", status=409)
            lock = self._acquire(folder)
            try:
                log = SessionLog.open(folder / LOG_NAME)
                try:
                    yield log
                finally:
                    log.close()
            finally:
                lock.release()

    def delete(self, session_id: str) -> None:
        """Remove the session and everything in its folder; its subscribers are told.

        Raises
        ------
        PrimeError
            ``session_not_found`` or ``session_locked``.
        """
        with self._mutex:
            folder = self._existing(session_id)
            if session_id in self._open:
                session, lock = self._open.pop(session_id)
                session.close("deleted")
            else:
                lock = self._acquire(folder)
            # Renamed first, so that a kill half way leaves nothing that looks like a session.
            grave = folder.with_name(f".deleted-{session_id}")
            folder.rename(grave)
            lock.release()
            self._seen.pop(session_id, None)
            shutil.rmtree(grave, ignore_errors=True)

    def close(self) -> None:
        """Close every open session and give up the locks."""
        with self._mutex:
            for session, lock in self._open.values():
                with contextlib.suppress(PrimeError):
                    session.sync()
                session.close()
                lock.release()
            self._open.clear()

    def _existing(self, session_id: str) -> Path:
        folder = self.folder / session_id
        if not _ID.fullmatch(session_id) or not _is_regular(folder / LOG_NAME):
            raise PrimeError(
                f"There is no session {session_id[:60]!r}.",
                code="session_not_found",
                hint="It may have been deleted. List the sessions, or start a new one.",
                status=404,
            )
        return folder

    def _acquire(self, folder: Path) -> FileLock:
        # Its import is a fifth of what the extension would add to the start of the server.
        from filelock import FileLock, Timeout

        lock = FileLock(folder / LOCK_NAME, timeout=0, mode=0o600, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise PrimeError(
                f"Session {folder.name} is open in another Jupyter server.",
                code="session_locked",
                hint="Use it there, or shut that server down.",
                status=409,
            ) from None
        return lock

    # --- All sessions --------------------------------------------------------------------

    def list(self, notebook: str | None = None) -> list[SessionSummary]:
        """Every session, or those of one notebook, the one written last first.

        Reads the beginning and the end of each log, once for each state of the file. Sessions
        that other servers have open are listed too; unreadable ones are left out.
        """
        try:
            folders = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        summaries = []
        for folder in folders:
            if not _ID.fullmatch(folder.name):
                continue
            try:
                summary = self._summary(folder)
            except OSError:
                continue
            if summary is not None and notebook in (None, summary.notebook):
                summaries.append(summary)
        return sorted(summaries, key=lambda summary: (summary.updated, summary.id), reverse=True)

    def summary(self, session: Session) -> SessionSummary:
        """The list's line for an open session."""
        found = self._summary(session.folder)
        if found is None:
            raise PrimeError(
                f"There is no session {session.id!r}.", code="session_not_found", status=404
            )
        return found

    def _summary(self, folder: Path) -> SessionSummary | None:
        path = folder / LOG_NAME
        if not _is_regular(path):
            return None
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size == 0:
                return None
            seen = self._seen.get(folder.name)
            if seen is None or seen.inode != status.st_ino or seen.size > status.st_size:
                start = decode_record(file.readline())
                if not isinstance(start, SessionStart):
                    return None
                seen = _Seen(0, status.st_ino, start.ts, start.notebook, start.title)
            last_seq, updated = 0, seen.created
            # Logs from before the size seen cannot have changed: they are append-only.
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                title = _last_record(data, "title", seen.size)
                settings = _last_record(data, "settings", seen.size, having=b'"notebook":')
                last = _last_line(data)
            if last is not None:
                last_seq, updated = last
        seen.size = status.st_size
        if isinstance(title, Title):
            seen.title = title.title
        if isinstance(settings, Settings) and settings.notebook:
            seen.notebook = settings.notebook
        self._seen[folder.name] = seen
        return SessionSummary(
            id=folder.name,
            notebook=seen.notebook,
            title=seen.title,
            created=seen.created,
            updated=updated,
            records=last_seq,
        )


def _last_record(data: mmap.mmap, kind: str, start: int, having: bytes = b"") -> object:
    """The last whole record of a kind behind ``start`` bytes.

    A line feed cannot stand inside a record, so that this finds the beginnings of lines only.
    """
    mark = b'\n{"kind":"%s",' % kind.encode()
    end = len(data)
    while (found := data.rfind(mark, max(start - 1, 0), end)) >= 0:
        line_end = data.find(b"\n", found + 1)
        line = data[found + 1 : line_end if line_end >= 0 else len(data)]
        record = decode_record(line) if having in line else None
        if record is not None:
            return record
        end = found
    return None


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


def _is_regular(path: Path) -> bool:
    """Whether ``path`` is a regular file in a real folder, neither being a symbolic link."""
    try:
        return stat.S_ISDIR(path.parent.lstat().st_mode) and stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(f"{folder} is a symbolic link; name the folder it points to instead")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def _sync_folder(folder: Path) -> None:
    """Make new names in ``folder`` survive a power cut, where folders can be synced."""
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
