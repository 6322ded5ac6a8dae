"""Versions of notebook files that the server and its pages have written one after the other.

A page asks what became of the file that it shows, because it was disconnected, or because another
page has saved the notebook. If no other program has written the file since, all changes are those
of the agent and of the user, and the page can merge them with what was typed there meanwhile.
"""

from __future__ import annotations

from prime_ext.notebook.lease import moved_path

REMEMBERED = 20_000
"""Maximum number of versions per file: late outputs create one every few seconds, for hours."""


class OwnWrites:
    """Versions by path, identified by the content hash from the contents manager."""

    def __init__(self) -> None:
        # Ordered from the oldest to the newest version.
        self._versions: dict[str, dict[str, None]] = {}

    def note(self, path: str, before: str | None, after: str | None) -> None:
        """Record that the server, or a page, has replaced version ``before`` by ``after``.

        If a hash is missing, all versions of the file are forgotten.
        """
        if before is None or after is None:
            self._versions.pop(path, None)
            return
        versions = self._versions.get(path, {})
        if next(reversed(versions), None) != before:
            # Somebody else has written in between.
            versions = {before: None}
        versions.pop(after, None)
        versions[after] = None
        if len(versions) > REMEMBERED:
            del versions[next(iter(versions))]
        self._versions[path] = versions

    def since(self, path: str, version: str | None) -> str | None:
        """Return the latest version if only the server and its pages have written since."""
        versions = self._versions.get(path, {})
        return next(reversed(versions)) if version in versions else None

    def rename(self, old: str, new: str) -> None:
        """Follow the rename of a notebook or of a folder above it."""
        for path in list(self._versions):
            moved = moved_path(path, old, new)
            if moved is not None:
                self._versions[moved] = self._versions.pop(path)
