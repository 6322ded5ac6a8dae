"""Foreign snapshots: those in a session's folder that were signed with another key.

They occur in a session that was copied from another machine, or whose server has a new notary
secret. The next saves would overwrite them, so each is moved into a directory of its own::

    kernel-state.foreign/<digest of the head>/   laid out as any snapshot

There it is listed, and can be imported when a person vouches for it. Nothing here is unpickled, and
the contents of a foreign manifest are not trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prime_ext.state import Manifest
    from prime_ext.state.format import Head

FOREIGN_NAME = "kernel-state.foreign"

LOCK_SECONDS = 10.0


@dataclass(frozen=True)
class Foreign:
    """One foreign snapshot and its directory."""

    directory: Path
    manifest: Manifest

    @property
    def command(self) -> str:
        """Shell command that imports the snapshot. The session must not be open meanwhile."""
        session_id = self.directory.parent.parent.name
        source = shlex.quote(str(self.directory))
        return f"jupyter prime import {source} --session {session_id} --trust"


def set_aside(folder: Path, key: bytes) -> None:
    """Move each foreign snapshot in ``folder`` into a directory of its own.

    If the current head is signed with ``key``, all others are taken to be ours too. Segments are
    hard-linked where the file system supports it, and copied elsewhere.

    Raises
    ------
    SnapshotError, OSError
        Another process is writing, or the file system failed. Snapshots that could not be moved
        remain where they were.
    """
    from prime_ext.state import lock, writer
    from prime_ext.state.format import DATA_NAME, JSON_NAME, head_path

    if not _heads(folder, key):
        return
    writer.make_directories(folder)
    with lock.exclusive(folder / DATA_NAME, LOCK_SECONDS):
        for generation, head in _heads(folder, key):
            extras = [folder / JSON_NAME] if generation == "current" else []
            _keep_apart(folder, head, extras)
            for path in (head_path(folder, generation), *extras):
                path.unlink(missing_ok=True)


def _heads(folder: Path, key: bytes) -> list[tuple[str, Head]]:
    """Return the generations of the snapshots to set aside, oldest first, with their heads."""
    from prime_ext.state import SnapshotError
    from prime_ext.state.format import generations, head_path, read_head

    there = generations(folder)
    if not any(head_path(folder, generation).exists() for generation in there):
        return []
    try:
        read_head(folder, key)
        return []
    except SnapshotError:
        pass
    heads = [(generation, _foreign_head(folder, key, generation)) for generation in reversed(there)]
    return [(generation, head) for generation, head in heads if head is not None]


def manifests(folder: Path, key: bytes) -> list[Manifest]:
    """Return the manifests of all foreign snapshots, set aside or not yet, newest first."""
    there = [one.manifest for one in found(folder)]
    there += [head.manifest for _, head in _heads(folder, key)]
    by_id = {manifest.id: manifest for manifest in there}
    return sorted(by_id.values(), key=lambda manifest: str(manifest.created), reverse=True)


def _foreign_head(folder: Path, key: bytes, generation: str) -> Head | None:
    """Return the head if it is signed with another key; ``None`` if it is ours or damaged."""
    from prime_ext.state import SnapshotError, SnapshotRefused
    from prime_ext.state.format import read_head
    from prime_ext.state.importing import check_streams

    try:
        read_head(folder, key, generation)
    except SnapshotRefused:
        head = _unsigned(folder, generation)
    except SnapshotError:
        return None
    else:
        return None
    if head is None or (generation == "current" and not _is_described(folder, head)):
        return None
    try:
        check_streams(head)
    except SnapshotError:
        return None
    return head


def _unsigned(directory: Path, generation: str = "current") -> Head | None:
    """Read a head without checking its signature; ``None`` if it is malformed."""
    from prime_ext.state import SnapshotError, replica
    from prime_ext.state.format import read_head

    try:
        head = read_head(directory, None, generation)
        for name in head.manifest.segments():
            replica.path_of(directory, name)  # Rejects a name that leads out of the directory.
        sound = all(isinstance(entry, dict) for entry in head.manifest.names.values())
    except (SnapshotError, OSError, TypeError, AttributeError):
        return None
    return head if sound else None


def _is_described(folder: Path, head: Head) -> bool:
    """Whether the JSON copy beside the current head has the digest of this head."""
    from prime_ext.state import digests
    from prime_ext.state.format import JSON_NAME

    try:
        expected = json.loads((folder / JSON_NAME).read_bytes())["head_digest"]
        return digests.matches(expected, head.content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, LookupError):
        return True  # There is no copy that contradicts it.


def _keep_apart(folder: Path, head: Head, extras: list[Path]) -> None:
    from prime_ext.state import replica, writer
    from prime_ext.state.format import DATA_NAME, HEAD_NAME

    place = folder / FOREIGN_NAME / hashlib.sha256(head.content).hexdigest()[:16]
    if place.exists():  # The same head, found under another generation.
        return
    draft = place.with_name(f".{place.name}")
    shutil.rmtree(draft, ignore_errors=True)
    (draft / DATA_NAME).mkdir(mode=0o700, parents=True)
    place.parent.chmod(0o700)
    for name in head.manifest.segments():
        source = replica.path_of(folder, name)
        if source.is_file() and not source.is_symlink():
            _link(source, draft / DATA_NAME / name)
    for path in extras:
        if path.is_file():
            _link(path, draft / path.name)
    writer.write_durably(draft / HEAD_NAME, [head.content])
    for directory in (draft / DATA_NAME, draft):
        writer.sync_directory(directory)
    draft.replace(place)
    writer.sync_directory(place.parent)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def found(folder: Path) -> list[Foreign]:
    """Return the foreign snapshots that were set aside, newest first."""
    heads = [(directory, _unsigned(directory)) for directory in _directories(folder)]
    foreign = [Foreign(directory, head.manifest) for directory, head in heads if head is not None]
    return sorted(foreign, key=lambda one: str(one.manifest.created), reverse=True)


def segments(folder: Path) -> set[str]:
    """Names of the segments of all foreign snapshots. In a store they may lie beside ours."""
    return {name for head in found(folder) for name in head.manifest.segments()}


def last_segment(folder: Path) -> int:
    """The highest number among the segments of foreign snapshots; 0 if there are none."""
    return max((int(Path(name).stem.partition("-")[2]) for name in segments(folder)), default=0)


def forget(folder: Path) -> None:
    """Delete all foreign snapshots that were set aside."""
    shutil.rmtree(folder / FOREIGN_NAME, ignore_errors=True)


def _directories(folder: Path) -> list[Path]:
    try:
        return [p for p in (folder / FOREIGN_NAME).iterdir() if not p.name.startswith(".")]
    except OSError:
        return []
