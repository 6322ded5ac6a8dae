"""Writing a pickled namespace: hashing the data, writing it, and making it durable.

Commit order: segment, fsync, head under a temporary name, fsync, atomic rename, fsync of the
directory, readable copy of the manifest. The rename is the commit point: an interruption before it
leaves the last snapshot as it was.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import digests, format, packing, segments
from .altered import ALTERED, MARK, Comparison
from .component import Component, combine
from .errors import SnapshotCorrupt, SnapshotError, SnapshotTooNew, SnapshotWriteError
from .format import ComponentRecord, Extent, HeadBuilder, Manifest
from .packing import Pack
from .report import DEGRADED, UNVERIFIED, VERIFIED
from .segments import Progress


@dataclass
class Placed:
    """The components of a snapshot, of which the small ones have their place already.

    Attributes
    ----------
    records: all components in order; None for a large one.
    large: index → large component.
    head: the streams of the small ones.
    """

    records: list[ComponentRecord | None] = field(default_factory=list)
    large: dict[int, Component] = field(default_factory=dict)
    head: HeadBuilder = field(default_factory=HeadBuilder)


@dataclass
class Job:
    """Everything a writer needs, so that a forked child looks nothing else up.

    Attributes
    ----------
    components: what is to be written.
    manifest: complete except for extents, fingerprints and sizes.
    last: manifest of the current head, or ``None``.
    last_intact: false if there is a current head that cannot be read.
    trusts_last: false if data that is taken over from ``last`` has to be compared with its digests,
        because another process wrote it, and this one has not compared it yet.
    under_way: comparisons of restored data with its digests that are still running, each with the
        names it concerns (`altered.under_way`).
    recipes: recipes of the names that these comparisons may find to hold altered data.
    verified: fingerprints of components that have been read back before.
    moment: fast digests of all buffers, in order, if these may change while they are written
        (`hold_moment`). The written bytes must match them.
    """

    directory: Path
    key: bytes
    components: Placed
    skeletons: bytes
    process_state: bytes
    manifest: Manifest
    last: Manifest | None = None
    last_intact: bool = True
    trusts_last: bool = True
    under_way: list[tuple[Comparison, set[str]]] = field(default_factory=list)
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)
    moment: list[str] | None = None

    def hold_moment(self) -> None:
        """Record digests of all buffers, for a writer that runs while the objects may change."""
        self.moment = [packing.fast(b) for c in self.components.large.values() for b in c.buffers]

    def release(self) -> None:
        """Let go of the user's objects, which the forked child has its own copies of."""
        self.components.large.clear()
        self.under_way.clear()


@dataclass
class Written:
    """The result of a write, in JSON types because it may be sent through a pipe.

    ``names`` maps a name to its status and size. ``altered`` maps names that were found, after
    pickling, to hold altered data to their new manifest entries.
    """

    names: dict[str, tuple[str, int]]
    generation: int
    fingerprint: str
    total_bytes: int
    bytes: int
    unchanged: bool
    altered: dict[str, dict[str, Any]] = field(default_factory=dict)


def _written(manifest: Manifest, written: int, unchanged: bool) -> Written:
    names = {name: (entry["status"], entry["size"]) for name, entry in manifest.names.items()}
    return Written(
        names,
        manifest.generation,
        manifest.fingerprint,
        manifest.total_bytes,
        written,
        unchanged,
    )


def write(job: Job, progress: Progress) -> Written:
    """Write and commit the snapshot. After a `SnapshotWriteError` the last one is untouched."""
    data = job.directory / format.DATA_NAME
    segment = segments.SegmentWriter(data, _next_segment(data), progress)
    draft = job.directory / f".{format.HEAD_NAME}.{secrets.token_hex(4)}"
    try:
        altered = _finish_comparisons(job, progress)
        manifest, head = _lay_out(job, segment, progress)
        if _is_unchanged(job, manifest) and segment.written == 0:
            assert job.last is not None
            _carry_verification(manifest, job.last)
            return _written(job.last, 0, True)
        segment.finish()
        encoded = manifest.encode()
        parts = head.finish(encoded, job.key)
        progress(True)
        write_durably(draft, parts)
        progress(False)
        _rotate(job)
        os.replace(draft, job.directory / format.HEAD_NAME)
        sync_directory(job.directory)
    except OSError as error:
        _discard(segment, draft)
        raise SnapshotWriteError(
            f"The snapshot could not be written to {job.directory}: {error}. "
            "The snapshot before it is untouched."
        ) from error
    except BaseException:
        _discard(segment, draft)
        raise
    write_json(job.directory, encoded, parts)
    _collect(job, manifest)
    written = _written(manifest, segment.written + sum(len(part) for part in parts), False)
    written.altered = {name: manifest.names[name] for name in altered}
    return written


