"""One process at a time works on a notebook: a lock that servers and runs take by its real path."""

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

if TYPE_CHECKING:
    from filelock import FileLock

OPEN_ELSEWHERE = "open_elsewhere"

RETRY_SECONDS = 1.0
"""How often a turn that waits for another process looks whether that has ended."""

LOOK_SECONDS = 0.3
"""How long ``held`` tries: whoever looks whether a holder lives has the lock for a moment."""


class Holder(msgspec.Struct, frozen=True):
    """The process that works on a notebook, as it has noted itself beside its lock."""

    file: str
    """Real path of the notebook."""
    pid: int
    host: str
    since: str
    """When it began, ISO 8601 in UTC."""
    url: str | None = None
    """Address of the Jupyter server; ``None`` for a `jupyter prime run`."""

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine."""
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
    """``None`` where the file system has no locks."""
    times: int = 1


class NotebookLocks:
    """The notebooks that this process works on, held against all others of the same user.

    Locks end with their process, however it ends. What holds one lock can take it again. To be
    used from the event loop's thread, but for ``elsewhere``.

    Parameters
    ----------
    folder:
        Of the locks; made if need be. The same for every server and run.
    url:
        The server's address, for others to name it by.
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
        """By the name of the lock."""
        self._has_warned = False

    @contextmanager
    def held(self, notebook: Path) -> Iterator[None]:
        """Hold the notebook for as long as the block takes.

        Raises
        ------
        PrimeError
            ``open_elsewhere`` (409): another process does. It says which.
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
        """As ``held``, once other processes have ended their work.

        ``on_wait`` is called if that takes any time, with the process that is waited for if it is
        known, and again if that changes.
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
        """Who holds the notebook, or held it last and was killed; ``None`` if nobody has said."""
        return _read(self._note(_name_of(os.path.realpath(notebook))))

    def elsewhere(self, root: Path) -> dict[str, Holder]:
        """The other processes that work on notebooks, by the notebooks' paths below ``root``.

        What killed ones have left is removed.
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
        """A notebook, or a folder above it, was renamed: a lock that is held moves along."""
        # The old path is not there any more; its folder still is.
        before = os.path.join(os.path.realpath(old.parent), old.name)  # noqa: PTH118
        for name, held in list(self._held.items()):
            moved = moved_path(held.file, before, os.path.realpath(new))
            if moved is None or _name_of(moved) in self._held:
                continue
            try:
                lock = self._lock(_name_of(moved), LOOK_SECONDS)
            except OSError:
                continue
            if lock is None:  # somebody works there already
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
            with contextlib.suppress(OSError):  # others are kept out all the same
                _write(self._note(name), msgspec.json.encode(holder))

    def _end(self, name: str, held: _Held) -> None:
        del self._held[name]
        if held.lock is not None:
            with contextlib.suppress(OSError):
                self._note(name).unlink(missing_ok=True)
            held.lock.release()

    def _note(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _lock(self, name: str, seconds: float) -> FileLock | None:
        """The lock, acquired; ``None`` if another process has it.

        Raises
        ------
        OSError
            There are no locks here.
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


def _write(note: Path, content: bytes) -> None:
    """Whole or not at all: it is read without a lock."""
    draft = note.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.replace(note)
