"""Data of a restore that is compared with its digest after it was handed out.

To read a large array takes longer than to map it, so a thread does that while the notebook goes on.
What turns out to be altered was in use by then. The objects that hold it are remembered, so that no
later snapshot calls them what was saved.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from .errors import SnapshotCorrupt
from .format import Extent, Manifest
from .segments import SegmentReader

ALTERED = "its data was altered on the disk before it was restored; make it anew"

CHECKED_WHOLE = 64 * 1024 * 1024
"""Bytes of a snapshot that are all compared before use: 15 ms with BLAKE3, 40 with SHA-256."""

CHECKED_FIRST = 16 * 1024 * 1024
"""Of a larger one: a quarter of that, for the many small things beside the large ones."""

_SETTLE_SECONDS = 10.0

Unchecked = dict[tuple[str, int], tuple[Extent, set[str]]]
"""Segment and offset → extent, and the names that were loaded from it."""

_holders: dict[str, Callable[[], Any]] = {}
"""Name → refers to the object that it had when that turned out to hold altered data."""

_threads: list[threading.Thread] = []


def at_once(manifest: Manifest) -> int:
    """Bytes of mapped data to compare before use."""
    return CHECKED_WHOLE if manifest.total_bytes <= CHECKED_WHOLE else CHECKED_FIRST


def compare(
    reader: SegmentReader,
    unchecked: Unchecked,
    values: dict[str, Any],
    alarm: Callable[[str, set[str]], None],
) -> threading.Thread:
    """Compare in a thread. ``alarm`` is told, once for each segment, the problem and the names.

    ``values``: what was restored; the names among them that hold altered data are remembered.
    """
    pristine = reader.pristine()
    names = {name for _, found in unchecked.values() for name in found} & set(values)
    holders = {name: _reference(values[name]) for name in names}
    by_segment: dict[str, list[tuple[Extent, set[str]]]] = {}
    for where in sorted(unchecked):
        by_segment.setdefault(where[0], []).append(unchecked[where])

    def run() -> None:
        for segment, entries in by_segment.items():
            if segment in pristine.problems:
                continue  # dropped by a save meanwhile; what is mapped is all there is of it
            found: set[str] = set()
            for extent, of_extent in entries:
                try:
                    pristine.checked(extent)
                except SnapshotCorrupt:
                    found |= of_extent
                except LookupError:
                    return  # this environment lacks the hash; `verify="wait"` would have said so
            if segment in pristine.damaged:
                _holders.update((name, holders[name]) for name in found if name in holders)
                alarm(pristine.damaged[segment], found)

    thread = threading.Thread(target=run, name="prime-state-check", daemon=True)
    _threads[:] = [other for other in _threads if other.is_alive()] + [thread]
    thread.start()
    return thread


def settle() -> None:
    """Wait for comparisons that go on: a save is to know what they find."""
    until = time.monotonic() + _SETTLE_SECONDS
    for thread in list(_threads):
        thread.join(max(until - time.monotonic(), 0.0))
        if not thread.is_alive():
            _threads.remove(thread)


def remember(name: str, value: Any) -> None:
    """That a name was restored from a snapshot which says this of it."""
    _holders[name] = _reference(value)


def holding(namespace: dict[str, Any]) -> set[str]:
    """The names whose objects are still those that hold altered data."""
    missing = object()
    return {
        name
        for name, holder in list(_holders.items())
        if holder() is namespace.get(name, missing) is not None
    }


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
