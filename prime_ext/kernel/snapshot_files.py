"""What of a session's snapshots lies on the server's disk. Nothing here asks a kernel."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from prime_ext.state import Manifest

KEY_LABEL = b"prime_ext kernel state, session key, version 1\0"

SWITCHED_OFF = "snapshots are off"
"""Said where the server's configuration switches them off."""

GENERATIONS = ("current", "previous", "kept")

LOCK_SECONDS = 10.0
"""How long deleting and importing wait for a writer."""


def derive_key(secret: bytes, session_id: str) -> bytes:
    """The key that signs one session's snapshots, from the server's notary secret.

    Kernels get this key and never the secret, so that no kernel can sign another session's
    snapshot, or a notebook.
    """
    return hmac.new(secret, KEY_LABEL + session_id.encode(), hashlib.sha256).digest()


def stored_bytes(folder: Path) -> int:
    """Bytes that the snapshots in a session's folder take on the disk."""
    from prime_ext.state.format import DATA_NAME, HEAD_NAME, JSON_NAME

    sizes: dict[tuple[int, int], int] = {}
    for name in (HEAD_NAME, JSON_NAME):
        with contextlib.suppress(OSError):
            _note_size(sizes, (folder / name).lstat())
    with contextlib.suppress(OSError), os.scandir(folder / DATA_NAME) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                _note_size(sizes, entry.stat(follow_symlinks=False))
    return sum(sizes.values())


def _note_size(sizes: dict[tuple[int, int], int], status: os.stat_result) -> None:
    # A head that is kept has two names; its bytes are there once.
    sizes[(status.st_dev, status.st_ino)] = status.st_size


class SnapshotFiles:
    """The snapshots of one session: up to three generations of one namespace.

    ``current`` and ``previous`` follow each other with every save; ``kept`` is one that a restore
    may still be wanted from. All methods look at the disk: call them in a thread.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder = folder
        self.key = key

    def manifest(self, generation: str) -> Manifest | None:
        """What a generation holds; ``None`` if there is none or it cannot be read."""
        from prime_ext import state

        try:
            return state.inspect(self.folder, key=self.key, generation=generation)
        except (state.SnapshotError, OSError):
            return None

    def find(self, snapshot_id: str) -> str | None:
        """The generation with this id."""
        for generation in GENERATIONS:
            manifest = self.manifest(generation)
            if manifest is not None and manifest.id == snapshot_id:
                return generation
        return None

    def list(self) -> list[dict[str, Any]]:
        """What can be restored, newest first: ``{id, created, names, bytes, …}``."""
        found: dict[str, dict[str, Any]] = {}
        for generation in GENERATIONS:
            manifest = self.manifest(generation)
            if manifest is None or manifest.id in found or manifest.signature != "valid":
                continue
            found[manifest.id] = {
                "id": manifest.id,
                "snapshot_id": manifest.id,
                "generation": generation,
                "created": manifest.created,
                "kernelspec": manifest.kernelspec,
                "python": manifest.python,
                "bytes": manifest.total_bytes,
                "names": {
                    name: {field: entry[field] for field in ("status", "reason", "type", "size")}
                    for name, entry in manifest.names.items()
                },
            }
        return sorted(found.values(), key=lambda s: str(s["created"]), reverse=True)

    def foreign(self) -> bool:
        """Whether there is a snapshot that another key has signed."""
        manifest = self.manifest("current")
        return manifest is not None and manifest.signature == "invalid"

    def bytes(self) -> int:
        """Bytes on the disk, all generations together."""
        return stored_bytes(self.folder)

    def keep_aside(self) -> bool:
        """Give the current generation a third name, which no save takes away; whether there is
        one."""
        from prime_ext.state.format import head_path
        from prime_ext.state.writer import keep_head

        source = head_path(self.folder, "current")
        if not source.exists():
            return False
        keep_head(source, head_path(self.folder, "kept"))
        return True

    def release(self) -> None:
        """Give up what was kept aside."""
        from prime_ext.state.format import head_path

        head_path(self.folder, "kept").unlink(missing_ok=True)

    def drop_older(self) -> None:
        """Delete all but the current generation.

        Raises
        ------
        SnapshotError
            A writer is at work.
        """
        from prime_ext.state import lock, segments
        from prime_ext.state.format import DATA_NAME, head_path, read_head

        data = self.folder / DATA_NAME
        if not data.is_dir():
            return
        with lock.exclusive(data, LOCK_SECONDS):
            current = read_head(self.folder, self.key).manifest
            for generation in ("previous", "kept"):
                head_path(self.folder, generation).unlink(missing_ok=True)
            segments.collect(data, set(current.segments()))

    def delete(self) -> int:
        """Delete everything that was saved; returns how many bytes that were.

        A kernel that has mapped arrays from it keeps them: the files only lose their names.

        Raises
        ------
        SnapshotError
            A writer is at work.
        """
        from prime_ext.state import lock
        from prime_ext.state.format import DATA_NAME, HEAD_NAME, JSON_NAME

        data = self.folder / DATA_NAME
        if not data.is_dir():
            return 0
        with lock.exclusive(data, LOCK_SECONDS):
            size = self.bytes()
            (self.folder / HEAD_NAME).unlink(missing_ok=True)
            (self.folder / JSON_NAME).unlink(missing_ok=True)
            for path in data.iterdir():
                if path.name != lock.LOCK_NAME:
                    path.unlink(missing_ok=True)
        return size
