"""Copies of snapshots at a URL, written and read by the process whose namespace is saved.

Any URL that fsspec supports can be used. The layout is that of a directory::

    <url>/kernel-state.dill, kernel-state.json
    <url>/kernel-state.d/seg-N.bin, previous.dill

so a copy of it can be loaded like any other snapshot. Segments are uploaded first, each once, then
the head under a temporary name, which is renamed. The key that signs heads is never stored there.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from . import format, replica
from .errors import SnapshotError

_Result = TypeVar("_Result")


class StoreUnavailable(SnapshotError):
    """The URL cannot be used from this process; the message says why."""


def local_path(url: str) -> Path | None:
    """Return the directory of a ``file://`` URL, or ``None`` for other protocols.

    Saving directly to that directory avoids a copy. Raises `StoreUnavailable` if the path is not
    absolute.
    """
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    path = unquote(parts.path)
    if not os.path.isabs(path) or parts.netloc not in ("", "localhost"):
        raise StoreUnavailable(f"{url} must hold an absolute path: file:///a/directory.")
    return Path(path)


def push(directory: Path, url: str, key: bytes, keep: Iterable[str] | None) -> int:
    """Upload the current snapshot of ``directory`` to the URL; return the number of bytes sent.

    ``keep``: segments at the URL that other generations need; all others are removed. With
    ``None``, nothing is removed.
    """
    head = format.read_head(directory, key)
    wanted = set(head.manifest.segments())
    return _using(url, lambda fs, root: _push(fs, root, directory, head.content, wanted, keep))


def pull(directory: Path, url: str, names: Iterable[str]) -> int:
    """Download segments from the URL into ``directory``; return the number of bytes received."""
    return _using(url, lambda fs, root: _pull(fs, root, directory, names))


def _using(url: str, work: Callable[[Any, str], int]) -> int:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise StoreUnavailable(
            f"{_shown(url)} cannot be used: the kernel's environment lacks the package fsspec."
        ) from None
    try:
        fs, root = url_to_fs(url)
        return work(fs, root.rstrip("/"))
    except SnapshotError:
        raise
    except Exception as error:  # each protocol's package has its own exceptions
        reason = f"{type(error).__name__}: {error}".replace(url, _shown(url))
        raise StoreUnavailable(f"{_shown(url)} cannot be used by the kernel: {reason}") from error


def _shown(url: str) -> str:
    """Return the URL without user name and password, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _push(
    fs: Any,
    root: str,
    directory: Path,
    head: bytes,
    wanted: set[str],
    keep: Iterable[str] | None,
) -> int:
    data = f"{root}/{format.DATA_NAME}"
    fs.makedirs(data, exist_ok=True)
    there = _sizes(fs, data)
    sent = 0
    for name in sorted(wanted):
        source = replica.path_of(directory, name)
        size = source.stat().st_size
        if there.get(name) != size:
            fs.put_file(str(source), f"{data}/{name}")
            sent += size
    target = f"{root}/{format.HEAD_NAME}"
    if fs.exists(target):
        _replace(fs, f"{data}/{format.PREVIOUS_NAME}", fs.cat_file(target))
    _replace(fs, target, head)
    readable = directory / format.JSON_NAME
    if readable.exists():
        fs.put_file(str(readable), f"{root}/{format.JSON_NAME}")
    for name in set() if keep is None else set(there) - wanted - set(keep):
        if name.startswith("seg-"):
            fs.rm_file(f"{data}/{name}")
    return sent + len(head)


def _pull(fs: Any, root: str, directory: Path, names: Iterable[str]) -> int:
    fetched = 0
    for name in names:
        part = replica.part_of(directory, name)
        fs.get_file(f"{root}/{format.DATA_NAME}/{name}", str(part))
        fetched += part.stat().st_size
        os.chmod(part, 0o600)
        os.replace(part, replica.path_of(directory, name))
    return fetched


def _sizes(fs: Any, data: str) -> dict[str, int]:
    fs.invalidate_cache()  # other processes may have written there
    try:
        entries = fs.ls(data, detail=True)
    except FileNotFoundError:  # object stores have no empty folders
        return {}
    return {entry["name"].rpartition("/")[2]: entry["size"] for entry in entries}


def _replace(fs: Any, target: str, content: bytes) -> None:
    """Write under a temporary name and rename, so an interrupted upload leaves the old file."""
    draft = f"{target}.{secrets.token_hex(4)}"
    fs.pipe_file(draft, content)
    fs.mv(draft, target)
