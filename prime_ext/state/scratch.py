"""Temporary directories of this process, for snapshots that are stored elsewhere.

They are removed when the process ends. The next process removes those of a killed one.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # on Windows, open files cannot be removed anyway
    fcntl = None

_PREFIX = "prime-state-of-"
_OWNER = "owner"

_made: dict[str, Path] = {}
_locks: list[int] = []


def directory(token: str) -> Path:
    """Return this process's directory for ``token``; created with mode 0700 if missing."""
    known = _made.get(token)
    if known is not None and known.is_dir():
        return known
    if not _made:
        _remove_abandoned()
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(made / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        # The lock is held until this process, and any writer that it forked, have ended.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _locks.append(descriptor)
    _made[token] = made
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(made, ignore_errors=True)


def _remove_abandoned() -> None:
    for found in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            status = found.lstat()
            if os.name == "posix" and status.st_uid != os.getuid():
                continue
            descriptor = os.open(found / _OWNER, os.O_RDWR)
        except OSError:
            continue
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its process is still running
        finally:
            os.close(descriptor)
        shutil.rmtree(found, ignore_errors=True)
