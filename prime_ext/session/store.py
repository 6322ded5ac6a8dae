"""The folder of all sessions: creating, opening, listing and deleting sessions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import stat
import threading
import time
import weakref
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from prime_ext.errors import PrimeError
from prime_ext.session.log import SessionLog
from prime_ext.session.outline import Outline, SessionSummary
from prime_ext.session.outputs import OUTPUTS_NAME
from prime_ext.session.session import Session, refuse_newer

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator
    from pathlib import Path

    from filelock import FileLock

    from prime_ext.session.records import SessionStart

LOG_NAME = "session.jsonl"
LOCK_NAME = "session.lock"

GRAVE = ".deleted-"
"""Prefix of the folder name of a session that is being removed."""

_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{12}")


class SessionStore:
    """The sessions in one folder, ``{folder}/{session id}/session.jsonl``.

    Folders are created with mode 0700 and files with mode 0600; symbolic links in their place are
    refused. The process that opens a session holds its lock until the session is closed.
    Thread-safe, except for ``opened``, which belongs to the event loop.

    Parameters
    ----------
    folder:
        Folder of the sessions, created if necessary.
    log:
        The server's logger, which receives warnings about damaged logs.
    """

    def __init__(self, folder: Path, log: logging.Logger) -> None:
        self.folder = folder
        self._log = log
        self._mutex = threading.Lock()
        """Guards the dictionaries of open sessions. Never held while a file is read."""
        self._locks: weakref.WeakValueDictionary[str, threading.RLock] = (
            weakref.WeakValueDictionary()
        )
        """A lock for each session that is being opened, closed or removed, so that operations on
        other sessions need not wait."""
        self._open: dict[str, tuple[Session, FileLock]] = {}
        self._used: dict[str, float] = {}
        """Time at which each open session was last requested, by ``time.monotonic``."""
        self._opening: dict[str, asyncio.Task[Session]] = {}
        self._outlines: dict[str, Outline] = {}
        self._listing = threading.Lock()
        _make_private(folder)
        for grave in folder.glob(f"{GRAVE}*"):  # Left by a server that was killed.
            shutil.rmtree(grave, ignore_errors=True)

    # --- One session ---------------------------------------------------------------------

    def create(self, start: SessionStart) -> Session:
        """Create a session with ``start`` as its first record, and wait until it is on the disk.

        Raises
        ------
        PrimeError
            ``session_not_written`` (507) if the folder cannot be written.
        """
        now = datetime.now(timezone.utc)
        session_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(6)}"
        folder = self.folder / session_id
        with contextlib.ExitStack() as undo:
            try:
                _make_private(self.folder)  # It may have been removed in the meantime.
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
                    f"A session could not be created in {self.folder}: {error.strerror or error}.",
                    code="session_not_written",
                    hint="Check free space and permissions of that folder.",
                    status=507,
                ) from error
            session = Session(session_id, folder, log)
            undo.pop_all()
        self._remember(session, lock)
        return session

    def get(self, session_id: str) -> Session:
        """Return the session, opening it if necessary, which reads the whole log once.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404); ``session_locked`` (409) if another process has it open;
            ``session_newer`` (409) if a newer version has written it in another format;
            ``session_damaged`` (500) if its log has no readable beginning.
        """
        session = self._known(session_id)
        if session is not None:
            return session
        with self._alone(session_id):
            session = self._known(session_id)
            if session is not None:
                return session
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
            self._remember(session, lock)
            return session

    async def opened(self, session_id: str) -> Session:
        """Like ``get``, for use on the event loop.

        Concurrent calls for the same session share one thread.
        """
        session = self._known(session_id)
        if session is not None:
            return session
        task = self._opening.get(session_id)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(self.get, session_id))
            self._opening[session_id] = task

            def end(task: asyncio.Task[Session]) -> None:
                del self._opening[session_id]
                if not task.cancelled():
                    # Retrieved, so that asyncio does not log it if nobody waits any more.
                    task.exception()

            task.add_done_callback(end)
        return await asyncio.shield(task)

    def open_ids(self) -> frozenset[str]:
        """Return the ids of the sessions that this process has open."""
        with self._mutex:
            return frozenset(self._open)

    def unused(self, seconds: float) -> list[tuple[Session, float]]:
        """Return the open sessions not requested for ``seconds``, with the time of last use."""
        with self._mutex:
            before = time.monotonic() - seconds
            return [
                (session, self._used[name])
                for name, (session, _) in self._open.items()
                if self._used[name] <= before
            ]

    def used(self, session_id: str) -> float | None:
        """Return when an open session was last requested, by ``time.monotonic``."""
        return self._used.get(session_id)

    def release(self, session_id: str, used: float) -> bool:
        """Close a session and release its lock, unless it was requested again after ``used``.

        Return whether the session was closed.
        """
        with self._alone(session_id):
            with self._mutex:
                if self._used.get(session_id) != used:
                    return False
                session, lock = self._forget(session_id)
            _end(session, lock)
            return True

    def is_held_elsewhere(self, session_id: str) -> bool:
        """Return whether another process has the session open."""
        with self._alone(session_id):
            if session_id in self._open:
                return False
            try:
                self._acquire(self._existing(session_id)).release()
            except PrimeError as error:
                return error.code == "session_locked"
            return False

    @contextlib.contextmanager
    def exclusive(self, session_id: str) -> Iterator[SessionLog]:
        """Lock a session that is not open, and provide its log for the duration of the block.

        Raises
        ------
        PrimeError
            ``session_not_found``, ``session_newer``, or ``session_locked`` if this or another
            process has it open.
        """
        with self._alone(session_id):
            folder = self._existing(session_id)
            if session_id in self._open:
                raise PrimeError(f"{session_id} is open.", code="session_locked", status=409)
            lock = self._acquire(folder)
            try:
                log = SessionLog.open(folder / LOG_NAME)
                try:
                    refuse_newer(session_id, log)
                    yield log
                finally:
                    log.close()
            finally:
                lock.release()

    def delete(self, session_id: str) -> None:
        """Remove the session with everything in its folder, and end its subscriptions.

        Raises
        ------
        PrimeError
            ``session_not_found`` or ``session_locked``.
        """
        with self._alone(session_id):
            folder = self._existing(session_id)
            if session_id in self._open:
                with self._mutex:
                    session, lock = self._forget(session_id)
                session.close("deleted")
            else:
                lock = self._acquire(folder)
            # Renamed first, so that a kill halfway leaves nothing that looks like a session.
            grave = folder.with_name(GRAVE + session_id)
            folder.rename(grave)
            lock.release()
            with self._listing:
                self._outlines.pop(session_id, None)
        # Removing many gigabytes of snapshots takes time, so no lock is held here.
        shutil.rmtree(grave, ignore_errors=True)

    def end_subscriptions(self) -> None:
        """End the subscriptions to all open sessions. Call this on the event loop."""
        with self._mutex:
            sessions = [session for session, _ in self._open.values()]
        for session in sessions:
            session.end_subscriptions()

    def close(self) -> None:
        """Close every open session and release the locks.

        If this is called in a thread, call ``end_subscriptions`` first.
        """
        with self._mutex:
            known = {*self._open, *self._locks}  # Includes those that are being opened.
        for session_id in known:
            with self._alone(session_id):
                with self._mutex:
                    if session_id not in self._open:
                        continue
                    session, lock = self._forget(session_id)
                _end(session, lock)

    def _remember(self, session: Session, lock: FileLock) -> None:
        with self._mutex:
            self._open[session.id] = (session, lock)
            self._used[session.id] = time.monotonic()

    def _known(self, session_id: str) -> Session | None:
        """Return the session if it is open, and update its time of last use."""
        with self._mutex:
            if session_id not in self._open:
                return None
            self._used[session_id] = time.monotonic()
            return self._open[session_id][0]

    def _forget(self, session_id: str) -> tuple[Session, FileLock]:
        del self._used[session_id]
        return self._open.pop(session_id)

    @contextlib.contextmanager
    def _alone(self, session_id: str) -> Iterator[None]:
        """Keep other threads from opening, closing or removing this session during the block."""
        with self._mutex:
            lock = self._locks.get(session_id)
            if lock is None:
                lock = self._locks[session_id] = threading.RLock()
        with lock:
            yield

    def _existing(self, session_id: str) -> Path:
        folder = self.folder / session_id
        if not _ID.fullmatch(session_id) or not _is_regular(folder / LOG_NAME):
            raise session_not_found(session_id)
        return folder

    def _acquire(self, folder: Path) -> FileLock:
        # Imported here, because it would take a fifth of the extension's whole import time.
        from filelock import FileLock, Timeout

        lock = FileLock(folder / LOCK_NAME, timeout=0, mode=0o600, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise PrimeError(
                f"Session {folder.name} is open in another Jupyter server or `jupyter prime run`.",
                code="session_locked",
                hint="A run ends by itself: try again then. Use a server's session there, or shut "
                "that server down.",
                status=409,
            ) from None
        return lock

    # --- All sessions --------------------------------------------------------------------

    def list(self, notebook: str | None = None) -> list[SessionSummary]:
        """Return all sessions, or those of one notebook, most recently written first.

        Only the parts of logs that have not been read before are read, see `Outline`. Sessions that
        other servers have open are included, unreadable ones are left out.
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
        """Return the list entry of an open session."""
        found = self._summary(session.folder)
        if found is None:
            raise session_not_found(session.id)
        return found

    def _summary(self, folder: Path) -> SessionSummary | None:
        path = folder / LOG_NAME
        if not _is_regular(path):
            return None
        with self._listing:
            status = path.stat()
            outline = self._outlines.get(folder.name)
            if outline is None or outline.inode != status.st_ino or outline.end > status.st_size:
                outline = self._outlines[folder.name] = Outline(path, status.st_ino)
            return outline.summary()


def session_not_found(session_id: str) -> PrimeError:
    """Return the error ``session_not_found`` (404) for this id."""
    return PrimeError(
        f"There is no session {session_id[:60]!r}.",
        code="session_not_found",
        hint="It may have been deleted. List the sessions, or start a new one.",
        status=404,
    )


def _end(session: Session, lock: FileLock) -> None:
    with contextlib.suppress(PrimeError):
        session.sync()
    session.close()
    lock.release()


def _is_regular(path: Path) -> bool:
    """Return whether ``path`` is a regular file in a real folder, neither a symbolic link."""
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
    """Make new names in ``folder`` survive a power cut, on systems that can fsync folders."""
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
