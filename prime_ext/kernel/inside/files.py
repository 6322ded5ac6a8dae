"""Transfer of files between the server and this process. Sent like ``bootstrap``.

If the kernel cannot access the server's files, its snapshots are in a directory of this process
(see ``prime_ext.state.scratch``), or at a URL that names a directory here. They are transferred in
pieces, as binary buffers of private messages on the control channel, while the user's cells run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.kernel.inside import library


def probe(_kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Test whether this process can read and write the server's files: ``{shared}``.

    The same path may exist on two machines, but not with these random bytes as content. Deleting
    the file shows the server that the directory is writable.
    """
    path = params["path"]
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = file.read(len(buffers[0]) + 1)
        if found != bytes(buffers[0]):
            return {"shared": False}
        os.unlink(path)  # noqa: PTH108
    except OSError:
        return {"shared": False}
    return {"shared": True}


def directory(params: dict[str, Any]) -> Path:
    """Return the directory of the snapshots, given by ``{folder}`` or ``{token, store}``."""
    found = library.library(params)
    if params.get("folder"):
        return Path(params["folder"])
    place = library.call(found.store.local_path, params["store"]) if params["store"] else None
    if place is None:
        return Path(found.scratch.directory(params["token"]))
    return Path(place)


def look(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Return ``{heads}``: generation → digest of its head in the directory."""
    found = library.library(params)
    here = directory(params)
    library.call(found.writer.make_directories, here)
    return {"heads": library.call(found.replica.heads, here)}


def lacking(_kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Return ``{names}``: the segments of a generation that the directory lacks."""
    found = library.library(params)
    here = directory(params)
    head = library.call(found.format.read_head, here, bytes(buffers[0]), params["generation"])
    return {"names": library.call(found.replica.missing, here, head.manifest)}


def read(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Read a piece of a file: ``{size}`` of the whole file, and the piece as a buffer."""
    found = library.library(params)
    piece, size = library.call(
        found.replica.get, directory(params), params["name"], params["offset"], params["length"]
    )
    return {"size": size, "buffers": [piece]}


def write(_kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Write a piece of a file."""
    found = library.library(params)
    library.call(found.replica.put, directory(params), params["name"], params["offset"], buffers[0])
    return {}


def settle(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Move complete files to their final names, and delete the heads in ``gone``."""
    found = library.library(params)
    library.call(found.replica.settle, directory(params), params["names"], params["gone"])
    return {}


def push(_kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Upload the current snapshot to the store, unless the directory is the store."""
    found = library.library(params)
    url, here = params["store"], directory(params)
    if library.call(found.store.local_path, url) is None:
        library.call(found.store.push, here, url, bytes(buffers[0]), params["keep"])
    return {}


def pull(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Download segments from the store, unless the directory is the store."""
    found = library.library(params)
    url, here = params["store"], directory(params)
    if library.call(found.store.local_path, url) is None:
        library.call(found.store.pull, here, url, params["names"])
    return {}
