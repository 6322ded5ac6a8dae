"""Data of a restore that is compared with its digest after it was handed out.

To read a large array takes longer than to map it, so a thread does that while the notebook goes on.
What turns out to be altered was in use by then. The objects that hold it are remembered, so that no
later snapshot calls them what was saved.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from .errors import SnapshotCorrupt
from .format import Extent, Manifest
from .segments import Progress, SegmentReader

ALTERED = "its data was altered on the disk before it was restored; make it anew"

CHECKED_WHOLE = 64 * 1024 * 1024
"""Bytes of a snapshot that are all compared before use: 15 ms with BLAKE3, 40 with SHA-256."""

CHECKED_FIRST = 16 * 1024 * 1024
"""Of a larger one: a quarter of that, for the many small things beside the large ones."""

Unchecked = dict[tuple[str, int], tuple[Extent, set[str]]]
"""Segment and offset → extent, and the names that were loaded from it."""

_holders: dict[str, Callable[[], Any]] = {}
"""Name → refers to the object that it had when that turned out to hold altered data."""

_under_way: list[Comparison] = []


def at_once(manifest: Manifest) -> int:
    """Bytes of mapped data to compare before use."""
    return CHECKED_WHOLE if manifest.total_bytes <= CHECKED_WHOLE else CHECKED_FIRST


class Comparison:
    """Of what was restored with its digests, in a thread.

    Parameters
    ----------
    values: what was restored; the names among them that hold altered data are remembered.
    alarm: told, once for each segment, the problem and the names.
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
        """The names that were restored with altered data, once all is compared.

        A forked child has no such thread: it compares itself what was not when it was forked.
        """
        self.thread.join()
        for segment in list(self._left):
            self._settle(segment, self._compare(segment, progress))
        return self._altered

    def _settle(self, segment: str, found: set[str]) -> None:
        self._altered |= found
        del self._left[segment]

    def _compare(self, segment: str, progress: Progress = lambda _slow: None) -> set[str]:
        """The names that hold altered data of a segment."""
        found: set[str] = set()
        if segment in self._pristine.problems:
            return found  # dropped by a save meanwhile; what is mapped is all there is of it
        for extent, names in self._left[segment]:
            try:
                self._pristine.checked(extent, progress)
            except SnapshotCorrupt:
                found |= names
            except LookupError:
                pass  # this environment lacks the hash; `verify="wait"` would have said so
        return found

    def concerns(self, namespace: dict[str, Any]) -> set[str]:
        """The names that still refer to the objects of which it compares the data."""
        return _still(self._holders, namespace)


def under_way(namespace: dict[str, Any]) -> list[tuple[Comparison, set[str]]]:
    """The comparisons that go on, each with the names of which a save is to know what it finds."""
    return [(comparison, comparison.concerns(namespace)) for comparison in list(_under_way)]


def remember(name: str, value: Any) -> None:
    """That a name was restored from a snapshot which says this of it."""
    _holders[name] = _reference(value)


def holding(namespace: dict[str, Any]) -> set[str]:
    """The names whose objects are still those that hold altered data."""
    return _still(_holders, namespace)


def _still(holders: dict[str, Callable[[], Any]], namespace: dict[str, Any]) -> set[str]:
    """The names that refer to the same objects as then."""
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
