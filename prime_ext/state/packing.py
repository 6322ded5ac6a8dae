"""Storing the buffers of a component.

Large buffers are stored out of band, each on its own. The many small buffers of a list of arrays,
for example, would make as many entries in the manifest, so they are stored out of band together, as
one *pack*. Only tiny buffers are copied into the stream.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from . import digests

MIN_BUFFER = 64 * 1024
"""Size in bytes from which a buffer is stored on its own, and mapped when it is restored."""

MIN_PACKED = 512
"""Size in bytes from which a smaller buffer goes to the pack."""

CHUNK = 4 * 1024 * 1024
_JOINED = 1024 * 1024
"""Bytes of a pack that are joined at a time: few enough to be in the processor's cache when they
are hashed and written."""

_ALIGNMENT = 64
_OWN = -1


class Pack:
    """Small buffers that are stored as one. They are joined piece by piece, when written."""

    def __init__(self, buffers: list[memoryview]) -> None:
        self.nbytes = sum(_padded(buffer.nbytes) for buffer in buffers)
        self._buffers = buffers

    def raw(self) -> memoryview:
        """Return a copy of the content; named like `pickle.PickleBuffer.raw`."""
        return memoryview(b"".join(self.chunks()))

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces of about `_JOINED` bytes."""
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
    """A pickler's ``buffer_callback``; returns true for buffers to be copied into the stream.

    Attributes
    ----------
    large: buffers that are stored on their own.
    packs: whether small buffers are packed; a pickler for a few loose objects need not.
    order: for each out-of-band buffer its length in the pack, or −1 if it is large.
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
        """Return the out-of-band buffers, a pack first, and the order if there is a pack."""
        if not self._small:
            return list(self.large), []
        return [Pack(self._small), *self.large], self.order


def in_order(stored: Sequence[memoryview], order: list[int]) -> Iterator[memoryview]:
    """Yield the buffers of a stream in its order, from the stored ones; the reverse of `Outlet`."""
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
    """Return the size in bytes of a `pickle.PickleBuffer`, a memoryview or a pack."""
    return int(buffer.raw().nbytes if isinstance(buffer, pickle.PickleBuffer) else buffer.nbytes)


def fast(buffer: Any) -> str:
    """Return the fast digest of a `pickle.PickleBuffer`, a memoryview or a pack."""
    if isinstance(buffer, pickle.PickleBuffer):
        return digests.fast(buffer.raw())
    if isinstance(buffer, memoryview):
        return digests.fast(buffer)
    hasher = digests.Fast()
    for chunk in buffer.chunks():
        hasher.update(chunk)
    return hasher.value()


def chunks(data: memoryview | Pack) -> Iterator[memoryview | bytes]:
    """Yield pieces of a memoryview (of `CHUNK` bytes) or of a pack."""
    if isinstance(data, Pack):
        yield from data.chunks()
        return
    for start in range(0, data.nbytes, CHUNK):
        yield data[start : start + CHUNK]
