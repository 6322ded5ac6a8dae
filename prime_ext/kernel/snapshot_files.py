"""A session's snapshots on the server's disk. Nothing here communicates with a kernel."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_ext.errors import PrimeError
from prime_ext.kernel.foreign import (
    FOREIGN_NAME,
    Foreign,
    forget,
    found,
    manifests,
    set_aside,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prime_ext.kernel.newest import Newest
    from prime_ext.state import Manifest

KEY_LABEL = b"prime_ext kernel state, session key, version 1\0"

SWITCHED_OFF = "snapshots are off"
"""Reason given when the server's configuration switches snapshots off."""

MAX_KEPT = 4
"""Maximum number of states kept of former processes; beyond it, the oldest is deleted."""

LOCK_SECONDS = 10.0
"""How long a deletion waits for a writer."""

WRITER_SECONDS = 30.0
"""How long a restore waits for a writer, which may outlive its kernel."""


def derive_key(secret: bytes, session_id: str) -> bytes:
    """Derive the key that signs one session's snapshots from the server's notary secret.

    Kernels get this key and never the secret, so that no kernel can sign another session's
    snapshot, or a notebook.
    """
    return hmac.new(secret, KEY_LABEL + session_id.encode(), hashlib.sha256).digest()


def stored_bytes(folder: Path) -> int:
    """Return the size on disk, in bytes, of the snapshots in a session's folder."""
    from prime_ext.state.format import DATA_NAME, HEAD_NAME, JSON_NAME

    paths = [folder / HEAD_NAME, folder / JSON_NAME]
    for root in (folder / DATA_NAME, folder / FOREIGN_NAME):
        for directory, _, names in os.walk(root):
            paths += [Path(directory, name) for name in names]
    # Heads kept aside and foreign segments may be hard links; count their bytes once.
    sizes: dict[tuple[int, int], int] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.lstat()
            sizes[(status.st_dev, status.st_ino)] = status.st_size
    return sum(sizes.values())


def stored_stamp(folder: Path) -> tuple[int, ...]:
    """What differs once ``stored_bytes`` does: files come and go, and none grows in place."""
    from prime_ext.state.format import DATA_NAME

    stamp = []
    for place in (folder, folder / DATA_NAME, folder / FOREIGN_NAME):
        try:
            stamp.append(place.stat().st_mtime_ns)
        except OSError:
            stamp.append(0)
    return tuple(stamp)


