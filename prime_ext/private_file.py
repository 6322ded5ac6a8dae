"""Files that only their owner can read, replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

_ESCAPED = "backslashreplace"
"""What becomes of half a surrogate pair, which UTF-8 cannot say."""


def replace_private(path: Path, content: str | bytes) -> None:
    """Write ``content`` with mode 0600, in a folder of mode 0700 that is made if needed.

    Text becomes UTF-8. Nobody ever sees a half of it, and a link that stands at ``path`` is
    replaced, not followed.

    Raises
    ------
    OSError
        What was there before is still there then.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file anew with mode 0600.
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
