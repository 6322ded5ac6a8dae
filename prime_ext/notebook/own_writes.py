"""Which versions of notebook files the server has written itself, one upon the other.

A page that was away asks what became of the file it shows. Where nobody but the server has written
it since, that is the agent's work and none of a person's: the page can put it together with what
was typed there meanwhile.
"""

from __future__ import annotations

from prime_ext.notebook.lease import moved_path

REMEMBERED = 20_000
"""Versions of one file: late outputs make one every few seconds, for hours."""


class OwnWrites:
    """Versions by path; each is named by the hash that the contents manager gives."""

    def __init__(self) -> None:
        # The newest is the last.
        self._versions: dict[str, dict[str, None]] = {}

    def note(self, path: str, before: str | None, after: str | None) -> None:
        """The server has replaced the version ``before`` by ``after``; without hashes nothing is
        known of either."""
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
        """The version that the server has made of ``version``, by itself; ``None``: it has not."""
        versions = self._versions.get(path, {})
        return next(reversed(versions)) if version in versions else None

    def rename(self, old: str, new: str) -> None:
        """A notebook, or a folder above it, was renamed."""
        for path in list(self._versions):
            moved = moved_path(path, old, new)
            if moved is not None:
                self._versions[moved] = self._versions.pop(path)
