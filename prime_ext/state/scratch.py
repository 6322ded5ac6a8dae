"""A directory of this process for snapshots that are kept elsewhere.

It goes when the process ends. What a killed process left is removed by the next one.
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
except ImportError:  # Windows: what is in use cannot be removed there anyway
    fcntl = None

_PREFIX = "prime-state-of-"
_OWNER = "owner"

_made: dict[str, Path] = {}
_locks: list[int] = []


def directory(token: str) -> Path:
    """The directory for ``token``, one in each process; made (0700) if need be."""
    known = _made.get(token)
    if known is not None and known.is_dir():
        return known
    if not _made:
        _remove_abandoned()
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(made / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        # Held until this process, and a writer that it forked, have ended.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _locks.append(descriptor)
    _made[token] = made
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a child that was forked from it
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
            continue  # its process lives
        finally:
            os.close(descriptor)
        shutil.rmtree(found, ignore_errors=True)
