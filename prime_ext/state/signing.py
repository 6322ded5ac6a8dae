"""Who made a snapshot: HMAC-SHA256 over the head.

Loading a snapshot runs code, so nothing is unpickled before its signature is checked. The key is
passed in by whoever asks (the server derives one for each session and never sends the master
key); on its own the library keeps one key per user, readable by that user only.
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
    """The 32-byte signature of the pieces, taken together."""
    mac = hmac.new(key, _LABEL, hashlib.sha256)
    for piece in content:
        mac.update(piece)
    return mac.digest()


def verify(key: bytes, content: bytes | memoryview, signature: bytes) -> bool:
    """Whether ``signature`` was made with ``key`` (in constant time)."""
    return hmac.compare_digest(sign(key, content), signature)


def user_key_path() -> Path:
    """Where the per-user key lives."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Application Support")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    return base.expanduser() / "prime_ext" / "state.key"


def user_key() -> bytes:
    """The per-user key, made at the first use.

    Raises `SnapshotRefused` when the file is a symbolic link, belongs to someone else or can be
    read by others: a key that others know signs nothing.
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
    """Write a new key to a name of its own and link it into place: two first uses agree on one."""
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
    except OSError:  # a file system without hard links
        os.replace(draft, path)
        return key
    finally:
        if draft.exists():
            draft.unlink()
    return key
