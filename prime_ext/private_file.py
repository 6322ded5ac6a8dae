"""Atomic writing of files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

_ESCAPED = "backslashreplace"
"""Error handler for lone surrogates, which UTF-8 cannot encode."""


def replace_private(path: Path, content: str | bytes) -> None:
    """Write ``content`` to ``path`` with mode 0600, by fsync and atomic rename.

    Text is encoded as UTF-8. A missing parent folder is created with mode 0700. A symbolic link
    at ``path`` is replaced, not followed.

    Raises
    ------
    OSError
        If the file cannot be written. An earlier file at ``path`` is then unchanged.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp creates the file with mode 0600.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", _ESCAPED))
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise
