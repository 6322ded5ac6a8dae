"""Copying snapshots from one directory to another in pieces.

A kernel on another machine saves into a directory of its own, and its snapshots are stored
elsewhere. Both sides hold the same files: heads, and the segments that these refer to. Segments
never change, so each is transferred once. The head comes last, and is the commit point here too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from . import digests, format, lock, segments, verification, writer
from .errors import SnapshotCorrupt, SnapshotError, SnapshotMissing
from .format import Extent, Manifest

VERIFIED = "verified"
"""Name of the verifier's record in this module, beside generations and segments."""

LOCK_SECONDS = 30.0

_SEGMENT = re.compile(r"seg-([0-9]{1,12})\.bin")


def path_of(directory: Path, name: str) -> Path:
    """Return the path of a file; ``name`` is a generation, `VERIFIED`, or a segment.

    Raises `SnapshotCorrupt` for any other name, because even a signed manifest may contain one.
    """
    if name == VERIFIED:
        return verification.path(directory)
    if _SEGMENT.fullmatch(name):
        return directory / format.DATA_NAME / name
    try:
        return format.head_path(directory, name)
    except ValueError:
        raise SnapshotCorrupt(f"{name!r} is not a file of a snapshot.") from None


def part_of(directory: Path, name: str) -> Path:
    """Return the path of the partial file during the transfer of the file ``name``."""
    path_of(directory, name)
    return directory / format.DATA_NAME / f".{name}.part"


def heads(directory: Path) -> dict[str, str]:
    """Return generation → SHA-256 (hex) of its head, for those that exist."""
    found = {}
    for generation in format.generations(directory):
        try:
            content = format.read_private(format.head_path(directory, generation))
        except SnapshotError:
            continue
        found[generation] = hashlib.sha256(content).hexdigest()
    return found


def missing(directory: Path, manifest: Manifest) -> list[str]:
    """Return the segments that ``manifest`` needs and ``directory`` lacks or has truncated."""
    needed: dict[str, int] = {}
    for extent in manifest.extents():
        if extent.where != format.IN_HEAD:
            end = extent.offset + extent.length
            needed[extent.where] = max(end, needed.get(extent.where, 0))
    lacking = []
    for name, size in needed.items():
        try:
            there = path_of(directory, name).stat().st_size
        except OSError:
            there = -1
        if there < size:
            lacking.append(name)
    return lacking


def last_segment(directory: Path, key: bytes) -> int:
    """Return the highest number of a segment in the directory or in one of its heads, or 0."""
    names = [path.name for path in (directory / format.DATA_NAME).glob("seg-*.bin")]
    for generation in format.generations(directory):
        try:
            names.extend(format.read_head(directory, key, generation).manifest.segments())
        except SnapshotError:
            continue
    return max((int(found[1]) for found in map(_SEGMENT.fullmatch, names) if found), default=0)


def reserve(directory: Path, number: int) -> None:
    """Ensure that the next segment written here gets a number above ``number``.

    Heads refer to segments by name, so two directories that hold the same segments must never give
    one name to different ones. An empty segment reserves the number; the next save deletes it.
    """
    data = directory / format.DATA_NAME
    writer.make_directories(directory)
    written = [_SEGMENT.fullmatch(path.name) for path in data.glob("seg-*.bin")]
    if number > max((int(found[1]) for found in written if found), default=0):
        (data / f"seg-{number}.bin").touch(mode=0o600)


def put(directory: Path, name: str, offset: int, content: bytes | memoryview) -> None:
    """Write a piece of a file being transferred; offset 0 truncates the partial file first."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(part_of(directory, name), flags | (os.O_TRUNC if not offset else 0), 0o600)
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        view = memoryview(content)
        while view.nbytes:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def get(directory: Path, name: str, offset: int, length: int) -> tuple[bytes, int]:
    """Return up to ``length`` bytes of a file from ``offset``, and the size of the whole file."""
    try:
        descriptor = os.open(path_of(directory, name), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        raise SnapshotMissing(f"The snapshot's file {name!r} is missing.") from None
    try:
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, offset, os.SEEK_SET)
        pieces = []
        while length > 0 and (piece := os.read(descriptor, length)):
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces), size
    finally:
        os.close(descriptor)


def settle(directory: Path, arrived: Iterable[str], gone: Iterable[str] = ()) -> None:
    """Rename transferred files into place, heads last; remove the heads of ``gone`` generations.

    This is for the temporary directory of a process: nothing is synced to disk, and nothing is
    checked, because loading checks it.
    """
    with lock.exclusive(directory / format.DATA_NAME, LOCK_SECONDS):
        for name in sorted(arrived, key=lambda name: not _SEGMENT.fullmatch(name)):
            os.replace(part_of(directory, name), path_of(directory, name))
        for generation in gone:
            format.head_path(directory, generation).unlink(missing_ok=True)


def commit(directory: Path, key: bytes, head: bytes, arrived: Iterable[str]) -> Manifest:
    """Make ``head`` the current head, after the segments in ``arrived`` have been transferred.

    Every extent in these segments is first compared with its signed digest. The order is that of a
    save: segments, fsync, head under a temporary name, fsync, atomic rename.

    Raises `SnapshotRefused` or `SnapshotCorrupt`, after which the current head is still in place.
    """
    data = directory / format.DATA_NAME
    current = format.head_path(directory, "current")
    manifest = format.parse_head(head, key, current).manifest
    with lock.exclusive(data, LOCK_SECONDS):
        for name in arrived:
            part = part_of(directory, name)
            _check(part, name, [e for e in manifest.extents() if e.where == name])
            _sync(part)
        writer.prepare_directory(directory)
        for name in arrived:
            os.replace(part_of(directory, name), path_of(directory, name))
        writer.sync_directory(data)
        draft = directory / f".{format.HEAD_NAME}.arrived"
        writer.write_durably(draft, [head])
        if _is_intact(directory, key):
            writer.keep_head(current, format.head_path(directory, "previous"))
        os.replace(draft, current)
        writer.sync_directory(directory)
        writer.write_json(directory, manifest.encode(), [head])
        collect(directory, key)
    return manifest


def _is_intact(directory: Path, key: bytes) -> bool:
    """Return whether the current head is intact: a damaged one must not become ``previous``."""
    try:
        format.read_head(directory, key)
    except SnapshotError:
        return False
    return True


def needed(directory: Path, key: bytes) -> set[str] | None:
    """Return the segments that the heads here refer to, or ``None`` if a head cannot be read."""
    found: set[str] = set()
    for generation in format.generations(directory):
        try:
            found.update(format.read_head(directory, key, generation).manifest.segments())
        except SnapshotMissing:
            continue
        except SnapshotError:
            return None
    return found


def collect(directory: Path, key: bytes) -> None:
    """Delete segments that no head refers to, and partial files. The caller must hold the lock."""
    data = directory / format.DATA_NAME
    wanted = needed(directory, key)
    if wanted is not None:
        segments.collect(data, wanted)
    for part in data.glob(".*.part"):
        part.unlink(missing_ok=True)


def _check(path: Path, name: str, extents: list[Extent]) -> None:
    with path.open("rb") as file:
        for extent in extents:
            try:
                hasher = digests.new(extent.strong.partition(":")[0])
            except LookupError:
                continue  # this Python lacks the algorithm; loading reports that
            file.seek(extent.offset)
            left = extent.length
            while left > 0 and (piece := file.read(min(left, 1 << 20))):
                hasher.update(piece)
                left -= len(piece)
            if left or not extent.strong.endswith(f":{hasher.hexdigest()}"):
                raise SnapshotCorrupt(f"Segment {name} did not arrive as it was written.")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
