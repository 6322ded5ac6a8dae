"""Which files hold secrets: told by their names, and by what stands at their beginning.

Nobody can know it of every file: ``names`` says what is certain and what is suspicious, ``content``
what leaves no doubt, and less where the name is suspicious.

The search loads this package alone, in a process of its own: it imports nothing but the standard
library, and its own modules by relative names.
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
    """Whether a file is seen to be a secret, looking into it only if its name makes it suspect."""
    suspected = suspicion(path.name)
    if suspected in (Suspicion.NONE, Suspicion.CERTAIN):
        return suspected is Suspicion.CERTAIN
    return path.is_file() and secret_in_file(path) is not None
