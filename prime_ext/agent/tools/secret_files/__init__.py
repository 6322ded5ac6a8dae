"""Detection of files that hold secrets, by their names and by the beginning of their content.

This is a heuristic. ``names`` decides which names are certain and which are suspicious. ``content``
looks for unmistakable secrets in any file, and for weaker evidence in files with suspicious names.

The search process loads this package without the rest of ``prime_ext``. It must therefore import
only the standard library, and its own modules by relative names.
"""

from __future__ import annotations

from pathlib import Path

from .content import LIKELY, LOOKED_AT_BYTES, secret_in_file, secret_inside
from .names import FOLDERS, Suspicion, is_secret, suspicion

__all__ = [
    "FOLDERS",
    "LIKELY",
    "LOOKED_AT_BYTES",
    "Suspicion",
    "is_held_back",
    "is_secret",
    "secret_in_file",
    "secret_inside",
    "suspicion",
]


def is_held_back(path: Path) -> bool:
    """Return whether a file counts as secret.

    Its content is only checked if its name is suspicious.
    """
    suspected = suspicion(path.name)
    if suspected in (Suspicion.NONE, Suspicion.CERTAIN):
        return suspected is Suspicion.CERTAIN
    return path.is_file() and secret_in_file(path) is not None
