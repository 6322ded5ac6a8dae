"""Importing a snapshot that was signed with another key, on the user's explicit trust."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path

from . import digests, format, lock, writer
from .errors import SnapshotCorrupt
from .format import Extent, Head, HeadBuilder, Manifest
from .report import UNVERIFIED, VERIFIED
from .segments import SegmentReader, SegmentWriter

LOCK_SECONDS = 10.0


def import_foreign(
    source: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    key: bytes,
    after_generation: int = 0,
) -> Manifest:
    """Copy the snapshot in ``source`` to ``directory`` and sign it with ``key``.

    The caller must trust the source: loading the snapshot will run whatever code it contains.
    Nothing is unpickled here. All data is compared with its digests while it is copied, so that
    no damaged copy is signed. A snapshot that ``directory`` already holds becomes its previous
    generation. The copy gets a higher generation than ``after_generation``.

    Raises `SnapshotMissing` and `SnapshotCorrupt` for the source, `SnapshotBusy` and
    `SnapshotWriteError` for the target, and ``LookupError`` if the package for a digest is not
    installed.
    """
    head = format.read_head(Path(os.path.abspath(source)), None)
    check_streams(head)
    reader = SegmentReader(Path(os.path.abspath(source)) / format.DATA_NAME)
    reader.open_all(head.manifest.segments())
    target = Path(os.path.abspath(directory))
    data = target / format.DATA_NAME
    writer.make_directories(target)
    with lock.exclusive(data, LOCK_SECONDS):
        writer.prepare_directory(target)
        segment = SegmentWriter(data, writer._next_segment(data), lambda _: None)
        draft = target / f".{format.HEAD_NAME}.{secrets.token_hex(4)}"
        try:
            manifest = _moved(head, reader, segment)
            manifest.generation = max(manifest.generation, after_generation + 1)
            builder = HeadBuilder()
            builder.add(head.streams())  # all at once, so that each keeps its offset
            segment.finish()  # completes the digests
            encoded = manifest.encode()
            parts = builder.finish(encoded, key)
            writer.write_durably(draft, parts)
            current = format.head_path(target, "current")
            if current.exists():
                writer.keep_head(current, format.head_path(target, "previous"))
            os.replace(draft, current)
            writer.sync_directory(target)
        except BaseException:
            segment.discard()
            draft.unlink(missing_ok=True)
            raise
        writer.write_json(target, encoded, parts)
    return manifest


def check_streams(head: Head) -> None:
    """Compare the streams in a head with their digests, because its signature cannot be checked.

    Raises `SnapshotCorrupt`. A stream whose digest algorithm is not installed is not compared.
    """
    for extent in head.manifest.extents():
        if extent.where == format.IN_HEAD and extent.fast:
            try:
                whole = digests.matches(extent.fast, head.stream(extent))
            except LookupError:
                continue
            if not whole:
                raise SnapshotCorrupt("The snapshot's head was altered since it was written.")


def _moved(head: Head, reader: SegmentReader, segment: SegmentWriter) -> Manifest:
    """Copy all extents to the segment and return the manifest for them, with nothing verified."""
    moved: dict[tuple[str, int], Extent] = {}

    def move(extent: Extent) -> Extent:
        if extent.where == format.IN_HEAD:
            return extent
        place = (extent.where, extent.offset)
        if place not in moved:
            algorithm = extent.strong.partition(":")[0]
            moved[place] = segment.write(reader.checked(extent), extent.fast, algorithm)
        return moved[place]

    manifest = head.manifest
    return replace(
        manifest,
        id=secrets.token_hex(8),
        names={
            name: {**entry, "status": UNVERIFIED} if entry["status"] == VERIFIED else entry
            for name, entry in manifest.names.items()
        },
        components=[
            replace(
                record,
                stream=move(record.stream),
                buffers=[move(extent) for extent in record.buffers],
                verified=False,
            )
            for record in manifest.components
        ],
        skeletons=None if manifest.skeletons is None else move(manifest.skeletons),
        process_state=None if manifest.process_state is None else move(manifest.process_state),
    )
