"""Signatures of snapshots: HMAC-SHA256 over the head.

Loading a snapshot runs code, so nothing is unpickled before its signature has been checked. Callers
can pass a key: the server derives one for each session and never sends its master key. Without one,
the library uses a per-user key that only that user can read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import sys
from pathlib import Path

from .errors import SnapshotRefused

SIGNATURE_BYTES = 32
_LABEL = b"prime kernel state, head, version 1\0"


def sign(key: bytes, *content: bytes | memoryview) -> bytes:
    """Return the 32-byte signature of the concatenated pieces."""
    mac = hmac.new(key, _LABEL, hashlib.sha256)
    for piece in content:
        mac.update(piece)
    return mac.digest()


def verify(key: bytes, content: bytes | memoryview, signature: bytes) -> bool:
    """Return whether ``signature`` was made with ``key``, comparing in constant time."""
    return hmac.compare_digest(sign(key, content), signature)


def user_key_path() -> Path:
    """Return the path of the per-user key."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Application Support")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    return base.expanduser() / "prime_ext" / "state.key"


def user_key() -> bytes:
    """Return the per-user key, which is created at the first use.

    Raises `SnapshotRefused` if the file is a symbolic link, belongs to another user, is accessible
    to others or is damaged: a key that others know proves nothing.
    """
    path = user_key_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return _create_user_key(path)
    except OSError as error:
        raise SnapshotRefused(f"The key file {path} cannot be used: {error}") from error
    with os.fdopen(descriptor, "rb") as file:
        if os.name == "posix":
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise SnapshotRefused(
                    f"The key file {path} is open to others; run: chmod 600 {path} "
                    "(or delete it: snapshots made with it are then refused)."
                )
        key = file.read()
    if len(key) < 32:
        raise SnapshotRefused(f"The key file {path} is damaged; delete it to have a new one made.")
    return key


def _create_user_key(path: Path) -> bytes:
    """Create a key under a temporary name and link it into place.

    If two processes do so at the same time, both use the key that was linked first.
    """
    key = secrets.token_bytes(32)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return user_key()
    except OSError:  # the file system has no hard links
        os.replace(draft, path)
        return key
    finally:
        if draft.exists():
            draft.unlink()
    return key
