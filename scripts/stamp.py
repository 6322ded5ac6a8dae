"""Stamps: what a step was last run on, so that it is run again only if that has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

GENERATED = {"__pycache__", "labextension", "_version.py", ".ipynb_checkpoints"}


def fingerprint(root: Path, names: Iterable[str], *extra: str) -> str:
    """A digest of files and whole folders under `root`, and of further text.

    A name that does not exist counts as such, so that creating it changes the digest.
    """
    digest = hashlib.sha256()
    for text in extra:
        digest.update(f"{text}\0".encode())
    for name in names:
        for path in _files(root / name):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(
        found
        for found in path.rglob("*")
        if found.is_file() and GENERATED.isdisjoint(found.relative_to(path).parts)
    )


class Stamp:
    """A file that holds the fingerprint of the last successful run.

    It lies inside of what the step makes: whoever deletes that deletes the stamp with it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def matches(self, fingerprint: str) -> bool:
        return self._path.is_file() and self._path.read_text() == fingerprint

    def write(self, fingerprint: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(fingerprint)

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