def _finish_comparisons(job: Job, progress: Progress) -> list[str]:
    """Wait for the running comparisons, so that altered data is neither reused nor called intact.

    Marks the names that hold altered data as degraded and returns those found only now.
    """
    entries = job.manifest.names
    found: set[str] = set()
    for comparison, concerned in job.under_way:
        found |= comparison.finish(progress) & concerned
    altered = saved_with(job.manifest, found)
    for name in altered:
        entry = entries[name]
        entry["status"], entry["recipe"] = DEGRADED, job.recipes[name]
        if MARK not in entry["reason"]:
            entry["reason"] = "; ".join(filter(None, (entry["reason"], ALTERED)))
    return altered


def saved_with(manifest: Manifest, names: set[str]) -> list[str]:
    """Return all names of the components that contain one of ``names``."""
    entries = manifest.names
    components = {entries[name]["component"] for name in names if name in entries} - {None}
    return [name for name, entry in entries.items() if entry["component"] in components]


def _discard(segment: segments.SegmentWriter, draft: Path) -> None:
    try:
        segment.discard()
        draft.unlink()
    except OSError:
        pass  # the draft was never written, or the disk fails; the next save cleans up


def _next_segment(data: Path) -> str:
    numbers = [int(path.stem.partition("-")[2]) for path in data.glob("seg-*.bin")]
    return f"seg-{max(numbers, default=0) + 1}.bin"


def place_small(components: list[Component]) -> Placed:
    """Collect the streams of small components in a head.

    There may be thousands of them. This is done before a fork, as each takes only microseconds,
    and the child would copy the memory page of nearly every one to count a reference to it.
    """
    placed = Placed()
    for index, component in enumerate(components):
        if component.buffers or len(component.stream) >= segments.MIN_STREAM:
            placed.large[index] = component
            placed.records.append(None)
        else:
            stream = placed.head.add(component.stream, digests.fast(component.stream))
            placed.records.append(_record(component, stream, []))
    placed.head.join()
    return placed


def _record(component: Component, stream: Extent, buffers: list[Extent]) -> ComponentRecord:
    fast = [stream.fast, *(extent.fast for extent in buffers)]
    return ComponentRecord(
        roots=component.roots,
        tier=component.tier,
        stream=stream,
        buffers=buffers,
        fingerprint=combine(component.roots, fast, component.attributes),
        uses=sorted(component.used_classes),
        packed=component.packed,
        attributes=component.attributes,
    )


def _lay_out(
    job: Job, segment: segments.SegmentWriter, progress: Progress
) -> tuple[Manifest, HeadBuilder]:
    """Write new data to the segment, and complete the head and the manifest."""
    data = job.directory / format.DATA_NAME
    stored = segments.reusable(job.last, data)
    reader = segments.SegmentReader(data)
    head = job.components.head.copy()

    lengths = {length for _, length in stored}
    moment = iter(job.moment or ())

    def place(view: memoryview | Pack, algorithm: str, fast: str | None = None) -> Extent:
        of_moment = fast is not None
        if fast is None and view.nbytes in lengths:
            fast = packing.fast(view)
            progress(False)
        known = stored.get((fast or "", view.nbytes))
        if known is not None and (
            job.trusts_last or known.where == segment.name or reader.is_intact(known, progress)
        ):
            return known
        extent = segment.write(view, fast, algorithm, private=of_moment)
        if of_moment and extent.fast != fast:
            raise SnapshotWriteError(
                "A variable changed while the snapshot was written, so it was dropped; "
                "the snapshot before it is untouched."
            )
        stored[(extent.fast, view.nbytes)] = extent
        lengths.add(view.nbytes)
        return extent

    def place_stream(stream: bytes) -> Extent:
        if len(stream) >= segments.MIN_STREAM:
            # A stream is checked before each load, so its hash is one that every Python has.
            return place(memoryview(stream), "sha256")
        return head.add(stream, digests.fast(stream))

    manifest = job.manifest
    manifest.components = []
    for index, record in enumerate(job.components.records):
        if record is not None:
            manifest.components.append(record)
            continue
        component = job.components.large[index]
        stream = place_stream(component.stream)
        buffers = []
        for buffer in component.buffers:
            view = buffer if isinstance(buffer, Pack) else buffer.raw()
            buffers.append(place(view, digests.STRONG, next(moment, None)))
        manifest.components.append(_record(component, stream, buffers))
    manifest.skeletons = place_stream(job.skeletons)
    manifest.process_state = place_stream(job.process_state)
    manifest.fingerprint = fingerprint_of(manifest)
    manifest.total_bytes = sum(extent.length for extent in manifest.extents())
    _complete_names(job, manifest)
    return manifest, head


def fingerprint_of(manifest: Manifest) -> str:
    """Return the fingerprint of the namespace: of its components and of the names left out."""
    return combine_fingerprints(
        [component.fingerprint for component in manifest.components],
        [name for name, entry in manifest.names.items() if entry["component"] is None],
    )


def combine_fingerprints(components: list[str], skipped: list[str]) -> str:
    """Combine fingerprints of components and skipped names, independently of their order."""
    parts = [*sorted(components), "skipped", *sorted(skipped), ""]
    return digests.fast("\0".join(parts).encode())


