"""``outputs/`` of a session: whole texts of results that were capped, and what an undo needs."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from prime_ext.private_file import replace_private

if TYPE_CHECKING:
    from pathlib import Path

OUTPUTS_NAME = "outputs"

MOST_TEXT_BYTES = 256_000_000
"""Of the whole texts of one session. When there are more, the oldest go."""

REMOVED = "[The full text of this output, "
"""What stands in the place of a text that was removed begins so."""


class Outputs:
    """The files of one session. May be used from several threads.

    Parameters
    ----------
    folder:
        Made when the first file is written.
    """

    def __init__(self, folder: Path, most_text_bytes: int = MOST_TEXT_BYTES) -> None:
        self.folder = folder
        self._most = most_text_bytes
        self._text_bytes: int | None = None
        """Of all texts, once they were counted."""

    def keep(self, name: str, data: bytes) -> None:
        """Keep what an undo needs.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        replace_private(self.folder / name, data)

    def kept(self, name: str) -> bytes | None:
        """What was kept under ``name``; ``None`` if it is gone."""
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return None

    def keep_text(self, name: str, text: str) -> Path:
        """Keep the whole text of a result as ``name``, which ends with ``.txt``; where it is.

        Texts that are too old to be kept beside it give way to a sentence that says so: results
        name their file, and whoever opens it must not take it for lost.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        path = self.folder / name
        if self._text_bytes is None:
            self._text_bytes = self.text_bytes()
        replace_private(path, text)
        self._text_bytes += path.stat().st_size
        if self._text_bytes > self._most:
            size = f"{self._most / 1e6:,.0f} MB"
            # Some more than needs be, so that it is not to be done again with the next text.
            self.remove_texts(self._most * 9 // 10, f"to keep those of the session within {size}")
        return path

    def text_bytes(self) -> int:
        """How large all texts are."""
        return sum(size for _, size, _ in self._texts())

    def remove_texts(self, down_to: int, why: str) -> int:
        """Remove the oldest texts until so many bytes are left; how many were freed.

        Parameters
        ----------
        why:
            Goes into what is left in their place.
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
        """When each text was written, how large it is, and where."""
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
    """Whether this stands in the place of a text that was removed."""
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
