"""Segments: files for data that is too large for the head.

A segment is written once, by one save, and afterwards only mapped or unlinked, never changed:
restored arrays live in private mappings of it, and truncating a mapped file would kill the process
that maps it.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Queue
from typing import Any

from . import digests, packing
from .errors import SnapshotCorrupt
from .format import Extent, Manifest
from .packing import Pack

MIN_STREAM = 4 * 1024
"""Size in bytes from which a stream goes to a segment, so that it is not written again while it is
unchanged. Smaller streams are part of each head."""

PAGE = 4096
_PAGE_ALIGNED_FROM = 1024 * 1024
_ALIGNMENT = 64
_WRITE_BACK = 8 * 1024 * 1024
_HASH_BESIDE = 64 * 1024
_MOST_WAITING = 8
"""Largest number of pieces waiting to be hashed: those of a pack are copies, which take memory."""


Progress = Callable[[bool], None]
"""Called regularly by a writer; with true before a step that may take long without progress."""


def _find_sync_file_range() -> Any:
    """Return Linux's system call that starts writing a part of a file to disk without waiting.

    It is looked up at import, because a forked child must not load libraries. None elsewhere.
    """
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


_sync_file_range = _find_sync_file_range()
_START_WRITING = 2  # SYNC_FILE_RANGE_WRITE


class SegmentWriter:
    """Writes one new segment, hashing while it writes.

    The file is created with the first buffer, so that a save without new large data leaves no empty
    segment behind. Three things happen in parallel: this thread writes, and takes the fast digest
    of data that is in the processor's cache by then; another thread takes the strong digests; and
    the operating system writes back to disk what has been written so far.
    """

    def __init__(self, directory: Path, name: str, progress: Progress) -> None:
        self.name = name
        self.written = 0
        self._path = directory / name
        self._progress = progress
        self._descriptor = -1
        self._position = 0
        self._on_its_way = 0
        self._hashing: _StrongDigests | None = None

    def write(
        self, data: memoryview | Pack, fast: str | None, algorithm: str, private: bool = False
    ) -> Extent:
        """Append a buffer and return its extent, whose strong digest may be missing until `finish`.

        Parameters
        ----------
        data: the buffer.
        fast: its fast digest, if that is known.
        algorithm: the algorithm of the strong digest.
        private: the buffer may change while it is written. Both digests of the extent are then
            taken of the bytes actually written, whatever ``fast`` says.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(
                self._path,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0),
                0o600,
            )
        alignment = PAGE if data.nbytes >= _PAGE_ALIGNED_FROM else _ALIGNMENT
        offset = -(-self._position // alignment) * alignment
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        extent = Extent(self.name, offset, data.nbytes, fast or "")
        fast_hasher = digests.Fast() if private or fast is None else None
        hasher = digests.new(algorithm) if private or data.nbytes < _HASH_BESIDE else None
        if hasher is None and self._hashing is None:
            self._hashing = _StrongDigests()
        self._position = offset
        for piece in packing.chunks(data):
            chunk = bytes(piece) if private else piece
            if fast_hasher is not None:
                fast_hasher.update(chunk)
            if hasher is not None:
                hasher.update(chunk)
            else:
                assert self._hashing is not None
                self._hashing.update(extent, algorithm, chunk)
            self._write_all(chunk)
            self._position += len(chunk)
            self._write_back()
            self._progress(False)
        if fast_hasher is not None:
            extent.fast = fast_hasher.value()
        if hasher is not None:
            extent.strong = f"{algorithm}:{hasher.hexdigest()}"
        self.written += data.nbytes
        return extent

    def _write_all(self, data: memoryview | bytes) -> None:
        data = memoryview(data)
        while data.nbytes:
            data = data[os.write(self._descriptor, data) :]

    def _write_back(self) -> None:
        """Start writing back to disk, so that the fsync at the end has little left to do."""
        length = self._position - self._on_its_way
        if length >= _WRITE_BACK and _sync_file_range is not None:
            # Its result does not matter: the fsync at the end reports every error.
            _sync_file_range(self._descriptor, self._on_its_way, length, _START_WRITING)
            self._on_its_way = self._position

    def finish(self) -> None:
        """Complete the digests and make the segment durable."""
        if self._hashing is not None:
            self._progress(True)
            self._hashing.finish()
            self._hashing = None
        if self._descriptor >= 0:
            self._progress(True)
            os.fsync(self._descriptor)
            self._progress(False)
            os.close(self._descriptor)
            self._descriptor = -1

    def discard(self) -> None:
        """Remove the segment of a failed save."""
        if self._hashing is not None:
            with contextlib.suppress(BaseException):  # the data is dropped anyway
                self._hashing.finish()
            self._hashing = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._path.unlink()


class _StrongDigests:
    """Computes the strong digests of extents in a thread of its own, as hashing releases the GIL.

    Each piece is hashed soon after it was added, while it is still in the processor's cache.
    """

    def __init__(self) -> None:
        self._queue: Queue[tuple[Extent, str, memoryview | bytes] | None] = Queue(_MOST_WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="prime-state-hash", daemon=True)
        self._thread.start()

    def update(self, extent: Extent, algorithm: str, piece: memoryview | bytes) -> None:
        """Add the next piece of an extent. Pieces of different extents must not alternate."""
        self._queue.put((extent, algorithm, piece))

    def _run(self) -> None:
        current: tuple[Extent, str, Any] | None = None
        while True:
            item = self._queue.get()
            try:
                if current is not None and (item is None or item[0] is not current[0]):
                    extent, algorithm, hasher = current
                    extent.strong = f"{algorithm}:{hasher.hexdigest()}"
                    current = None
                if item is None:
                    return
                if self._error is not None:
                    continue  # drain the queue, so that `update` does not block
                if current is None:
                    current = item[0], item[1], digests.new(item[1])
                current[2].update(item[2])
            except BaseException as error:
                self._error = error
                current = None

    def finish(self) -> None:
        """Wait for all digests. Raises the error of the thread, if there was one."""
        self._queue.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error


class SegmentReader:
    """Maps the segments of one snapshot, each once, privately (copy on write)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._maps: dict[str, memoryview] = {}
        self._lent: set[tuple[str, int]] = set()
        self._problems: dict[str, str] = {}
        self._files: dict[str, File] = {}
        self.mapped = 0
        self.damaged: dict[str, str] = {}
        """Segment → the first problem that was met when reading from it."""

    def open_all(self, names: Iterable[str]) -> None:
        """Map all segments now: a save may unlink them at any time, but mapped ones stay readable.

        A segment that cannot be opened is recorded in `problems`, and only the components that
        need it fail.
        """
        for name in names:
            try:
                self._maps[name] = self._map(name)
            except (OSError, ValueError, SnapshotCorrupt) as error:
                self._problems[name] = str(error)

    @property
    def problems(self) -> dict[str, str]:
        """Segment name → why it cannot be read."""
        return dict(self._problems)

    def _map(self, name: str) -> memoryview:
        if os.path.basename(name) != name:
            raise SnapshotCorrupt(f"{name!r} is not the name of a segment.")
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._directory / name, flags)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SnapshotCorrupt(f"{name} is not a regular file.")
            self._files[name] = _file(status)
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
        finally:
            os.close(descriptor)

    def view(self, extent: Extent) -> memoryview:
        """Return the bytes of an extent, writable and private to this process."""
        if extent.where in self._problems:
            raise self._damage(extent, f": {self._problems[extent.where]}")
        mapped = self._maps[extent.where]
        end = extent.offset + extent.length
        if extent.offset < 0 or extent.length < 0 or end > mapped.nbytes:
            raise self._damage(extent, " is truncated.")
        self.mapped += extent.length
        return mapped[extent.offset : end]

    def lend(self, extent: Extent, check: bool = False) -> memoryview:
        """Return the bytes of an extent as the memory of one restored object.

        Equal buffers are stored only once. A second call for the same extent returns another
        mapping, so that a write through one object does not change the other.
        """
        data = self.checked(extent) if check else self.view(extent)
        if (extent.where, extent.offset) in self._lent:
            return self._map(extent.where)[extent.offset : extent.offset + extent.length]
        self._lent.add((extent.where, extent.offset))
        return data

    def checked(self, extent: Extent, progress: Progress | None = None) -> memoryview:
        """Return `view`, after comparing the content with its digest."""
        data = self.view(extent)
        self._compare(extent, data, progress)
        return data

    def copy(self, extent: Extent) -> bytes:
        """Return a copy of an extent, compared with its digest.

        Unlike a mapping, a copy does not change when somebody writes to the file later.
        """
        data = bytes(self.view(extent))
        self._compare(extent, data)
        return data

    def _compare(self, extent: Extent, data: Any, progress: Progress | None = None) -> None:
        if not digests.matches(extent.strong, data, progress):
            _altered.add((*self._files[extent.where], extent.offset))
            what = " was altered: its content does not have the signed digest."
            raise self._damage(extent, what)
        _intact.add((*self._files[extent.where], extent.offset))

    def is_intact(self, extent: Extent, progress: Progress) -> bool:
        """Return whether an extent has its digest; it is read only if this process has not yet.

        An extent whose algorithm this environment lacks counts as intact.
        """
        if extent.where not in self._maps and extent.where not in self._problems:
            self.open_all([extent.where])
        file = self._files.get(extent.where)
        if file is not None and (*file, extent.offset) in _intact:
            return True
        try:
            self.checked(extent, progress)
        except SnapshotCorrupt:
            return False
        except LookupError:
            pass
        return True

    def _damage(self, extent: Extent, what: str) -> SnapshotCorrupt:
        problem = f"Segment {extent.where}{what}"
        self.damaged.setdefault(extent.where, problem)
        return SnapshotCorrupt(problem)

    def pristine(self) -> SegmentReader:
        """Return a reader with mappings of its own, which no restored object has changed."""
        other = SegmentReader(self._directory)
        other.open_all(self._maps)
        return other


File = tuple[int, int, int]

_altered: set[tuple[int, int, int, int]] = set()
"""File and offset of the extents that this process has found to be altered."""

_intact: set[tuple[int, int, int, int]] = set()
"""File and offset of the extents that this process has read and found to be as written."""


def _file(status: os.stat_result) -> File:
    """Return the identity of a segment's file, whose name another file may get later."""
    return status.st_dev, status.st_ino, status.st_mtime_ns


def is_damaged(manifest: Manifest, directory: Path) -> bool:
    """Return whether data that a snapshot needs is known to be altered, or is missing."""
    files: dict[str, tuple[File, int]] = {}
    for name in manifest.segments():
        try:
            status = os.stat(directory / name)
        except OSError:
            return True
        files[name] = _file(status), status.st_size
    for extent in manifest.extents():
        if extent.where in files:
            file, size = files[extent.where]
            if extent.offset + extent.length > size or (*file, extent.offset) in _altered:
                return True
    return False


def reusable(manifest: Manifest | None, directory: Path) -> dict[tuple[str, int], Extent]:
    """Return the extents of the last snapshot that a new one may refer to.

    The keys are ``(fast digest, length)``. Extents found to be altered are left out. So are those
    of a segment of which less than half is still in use: their content is written again, and the
    segment is deleted with the last head that refers to it.
    """
    if manifest is None:
        return {}
    found: dict[tuple[str, int], Extent] = {}
    live = manifest.segments()
    for name, live_bytes in live.items():
        try:
            status = os.stat(directory / name)
        except OSError:
            continue
        size = status.st_size
        if live_bytes * 2 < size:
            continue
        for extent in manifest.extents():
            is_there = extent.where == name and extent.offset + extent.length <= size
            if is_there and (*_file(status), extent.offset) not in _altered:
                found[(extent.fast, extent.length)] = extent
    return found


def collect(directory: Path, needed: set[str]) -> list[str]:
    """Unlink the segments that are not ``needed`` and return their names, sorted."""
    gone = []
    for path in directory.glob("seg-*.bin"):
        if path.name not in needed:
            # Where a mapped file cannot be unlinked, a later save tries again.
            with contextlib.suppress(OSError):
                path.unlink()
                gone.append(path.name)
    return sorted(gone)
