"""Locks by which one process at a time works on a notebook, identified by its real path."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.errors import PrimeError
from prime_ext.notebook.lease import moved_path
from prime_ext.private_file import replace_private

if TYPE_CHECKING:
    from filelock import FileLock

OPEN_ELSEWHERE = "open_elsewhere"

RETRY_SECONDS = 1.0
"""Interval at which a turn that waits for another process tries the lock, in seconds."""

LOOK_SECONDS = 0.3
"""How long ``held`` tries to take the lock, in seconds: a process that checks whether a holder is
alive takes the lock for a moment."""


class Holder(msgspec.Struct, frozen=True):
    """Description of the process that works on a notebook, in a file beside its lock."""

    file: str
    """Real path of the notebook."""
    pid: int
    host: str
    since: str
    """Start of its work, ISO 8601 in UTC."""
    url: str | None = None
    """URL of the Jupyter server; ``None`` for a `jupyter prime run`."""

    @property
    def is_here(self) -> bool:
        """Whether the process runs on this machine."""
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        who = f"the Jupyter server at {self.url}" if self.url else "`jupyter prime run`"
        where = "" if self.is_here else f" on {self.host}"
        since = datetime.fromisoformat(self.since).astimezone()
        return f"{who} (process {self.pid}{where}, since {since:%Y-%m-%d %H:%M})"


@dataclass
class _Held:
    file: str
    lock: FileLock | None
    """``None`` if the file system does not support locks."""
    times: int = 1


class NotebookLocks:
    """The notebooks that this process works on, locked against the same user's other processes.

    A lock is released when its process ends, even if the process is killed. Locks are reentrant
    within a process. Except for ``elsewhere``, call the methods on the event loop's thread.

    Parameters
    ----------
    folder:
        Folder of the locks, created if needed; the same for every server and run.
    url:
        Returns the URL of this server, which other processes show to their users.
    """

    def __init__(
        self,
        folder: Path,
        url: Callable[[], str | None],
        log: logging.Logger | logging.LoggerAdapter[Any],
    ) -> None:
        self.url = url
        self._folder = folder
        self._log = log
        self._held: dict[str, _Held] = {}
        """Name of the lock → the lock."""
        self._has_warned = False

    @contextmanager
    def held(self, notebook: Path) -> Iterator[None]:
        """Hold the notebook's lock for the duration of the ``with`` block.

        Raises
        ------
        PrimeError
            With the code ``open_elsewhere`` (409) if another process holds the lock; the message
            names that process.
        """
        held = self._take(notebook, LOOK_SECONDS)
        if held is None:
            raise PrimeError(
                f"{notebook.name} is in use by {self.holder(notebook) or 'another process'}.",
                code=OPEN_ELSEWHERE,
                hint="Wait until it has ended, or stop it there.",
                status=409,
            )
        try:
            yield
        finally:
            self._leave(held)

    @asynccontextmanager
    async def awaited(
        self, notebook: Path, on_wait: Callable[[Holder | None], None]
    ) -> AsyncIterator[None]:
        """Like ``held``, but wait until other processes have released the lock.

        If the lock is not free, ``on_wait`` is called with its holder, or ``None`` if unknown, and
        again whenever the holder changes.
        """
        told: list[Holder | None] = []
        while (held := self._take(notebook, 0)) is None:
            holder = self.holder(notebook)
            if told[-1:] != [holder]:
                told.append(holder)
                on_wait(holder)
            await asyncio.sleep(RETRY_SECONDS)
        try:
            yield
        finally:
            self._leave(held)

    def holder(self, notebook: Path) -> Holder | None:
        """Return the holder noted beside the lock, which may have been killed; ``None`` without."""
        return _read(self._note(_name_of(os.path.realpath(notebook))))

    def elsewhere(self, root: Path) -> dict[str, Holder]:
        """Return other processes that work on notebooks, keyed by the path relative to ``root``.

        Notes that killed processes have left behind are removed.
        """
        base = os.path.realpath(root)
        found: dict[str, Holder] = {}
        for note in self._folder.glob("*.json"):
            holder = _read(note)
            if holder is None or note.stem in self._held:
                continue
            file = PurePath(holder.file)
            if not file.is_relative_to(base):
                continue
            try:
                lock = self._lock(note.stem, 0)
            except OSError:
                continue
            if lock is None:
                found[file.relative_to(base).as_posix()] = holder
            else:
                note.unlink(missing_ok=True)
                lock.release()
        return found

    def rename(self, old: Path, new: Path) -> None:
        """Move held locks after the rename of a notebook or of a folder above it."""
        # The old path no longer exists, but its folder does.
        before = os.path.join(os.path.realpath(old.parent), old.name)  # noqa: PTH118
        for name, held in list(self._held.items()):
            moved = moved_path(held.file, before, os.path.realpath(new))
            if moved is None or _name_of(moved) in self._held:
                continue
            try:
                lock = self._lock(_name_of(moved), LOOK_SECONDS)
            except OSError:
                continue
            if lock is None:  # another process works on the new path already
                continue
            self._end(name, held)
            held.file, held.lock = moved, lock
            self._begin(_name_of(moved), held)

    def _take(self, notebook: Path, seconds: float) -> _Held | None:
        file = os.path.realpath(notebook)
        name = _name_of(file)
        held = self._held.get(name)
        if held is not None:
            held.times += 1
            return held
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self._lock(name, seconds)
            if lock is None:
                return None
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                self._log.warning(
                    "Notebooks are not locked against other servers and runs: %s", error
                )
            lock = None
        held = _Held(file, lock)
        self._begin(name, held)
        return held

    def _leave(self, held: _Held) -> None:
        held.times -= 1
        if not held.times:
            self._end(_name_of(held.file), held)

    def _begin(self, name: str, held: _Held) -> None:
        self._held[name] = held
        if held.lock is not None:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            holder = Holder(held.file, os.getpid(), socket.gethostname(), now, self.url())
            with contextlib.suppress(OSError):  # the lock works without its note
                replace_private(self._note(name), msgspec.json.encode(holder))

    def _end(self, name: str, held: _Held) -> None:
        del self._held[name]
        if held.lock is not None:
            with contextlib.suppress(OSError):
                self._note(name).unlink(missing_ok=True)
            held.lock.release()

    def _note(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _lock(self, name: str, seconds: float) -> FileLock | None:
        """Acquire the lock; return ``None`` if another process holds it.

        Raises
        ------
        OSError
            If the file system does not support locks.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._folder / f"{name}.lock", mode=0o600, thread_local=False)
        try:
            lock.acquire(timeout=seconds)
        except Timeout:
            return None
        except NotImplementedError as error:
            raise OSError(str(error)) from error
        return lock


def _name_of(file: str) -> str:
    return hashlib.sha256(file.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _read(note: Path) -> Holder | None:
    try:
        return msgspec.json.decode(note.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None
