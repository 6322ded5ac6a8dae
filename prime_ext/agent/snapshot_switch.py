"""Switch that turns snapshots off for single notebooks, e.g. because they hold secrets."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING

from prime_ext.errors import PrimeError
from prime_ext.notebook.lease import moved_path
from prime_ext.private_file import replace_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BY_PERSON = "snapshots are switched off for this notebook"
BY_METADATA = "snapshots are switched off in this notebook's metadata"

LOCK_SECONDS = 10.0
"""Timeout for the file lock, which other servers hold only for moments."""


class SnapshotSwitch:
    """Paths of the notebooks whose snapshots are switched off, stored in a file.

    The class is thread-safe, and several servers can share the file. The setting is stored on the
    server, so that it takes effect at once, in every session and after a restart, even if the
    notebook itself is never saved. A notebook can also switch snapshots off in its own metadata
    (``{"prime": {"snapshots": false}}``), which applies to everyone who opens it; ``OpenAgents``
    reports this with ``found_in_metadata``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._off = _read(path)
        self._in_metadata: set[str] = set()
        # A lock is held from reading a set to replacing it, or one of two changes would be lost.
        # There are two, so that the event loop does not wait for the disk. A lock file excludes
        # other servers.
        self._changing_off = threading.Lock()
        self._changing_metadata = threading.Lock()

    def reason(self, notebook: str) -> str | None:
        """Return why the notebook's variables are not saved, or ``None`` if they are."""
        if notebook in self._in_metadata:
            return BY_METADATA
        return BY_PERSON if notebook in self._now() else None

    def found_in_metadata(self, notebook: str, off: bool) -> None:
        """Store whether the notebook's metadata switches snapshots off."""
        with self._changing_metadata:
            if off:
                self._in_metadata.add(notebook)
            else:
                self._in_metadata.discard(notebook)

    def switch(self, notebook: str, on: bool) -> None:
        """Switch a notebook on or off.

        Raises
        ------
        PrimeError
            ``snapshots_off`` (409) if its metadata says off, ``settings_not_written`` (507).
        """
        if on and notebook in self._in_metadata:
            raise PrimeError(
                "The notebook's metadata says that its variables are not saved.",
                code="snapshots_off",
                hint='Remove "snapshots": false under "prime" there, then open the session again.',
                status=409,
            )
        self._change(lambda off: off - {notebook} if on else off | {notebook})

    def rename(self, old: str, new: str) -> None:
        """Follow the rename of a notebook, or of a folder above it."""

        def followed(paths: set[str]) -> set[str]:
            return {moved_path(path, old, new) or path for path in paths}

        with self._changing_metadata:
            self._in_metadata = followed(self._in_metadata)
        if followed(self._now()) != self._off:
            self._change(followed)

    def _now(self) -> set[str]:
        """Return the notebooks that are switched off, also by another server."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            # If the file is damaged, the known state is kept, and the next change fails with an
            # error.
            with contextlib.suppress(ValueError, OSError):
                self._off, self._stamp = _read(self._path), stamp
        return self._off

    def _change(self, changed: Callable[[set[str]], set[str]]) -> None:
        from filelock import FileLock, Timeout

        lock = FileLock(f"{self._path}.lock", timeout=LOCK_SECONDS, mode=0o600)
        try:
            with self._changing_off, lock:
                before = _read(self._path)
                off = changed(before)
                if off != before:
                    replace_private(self._path, json.dumps({"off": sorted(off)}, indent=1))
                self._off, self._stamp = off, _stamp(self._path)
        except (OSError, ValueError, Timeout) as error:
            raise PrimeError(
                f"The switch could not be stored: {getattr(error, 'strerror', None) or error}.",
                code="settings_not_written",
                hint=f"Check free space and permissions of {self._path.parent}.",
                status=507,
            ) from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return values that change whenever the file does; ``None`` if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: Path) -> set[str]:
    """Return the paths in the file.

    Raises
    ------
    ValueError
        If the file is damaged. To treat it as empty could save secrets.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return set()
    try:
        return {str(notebook) for notebook in json.loads(text)["off"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged, so it is not known which notebooks' variables must not be "
            f"saved: {error}. Repair it, or delete it to save the variables of every notebook"
        ) from error
