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

LOCK_NAME = "lock"


@contextmanager
def exclusive(directory: Path, timeout: float) -> Iterator[None]:
    """Hold the directory's lock, waiting up to ``timeout`` seconds.

    filelock and the fallback both use ``flock`` on POSIX, so that kernels with and without
    filelock exclude each other. A forked writer inherits the open lock file and thereby keeps
    the lock if its parent dies in the meantime.
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
    try:
        import fcntl
    except ImportError:
        raise SnapshotWriteError(
            "Snapshots on this system need the package filelock in the kernel's environment."
        ) from None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SnapshotWriteError(f"{path} cannot be locked: {error}") from error
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise busy from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
