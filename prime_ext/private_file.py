"""Files that only their owner can read, replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_private(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` with mode 0600, in a folder of mode 0700 that is made if needed.

    Nobody ever sees a half of it, and a link that stands at ``path`` is replaced, not followed.

    Raises
    ------
    OSError
        What was there before is still there then.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file anew with mode 0600.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise
