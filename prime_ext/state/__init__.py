"""Save and load a notebook's namespace.

Usable on its own, in any Python process::

    from prime_ext import state

    report = state.save("here")
    report = state.load("here")
    manifest = state.inspect("here")

The package imports neither Jupyter nor any other part of prime_ext, because it is also sent into
kernels that have none of them installed. dill, NumPy and the like are used if they are present.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import format, replica, scratch, store, verification
from .errors import (
    SnapshotBusy,
    SnapshotCorrupt,
    SnapshotError,
    SnapshotMissing,
    SnapshotRefused,
    SnapshotWriteError,
)
from .format import Manifest
from .inventory import inventory
from .load import load
from .report import NameStatus, Recipe, Report
from .save import Saving, begin, fingerprint, is_current, save, verify_saved
from .signing import user_key
from .unrestorable import Unrestorable, UnrestorableError

__all__ = [
    "Manifest",
    "NameStatus",
    "Recipe",
    "Report",
    "Saving",
    "SnapshotBusy",
    "SnapshotCorrupt",
    "SnapshotError",
    "SnapshotMissing",
    "SnapshotRefused",
    "SnapshotWriteError",
    "Unrestorable",
    "UnrestorableError",
    "begin",
    "fingerprint",
    "inspect",
    "inventory",
    "is_current",
    "load",
    "replica",
    "save",
    "scratch",
    "store",
    "verify_saved",
]


def inspect(
    directory: str | os.PathLike[str], *, key: bytes | None = None, generation: str = "current"
) -> Manifest:
    """Return the manifest of a snapshot, without unpickling or running anything.

    A snapshot signed with another key can be inspected too: ``signature`` of the result is
    ``valid`` or ``invalid``. Raises `SnapshotMissing` and `SnapshotCorrupt`.
    """
    source = Path(os.path.abspath(directory))
    key = user_key() if key is None else key
    try:
        head = format.read_head(source, key, generation)
    except SnapshotRefused:
        head = format.read_head(source, None, generation)
        head.manifest.signature = "invalid"
        return head.manifest
    verification.merge(head.manifest, verification.read(source, key))
    return head.manifest