class SnapshotFiles:
    """The snapshots of one session: generations of one namespace.

    Every save makes ``current`` the ``previous`` one. ``kept`` is a snapshot that could only be
    restored in part, and ``kept-N`` the last one of a former process; a restore from them may still
    be wanted. All methods block on disk access: call them in a thread.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder = folder
        self.key = key

    def manifest(self, generation: str) -> Manifest | None:
        """Return the manifest of a generation; ``None`` if it does not exist or is unreadable."""
        from prime_ext import state

        try:
            return state.inspect(self.folder, key=self.key, generation=generation)
        except (state.SnapshotError, OSError):
            return None

    def wait_for_writer(self) -> None:
        """Wait until a snapshot that a dead process was still writing is the current generation."""
        from prime_ext.state import lock
        from prime_ext.state.format import DATA_NAME

        lock.wait_for_writer(self.folder / DATA_NAME, WRITER_SECONDS)

    def find(self, snapshot_id: str) -> str | None:
        """Return the generation of the snapshot with this id; ``None`` if there is none."""
        from prime_ext.state.format import generations

        for generation in generations(self.folder):
            manifest = self.manifest(generation)
            if manifest is not None and manifest.id == snapshot_id:
                return generation
        return None

    def list(self) -> list[dict[str, Any]]:
        """Return the restorable snapshots: ``{id, created, names, bytes, …}``.

        They are in the order of the generations, so a snapshot that was just imported comes first,
        no matter how old it is.
        """
        return [_described(*found) for found in self._loadable().values()]

    def manifests(self) -> Sequence[Manifest]:
        """Return the manifests of the restorable snapshots, in the same order."""
        return [manifest for manifest, _ in self._loadable().values()]

    def _loadable(self) -> dict[str, tuple[Manifest, str]]:
        """Return id → manifest and generation, each snapshot once."""
        from prime_ext.state.format import generations

        found: dict[str, tuple[Manifest, str]] = {}
        for generation in generations(self.folder):
            manifest = self._intact(generation)
            if manifest is not None:
                found.setdefault(manifest.id, (manifest, generation))
        return found

    def restorable(self, newest: Newest) -> Sequence[dict[str, Any]]:
        """Return what `list` returns, the current snapshot first.

        If an older snapshot was put in its place, the previous one comes first.

        Parameters
        ----------
        newest:
            The last snapshot according to the session's records.
        """
        listed = self.list()
        if len(listed) > 1 and newest.is_lost(self.manifest("current")):
            listed[:2] = sorted(listed[:2], key=lambda entry: entry["created"], reverse=True)
        return listed

    def damaged(self) -> bool:
        """Whether snapshots exist, but none of them can be loaded."""
        from prime_ext.state.format import generations, head_path

        there = [g for g in generations(self.folder) if head_path(self.folder, g).exists()]
        return bool(there) and not self.list()

    def set_foreign_aside(self) -> None:
        """Protect snapshots signed with another key from being replaced by the next saves.

        Raises
        ------
        PrimeError
            ``snapshot_busy``: they could not be protected, so nothing must be saved now.
        """
        from prime_ext.state import SnapshotError

        try:
            set_aside(self.folder, self.key)
        except (SnapshotError, OSError) as error:
            raise PrimeError(
                f"A snapshot of another server could not be set aside: {error}.",
                code="snapshot_busy",
                hint=f"Check free space and permissions of {self.folder}.",
                status=503,
            ) from error

    def foreign(self) -> Sequence[Foreign]:
        """Return the snapshots signed with another key, newest first; see `refuse_foreign`."""
        return found(self.folder)

    def refuse_foreign(self, snapshot_id: str) -> None:
        """Raise an error if the snapshot with this id is a foreign one.

        Raises
        ------
        PrimeError
            ``snapshot_foreign`` (409), with the command that imports it.
        """
        for one in self.foreign():
            if one.manifest.id == snapshot_id:
                raise PrimeError(
                    "Another server has signed this snapshot, so it was not loaded: loading runs "
                    "code that it holds.",
                    code="snapshot_foreign",
                    hint=f"If you trust it, stop the server and run: {one.command}",
                    status=409,
                )

    def forget_imported(self, source: Path) -> None:
        """Delete the foreign original of an imported snapshot, if it is one set aside here."""
        if any(one.directory.samefile(source) for one in self.foreign()):
            shutil.rmtree(source)

    def list_foreign(self) -> Sequence[dict[str, Any]]:
        """Return the foreign snapshots in the format of `list`, with the generation ``foreign``."""
        return [_described(one, "foreign") for one in manifests(self.folder, self.key)]

    def bytes(self) -> int:
        """Return the size on disk of all generations together, in bytes."""
        return stored_bytes(self.folder)

    def keep_aside(self) -> None:
        """Keep the newest intact generation under a name that saves do not overwrite.

        One without variables is passed over. It would be of no use, and take the place of another.
        """
        from prime_ext.state.format import head_path, numbered
        from prime_ext.state.writer import keep_head

        source, newest = "current", self._intact("current")
        if newest is None or not newest.names:
            source, newest = "previous", self._intact("previous")
        if newest is None or not newest.names:
            return
        there = numbered(self.folder)
        kept = [self._intact(generation) for generation in there]
        if any(one is not None and one.id == newest.id for one in kept):
            return
        number = int(there[0].partition("-")[2]) + 1 if there else 1
        keep_head(head_path(self.folder, source), head_path(self.folder, f"kept-{number}"))
        for generation in there[MAX_KEPT - 1 :]:
            head_path(self.folder, generation).unlink(missing_ok=True)

    def release(self, process: str) -> None:
        """Drop the generations kept of ``process``, because it continues to save."""
        from prime_ext.state.format import head_path, numbered

        for generation in numbered(self.folder):
            manifest = self._intact(generation)
            if manifest is not None and manifest.process == process:
                head_path(self.folder, generation).unlink(missing_ok=True)

    def _intact(self, generation: str) -> Manifest | None:
        manifest = self.manifest(generation)
        return manifest if manifest is not None and manifest.signature == "valid" else None

    def delete(self) -> int:
        """Delete all snapshots; return their size in bytes.

        Arrays that a kernel has memory-mapped from them stay valid, since the files are unlinked.

        Raises
        ------
        SnapshotError
            Another process is writing.
        """
        from prime_ext.state import lock
        from prime_ext.state.format import DATA_NAME, HEAD_NAME, JSON_NAME

        data = self.folder / DATA_NAME
        size = self.bytes()
        forget(self.folder)
        if not data.is_dir():
            return size
        with lock.exclusive(data, LOCK_SECONDS):
            (self.folder / HEAD_NAME).unlink(missing_ok=True)
            (self.folder / JSON_NAME).unlink(missing_ok=True)
            for path in data.iterdir():
                if path.name != lock.LOCK_NAME:
                    path.unlink(missing_ok=True)
        return size


def _described(manifest: Manifest, generation: str) -> dict[str, Any]:
    fields = ("status", "reason", "type", "size")
    return {
        "id": manifest.id,
        "snapshot_id": manifest.id,
        "generation": generation,
        "created": manifest.created,
        "kernelspec": manifest.kernelspec,
        "python": manifest.python,
        "bytes": manifest.total_bytes,
        "names": {
            name: {field: entry.get(field) for field in fields}
            for name, entry in manifest.names.items()
        },
    }
