"""Keeping a snapshot within a size limit, by leaving out the largest variables."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import packing
from .component import Component
from .components import Pickled
from .format import Manifest

_SHARE_OF_FREE = 0.9


def allowed(directory: Path, last: Manifest | None, max_bytes: int | None) -> int:
    """Return the largest size in bytes that the snapshot may have.

    That is ``max_bytes``, or less if the disk lacks room. Data of the last snapshot needs no new
    room, because it can be referred to again.
    """
    free = int(shutil.disk_usage(directory).free * _SHARE_OF_FREE)
    room = free + (0 if last is None else last.total_bytes)
    return room if max_bytes is None else min(room, max_bytes)


def leave_out(pickled: Pickled, limit: int) -> None:
    """Move the largest variables to ``pickled.skipped`` until the rest fits within ``limit`` bytes.

    Components with classes or patches stay, because other components may need them.
    """
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
    """Return the size of a component in bytes: its stream and its buffers."""
    return len(component.stream) + sum(map(packing.size, component.buffers))
