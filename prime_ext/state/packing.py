"""Where the buffers of a component go.

Large ones stay out of the stream, each on its own. The many small ones of, say, a list of arrays
would make as many entries in the manifest; they are kept out of the stream too, but are stored
together, as one *pack*. Only tiny ones are copied into the stream.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from . import digests

MIN_BUFFER = 64 * 1024
"""Bytes from which a buffer is stored on its own, and mapped when it is restored."""

MIN_PACKED = 512
"""Bytes from which a smaller buffer goes to the pack."""

CHUNK = 4 * 1024 * 1024
_JOINED = 1024 * 1024
"""Bytes of a pack that are joined at a time: what is then hashed and written is in the cache."""

_ALIGNMENT = 64
_OWN = -1


class Pack:
    """Small buffers that are stored as one. They are joined only bit by bit, when written."""

    def __init__(self, buffers: list[memoryview]) -> None:
        self.nbytes = sum(_padded(buffer.nbytes) for buffer in buffers)
        self._buffers = buffers

    def raw(self) -> memoryview:
        """All of it, copied; as `pickle.PickleBuffer.raw`."""
        return memoryview(b"".join(self.chunks()))

    def chunks(self) -> Iterator[bytes]:
        """The content, in pieces of about `_JOINED` bytes."""
        parts: list[memoryview | bytes] = []
        size = 0
        for buffer in self._buffers:
            nbytes = buffer.nbytes
            parts.append(buffer)
            if nbytes % _ALIGNMENT:
                parts.append(bytes(-nbytes % _ALIGNMENT))
            size += _padded(nbytes)
            if size >= _JOINED:
                yield b"".join(parts)
                parts, size = [], 0
        if parts:
            yield b"".join(parts)


class Outlet:
    """A pickler's ``buffer_callback``: true for what is to be copied into the stream.

    Attributes
    ----------
    large: buffers that are stored on their own.
    packs: whether small buffers are packed; a pickler for a few loose objects need not.
    order: of each buffer outside of the stream, its length in the pack, or −1 if it is large.
    """

    def __init__(self) -> None:
        self.large: list[pickle.PickleBuffer] = []
        self.packs = False
        self.order: list[int] = []
        self._small: list[memoryview] = []

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        nbytes = raw.nbytes
        if nbytes >= MIN_BUFFER:
            self.large.append(buffer)
            self.order.append(_OWN)
            return False
        if nbytes < MIN_PACKED or not self.packs:
            return True
        self._small.append(raw)
        self.order.append(nbytes)
        return False

    def stored(self) -> tuple[list[pickle.PickleBuffer | Pack], list[int]]:
        """What is stored beside the stream, a pack first; and the order, if there is a pack."""
        if not self._small:
            return list(self.large), []
        return [Pack(self._small), *self.large], self.order


def in_order(stored: Sequence[memoryview], order: list[int]) -> Iterator[memoryview]:
    """The buffers of a stream in its order, from what is stored; the reverse of `Outlet`."""
    if not order:
        yield from stored
        return
    pack, *large = stored
    rest = iter(large)
    offset = 0
    for length in order:
        if length == _OWN:
            yield next(rest)
        else:
            yield pack[offset : offset + length]
            offset += _padded(length)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def size(buffer: Any) -> int:
    """Bytes of a buffer, a memoryview or a pack."""
    return int(buffer.raw().nbytes if isinstance(buffer, pickle.PickleBuffer) else buffer.nbytes)


def fast(buffer: Any) -> str:
    """Change-detection digest of a buffer, a memoryview or a pack."""
    if isinstance(buffer, pickle.PickleBuffer):
        return digests.fast(buffer.raw())
    if isinstance(buffer, memoryview):
        return digests.fast(buffer)
    hasher = digests.Fast()
    for chunk in buffer.chunks():
        hasher.update(chunk)
    return hasher.value()


def chunks(data: memoryview | Pack) -> Iterator[memoryview | bytes]:
    """Pieces of a memoryview (of `CHUNK` bytes) or of a pack."""
    if isinstance(data, Pack):
        yield from data.chunks()
        return
    for start in range(0, data.nbytes, CHUNK):
        yield data[start : start + CHUNK]
