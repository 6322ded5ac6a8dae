"""Keeping a snapshot within a size: what is left out, and the reason that is given for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import packing
from .component import Component
from .components import Pickled
from .format import Manifest

_SHARE_OF_FREE = 0.9


def allowed(directory: Path, last: Manifest | None, max_bytes: int | None) -> int:
    """Bytes a snapshot may have: as asked for, and as far as the disk has room.

    What the last snapshot holds can be referred to again, so it needs no room.
    """
    free = int(shutil.disk_usage(directory).free * _SHARE_OF_FREE)
    room = free + (0 if last is None else last.total_bytes)
    return room if max_bytes is None else min(room, max_bytes)


def leave_out(pickled: Pickled, limit: int) -> None:
    """Drop the largest variables until the rest fits. Classes stay: others need them."""
    total = sum(size_of(component) for component in pickled.components)
    if total <= limit:
        return
    for component in sorted(pickled.components, key=size_of, reverse=True):
        if total <= limit:
            return
        if any(what != "name" for what, _ in component.roots):
            continue
        size = size_of(component)
        reason = (
            f"it has {size:,} bytes; with it the snapshot would exceed its limit of {limit:,} bytes"
        )
        pickled.skipped.update(dict.fromkeys(component.roots, reason))
        pickled.components.remove(component)
        total -= size


def size_of(component: Component) -> int:
    """Bytes of a component: its stream and its buffers."""
    return len(component.stream) + sum(map(packing.size, component.buffers))
