"""Open files: reopened at the same position, without changing anything on disk."""

from __future__ import annotations

import importlib
import io
import os
import stat
import sys
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .restorers import SandboxedResource, current, outside, restorer
from .unrestorable import Unrestorable, missed

_DESTRUCTIVE = os.O_CREAT | os.O_TRUNC | os.O_EXCL


@reduces(
    io.TextIOWrapper,
    io.BufferedReader,
    io.BufferedWriter,
    io.BufferedRandom,
    io.FileIO,
    subclasses=False,
)
def reduce_file(pickler: Reducing, file: Any) -> Any:
    stream = _standard_stream(file)
    if stream is not None:
        return restore_standard_stream, (stream,)
    if file.closed:
        return restore_closed_file, (type(file).__name__, _name(file), getattr(file, "mode", "r"))
    if isinstance(file, io.TextIOWrapper) and not isinstance(file.buffer, _PLAIN_BUFFERS):
        return _reduce_text_layer(pickler, file)
    name = _path_of(file)
    if name is None:
        return pickler.lose(file, "it is not a file on disk that can be opened again")
    if not _still_named(file, name):
        return pickler.lose(file, f"{name} was deleted or replaced since it was opened")
    if _writable(file):
        file.flush()
    try:
        position = file.tell()
    except OSError as error:
        return pickler.lose(file, f"its position cannot be read: {error}")
    text = isinstance(file, io.TextIOWrapper)
    layers = {
        "encoding": file.encoding if text else None,
        "errors": file.errors if text else None,
        "buffering": _buffering(file),
    }
    return restore_file, (os.path.abspath(name), _mode(file), position, layers, name)


_PLAIN_BUFFERS = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)


def _reduce_text_layer(pickler: Reducing, file: io.TextIOWrapper) -> Any:
    """Reduce a text layer over a buffer with its own reducer, such as a compressed file."""
    buffer: Any = file.buffer
    if _is_compressed(buffer) and buffer.writable():
        return pickler.lose(file, _COMPRESSING)
    if file.writable():
        file.flush()
    position = file.tell()
    file.seek(position)  # discards what was read ahead, so that the buffer has the same position
    return restore_text_layer, (buffer, file.encoding, file.errors, position)


@restorer
def restore_text_layer(buffer: Any, encoding: str, errors: str, position: int) -> Any:
    if isinstance(buffer, Unrestorable):
        return buffer
    if isinstance(buffer, SandboxedResource):
        return SandboxedResource(restore_text_layer, (buffer, encoding, errors, position))
    file = io.TextIOWrapper(buffer, encoding, errors)
    file.seek(position)
    return file


_COMPRESSING = "what a compressor has not written out yet cannot be read"
_COMPRESSED = {"gzip": "GzipFile", "bz2": "BZ2File", "lzma": "LZMAFile"}


def _is_compressed(file: Any) -> bool:
    return _COMPRESSED.get(type(file).__module__) == type(file).__name__


@reduces(*(f"{module}:{name}" for module, name in _COMPRESSED.items()))
def reduce_compressed(pickler: Reducing, file: Any) -> Any:
    if file.closed:
        return pickler.lose(file, "it is closed")
    if file.writable():
        return pickler.lose(file, _COMPRESSING)
    inner = file.fileobj if type(file).__module__ == "gzip" else file._fp
    name = _path_of(inner)
    if name is None:
        return pickler.lose(file, "it is not a file on disk that can be opened again")
    if not _still_named(inner, name):
        return pickler.lose(file, f"{name} was deleted or replaced since it was opened")
    return restore_compressed, (type(file).__module__, os.path.abspath(name), file.tell())


@outside
def restore_compressed(module: str, path: str, position: int) -> Any:
    try:
        file = getattr(importlib.import_module(module), _COMPRESSED[module])(path)
        file.seek(position)
    except (OSError, EOFError) as error:
        return missed(
            f"{module}.{_COMPRESSED[module]}", f"{path} could not be opened again: {error}"
        )
    return file


def _standard_stream(file: Any) -> str | None:
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        if getattr(sys, name, None) is file:
            return name
    return None


@restorer
def restore_standard_stream(name: str) -> Any:
    return getattr(sys, name)


@reduces("ipykernel.iostream:OutStream", subclasses=True)
def reduce_output_stream(pickler: Reducing, stream: Any) -> Any:
    name = _standard_stream(stream)
    if name is None:
        return pickler.lose(stream, "it is an output stream of the kernel that ended")
    return restore_standard_stream, (name,)


def _name(file: Any) -> Any:
    return getattr(file, "name", None)


def _path_of(file: Any) -> str | None:
    """Return the path of a regular file, found by its descriptor if necessary, or None."""
    if not _is_regular(file):
        return None
    name = _name(file)
    if isinstance(name, int):
        try:
            name = os.readlink(f"/proc/self/fd/{file.fileno()}")
        except OSError:
            return None
    return name if isinstance(name, str) else None


def _is_regular(file: Any) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


def _still_named(file: Any, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(name))
    except OSError:
        return False


def _writable(file: Any) -> bool:
    return bool(file.writable())


def _mode(file: Any) -> str:
    # A TextIOWrapper made directly has no mode, but its buffer has one.
    mode: str = getattr(file, "mode", None) or file.buffer.mode
    if isinstance(file, io.TextIOWrapper):
        return mode.replace("b", "")
    return mode if "b" in mode else f"{mode}b"


def _buffering(file: Any) -> int:
    if isinstance(file, io.FileIO):
        return 0
    return 1 if getattr(file, "line_buffering", False) else -1


@outside
def restore_file(path: str, mode: str, position: int, layers: Any, name: str) -> Any:
    """Reopen a file without creating or truncating it, whatever its mode."""

    def open_existing(_name: str, flags: int) -> int:
        return os.open(path, flags & ~_DESTRUCTIVE)

    try:
        file = open(name, mode, opener=open_existing, **layers)  # noqa: SIM115
    except OSError as error:
        kind = "_io." + ("BufferedIOBase" if "b" in mode else "TextIOWrapper")
        return missed(kind, f"{path} could not be opened again: {error}", repr(name))
    if "a" not in mode:
        if os.path.getsize(path) < position and "r" not in mode:
            current().notes.append(f"{path} is shorter than it was; writing goes on at its end")
            file.seek(0, os.SEEK_END)
        else:
            file.seek(position)
    return file


@restorer
def restore_closed_file(kind: str, name: Any, mode: str) -> Any:
    modes = {"TextIOWrapper": "r", "BufferedWriter": "wb", "BufferedRandom": "r+b"}
    buffering = 0 if kind == "FileIO" else -1
    file: Any = open(os.devnull, modes.get(kind, "rb"), buffering)  # noqa: SIM115
    raw = file
    while not isinstance(raw, io.FileIO):
        raw = raw.buffer if isinstance(raw, io.TextIOWrapper) else raw.raw
    raw.name = name
    if kind == "TextIOWrapper":
        file.mode = mode
    file.close()
    return file
