"""One writer per directory, across processes."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import SnapshotBusy, SnapshotWriteError

filelock: Any
try:
    filelock = importlib.import_module("filelock")
except ImportError:  # a kernel in another environment
    filelock = None

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # Windows
    fcntl = None

LOCK_NAME = "lock"
_POLL_SECONDS = 0.02


@contextmanager
def exclusive(directory: Path, timeout: float) -> Iterator[None]:
    """Hold the directory's lock, waiting up to ``timeout`` seconds for it.

    filelock and the fallback both use ``flock`` on POSIX, so kernels with and without filelock
    exclude each other. A forked writer inherits the open lock file, so it keeps the lock even if
    its parent dies in the meantime. Raises `SnapshotBusy`, or `SnapshotWriteError` if the
    directory cannot be locked.
    """
    path = directory / LOCK_NAME
    busy = SnapshotBusy(
        f"Another process is saving to {directory.parent}; it did not finish within {timeout:g} s."
    )
    if filelock is not None:
        lock = filelock.FileLock(str(path), timeout=timeout, mode=0o600, thread_local=False)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise busy from None
        except OSError as error:
            raise SnapshotWriteError(f"{path} cannot be locked: {error}") from error
        try:
            yield
        finally:
            lock.release()
        return
    yield from _flock(path, timeout, busy)


def _flock(path: Path, timeout: float, busy: SnapshotBusy) -> Iterator[None]:
    if fcntl is None:
        raise SnapshotWriteError(
            "Snapshots on this system need the package filelock in the kernel's environment."
        )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SnapshotWriteError(f"{path} cannot be locked: {error}") from error
    try:
        try:
            acquired = _acquire(descriptor, fcntl.LOCK_EX, timeout)
        except OSError as error:
            raise SnapshotWriteError(f"{path} cannot be locked: {error}") from error
        if not acquired:
            raise busy
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, kind: int, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)


def wait_for_writer(directory: Path, timeout: float) -> bool:
    """Wait, before reading, until no writer is at work; return false after ``timeout`` seconds.

    A forked writer outlives its kernel, so right after a crash the snapshot may be about to be
    replaced. The lock is not held afterwards. No file is created, as the directory may be
    read-only.
    """
    if fcntl is None:
        return True  # there is no fork on such a system, so no writer outlives its kernel
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return True  # nobody has written here, or the lock file is not ours to read
    try:
        return _acquire(descriptor, fcntl.LOCK_SH, timeout)
    except OSError:
        return True  # the file system does not support locks
    finally:
        os.close(descriptor)
