"""Comparing restored data with its digests after the load has returned.

Reading a large array takes longer than mapping it, so a thread compares the data while the notebook
goes on. Data found to be altered may have been used by then. The objects that hold it are
remembered, so that no later snapshot presents them as intact.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from .errors import SnapshotCorrupt
from .format import Extent, Manifest
from .segments import Progress, SegmentReader

MARK = "its data was altered on the disk before it was restored"
"""Part of the reason by which a later load recognizes such data."""

ALTERED = f"{MARK}; create it again"

CHECKED_WHOLE = 64 * 1024 * 1024
"""Snapshots up to this many bytes are compared entirely before use, which takes 15 ms with BLAKE3
and 40 ms with SHA-256."""

CHECKED_FIRST = 16 * 1024 * 1024
"""Bytes of a larger snapshot compared before use: enough for its many small extents."""

Unchecked = dict[tuple[str, int], tuple[Extent, set[str]]]
"""Segment and offset → extent, and the names that were loaded from it."""

_holders: dict[str, Callable[[], Any]] = {}
"""Name → reference to the object with altered data that the name was bound to."""

_under_way: list[Comparison] = []


def at_once(manifest: Manifest) -> int:
    """Return how many bytes of mapped data to compare before use."""
    return CHECKED_WHOLE if manifest.total_bytes <= CHECKED_WHOLE else CHECKED_FIRST


class Comparison:
    """A thread that compares restored data with its digests.

    Parameters
    ----------
    reader: the reader whose segments the data was mapped from.
    unchecked: the extents to compare.
    values: the restored values by name.
    alarm: called with the problem and the names concerned, once for each damaged segment.
    """

    def __init__(
        self,
        reader: SegmentReader,
        unchecked: Unchecked,
        values: dict[str, Any],
        alarm: Callable[[str, set[str]], None],
    ) -> None:
        self._pristine = reader.pristine()
        self._alarm = alarm
        names = {name for _, found in unchecked.values() for name in found} & set(values)
        self._holders = {name: _reference(values[name]) for name in names}
        self._left: dict[str, list[tuple[Extent, set[str]]]] = {}
        for where in sorted(unchecked):
            self._left.setdefault(where[0], []).append(unchecked[where])
        self._altered: set[str] = set()
        self.thread = threading.Thread(target=self._run, name="prime-state-check", daemon=True)
        _under_way.append(self)
        self.thread.start()

    def _run(self) -> None:
        try:
            for segment in list(self._left):
                found = self._compare(segment)
                holders = self._holders
                _holders.update((name, holders[name]) for name in found if name in holders)
                self._settle(segment, found)
                if segment in self._pristine.damaged:
                    self._alarm(self._pristine.damaged[segment], found)
        finally:
            _under_way.remove(self)

    def finish(self, progress: Progress) -> set[str]:
        """Wait for the comparison and return the names that were restored with altered data.

        The thread does not exist in a forked child, which therefore compares the rest itself.
        """
        self.thread.join()
        for segment in list(self._left):
            self._settle(segment, self._compare(segment, progress))
        return self._altered

    def _settle(self, segment: str, found: set[str]) -> None:
        self._altered |= found
        del self._left[segment]

    def _compare(self, segment: str, progress: Progress = lambda _slow: None) -> set[str]:
        """Return the names that hold altered data of a segment."""
        found: set[str] = set()
        if segment in self._pristine.problems:
            return found  # a save has unlinked it meanwhile, so it cannot be opened for comparison
        for extent, names in self._left[segment]:
            try:
                self._pristine.checked(extent, progress)
            except SnapshotCorrupt:
                found |= names
            except LookupError:
                pass  # this environment lacks the hash; `verify="wait"` would have said so
        return found

    def concerns(self, namespace: dict[str, Any]) -> set[str]:
        """Return the names that still refer to the objects whose data is compared."""
        return _still(self._holders, namespace)


def under_way(namespace: dict[str, Any]) -> list[tuple[Comparison, set[str]]]:
    """Return the running comparisons, each with the names that still refer to its objects."""
    return [(comparison, comparison.concerns(namespace)) for comparison in list(_under_way)]


def remember(name: str, value: Any) -> None:
    """Remember a value as altered, because the snapshot that it came from said so."""
    _holders[name] = _reference(value)


def holding(namespace: dict[str, Any]) -> set[str]:
    """Return the names that still refer to objects with altered data."""
    return _still(_holders, namespace)


def _still(holders: dict[str, Callable[[], Any]], namespace: dict[str, Any]) -> set[str]:
    """Return the names that still refer to the remembered objects."""
    missing = object()
    return {
        name
        for name, holder in list(holders.items())
        if holder() is namespace.get(name, missing) is not None
    }


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