def _complete_names(job: Job, manifest: Manifest) -> None:
    for record in manifest.components:
        record.verified = record.fingerprint in job.verified
    for entry in manifest.names.values():
        if entry["component"] is None:
            continue
        record = manifest.components[entry["component"]]
        entry["size"] = record.stream.length + sum(extent.length for extent in record.buffers)
        if record.verified and entry["status"] == UNVERIFIED:
            entry["status"] = VERIFIED


def _is_unchanged(job: Job, manifest: Manifest) -> bool:
    last = job.last
    if last is None or not job.last_intact or last.fingerprint != manifest.fingerprint:
        return False
    states = (last.process_state, manifest.process_state, last.skeletons, manifest.skeletons)
    fast = [None if extent is None else extent.fast for extent in states]
    return fast[0] == fast[1] and fast[2] == fast[3] and last.seq == manifest.seq


def _carry_verification(manifest: Manifest, last: Manifest) -> None:
    """Update ``last``, which stays the current snapshot, with what was verified since its save."""
    for name, entry in manifest.names.items():
        if name in last.names and entry["status"] == VERIFIED:
            last.names[name]["status"] = VERIFIED


def _rotate(job: Job) -> None:
    """Keep the current head under a second name, before it is replaced.

    An intact head becomes ``previous``. A head that is damaged or signed with another key becomes
    ``kept``, unless a head signed with our key is kept already. A head whose data is damaged
    becomes ``kept`` too, because the previous generation may still be whole.
    """
    current = format.head_path(job.directory, "current")
    if not current.exists():
        return
    if job.last is not None and segments.is_damaged(job.last, job.directory / format.DATA_NAME):
        keep_head(current, format.head_path(job.directory, "kept"))
    elif job.last_intact:
        keep_head(current, format.head_path(job.directory, "previous"))
    elif not _is_ours(format.head_path(job.directory, "kept"), job.key):
        keep_head(current, format.head_path(job.directory, "kept"))


def _is_ours(path: Path, key: bytes) -> bool:
    try:
        format.parse_head(format.read_private(path), key, path)
    except (SnapshotError, OSError):
        return False
    return True


def keep_head(source: Path, target: Path) -> None:
    """Give a head a second name, atomically, while it keeps its current name."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        os.link(source, draft)
    except OSError:  # the file system has no hard links
        write_durably(draft, [source.read_bytes()])
    os.replace(draft, target)
    draft.unlink(missing_ok=True)  # POSIX: rename does nothing if both names are one file


def _collect(job: Job, manifest: Manifest) -> None:
    """Delete the segments that no head refers to.

    A head signed with another key keeps its segments too, so signatures are not checked here. A
    head with a damaged manifest can never be restored and keeps none. If a head cannot be read from
    disk, or was written by another version of this library, nothing is deleted.
    """
    needed = set(manifest.segments())
    for generation in format.generations(job.directory)[1:]:
        path = format.head_path(job.directory, generation)
        if not path.exists():
            continue
        try:
            content = format.read_private(path)
        except (SnapshotError, OSError):
            return
        try:
            needed.update(format.parse_head(content, None, path).manifest.segments())
        except SnapshotTooNew:
            return
        except SnapshotCorrupt:
            continue
    segments.collect(job.directory / format.DATA_NAME, needed)


def write_durably(path: Path, parts: list[bytes | memoryview]) -> None:
    """Create a file with mode 0600, write it and fsync it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Fsync a directory, to make a rename in it durable (POSIX only)."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(directory: Path, encoded: bytes, head: list[bytes | memoryview]) -> None:
    """Write the readable copy of the manifest. Nothing depends on it, so errors are ignored."""
    hasher = digests.new(digests.STRONG)
    for part in head:
        hasher.update(part)
    digest = f"{digests.STRONG}:{hasher.hexdigest()}"
    content = b'{"head_digest":"%b",\n%b\n' % (digest.encode(), encoded[1:])
    draft = directory / f".{format.JSON_NAME}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(draft, directory / format.JSON_NAME)
    except OSError:
        draft.unlink(missing_ok=True)


def prepare_directory(directory: Path) -> None:
    """Remove the temporary files of interrupted writers. The caller must hold the lock."""
    for path in (
        *directory.glob(f".{format.HEAD_NAME}.*"),
        *directory.glob(f".{format.JSON_NAME}.*"),
    ):
        path.unlink(missing_ok=True)
    for path in (directory / format.DATA_NAME).glob(".*.dill.*"):
        path.unlink(missing_ok=True)


def make_directories(directory: Path) -> None:
    """Create the directory and its data folder (0700); refuse a data folder that is a symlink."""
    data = directory / format.DATA_NAME
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if data.is_symlink():
            raise SnapshotWriteError(f"{data} is a symbolic link; snapshots do not follow links.")
        data.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SnapshotWriteError(f"{directory} cannot be written to: {error}") from error
