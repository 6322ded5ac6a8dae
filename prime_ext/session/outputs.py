"""The folder ``outputs/`` of a session: full texts of capped results, and data for an undo."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from prime_ext.private_file import replace_private

if TYPE_CHECKING:
    from pathlib import Path

OUTPUTS_NAME = "outputs"

MOST_TEXT_BYTES = 256_000_000
"""Maximum total size of the full texts of one session. Beyond it, the oldest are removed."""

REMOVED = "[The full text of this output, "
"""Beginning of the note that replaces a removed text."""


class Outputs:
    """The output files of one session. May be used from several threads.

    Parameters
    ----------
    folder:
        The folder ``outputs/``, created when the first file is written.
    most_text_bytes:
        Maximum total size of the full texts.
    """

    def __init__(self, folder: Path, most_text_bytes: int = MOST_TEXT_BYTES) -> None:
        self.folder = folder
        self._most = most_text_bytes
        self._text_bytes: int | None = None
        """Total size of all texts; ``None`` before it is first needed."""

    def keep(self, name: str, data: bytes) -> None:
        """Write ``data``, which an undo needs, to the file ``name``.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        replace_private(self.folder / name, data)

    def kept(self, name: str) -> bytes | None:
        """Return the content of the file ``name``; ``None`` if it cannot be read."""
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return None

    def keep_text(self, name: str, text: str) -> Path:
        """Write the full text of a result to the file ``name``, which ends with ``.txt``.

        If the texts exceed their maximum size, the oldest are replaced by a note that says so:
        results refer to their file, so it must not just disappear.

        Returns
        -------
        Path
            Path of the file.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = self.folder / name
        if self._text_bytes is None:
            self._text_bytes = self.text_bytes()
        replace_private(path, text)
        self._text_bytes += path.stat().st_size
        if self._text_bytes > self._most:
            size = f"{self._most / 1e6:,.0f} MB"
            # Removes more than necessary, so that the next text does not exceed the maximum again.
            self.remove_texts(self._most * 9 // 10, f"to keep those of the session within {size}")
        return path

    def text_bytes(self) -> int:
        """Return the total size of all texts in bytes."""
        return sum(size for _, size, _ in self._texts())

    def remove_texts(self, down_to: int, why: str) -> int:
        """Replace the oldest texts by notes until at most ``down_to`` bytes are left.

        Parameters
        ----------
        why:
            Reason, as a part of the note's first sentence.

        Returns
        -------
        int
            Number of freed bytes.
        """
        texts = sorted(self._texts())
        before = left = sum(size for _, size, _ in texts)
        for _, size, path in texts:
            if left <= down_to:
                break
            note = _removed(size, why)
            if size > len(note) and not _is_note(path):
                replace_private(path, note)
                left -= size - len(note)
        self._text_bytes = left
        return before - left

    def _texts(self) -> list[tuple[float, int, Path]]:
        """Return modification time, size in bytes and path of each text."""
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".txt") and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime, status.st_size, self.folder / entry.name))
        except FileNotFoundError:
            return []
        return found


def is_removed(text: str) -> bool:
    """Return whether ``text`` is the note that replaces a removed text."""
    return text.startswith(REMOVED)


def _removed(size: int, why: str) -> str:
    today = datetime.now(timezone.utc).date().isoformat()
    return (
        f"{REMOVED}{size:,} bytes, was removed on {today} {why}. Its beginning and its end are in "
        "the session's records, where session_read finds them. To have it whole, run the code "
        "again.]\n"
    )


def _is_note(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(REMOVED)) == REMOVED.encode()
