"""The few pickle operations that `plain_code` writes itself.

They are those that the C pickler would write, without memoizing anything, so pieces that were
written independently can follow one another in one stream (`pickletools` describes them).
"""

from __future__ import annotations

import struct

from .pickling import PROTOCOL
from .restorers import ALIAS

NONE = b"N"
"""The operation that pushes None."""

_SHORT = 256
_length = struct.Struct("<I").pack
_frame_length = struct.Struct("<Q").pack
_PROTOCOL = b"\x80%c" % PROTOCOL


def whole(content: bytes) -> bytes:
    """Return a complete pickle of the object that the operations in ``content`` push."""
    return b"%b\x95%b%b." % (_PROTOCOL, _frame_length(len(content) + 1), content)


def text(value: str) -> bytes:
    """Return the operation that pushes a string."""
    encoded = value.encode("utf-8", "surrogatepass")
    if len(encoded) < _SHORT:
        return b"\x8c%c%b" % (len(encoded), encoded)
    return b"X%b%b" % (_length(len(encoded)), encoded)


def data(value: bytes) -> bytes:
    """Return the operation that pushes bytes."""
    if len(value) < _SHORT:
        return b"C%c%b" % (len(value), value)
    return b"B%b%b" % (_length(len(value)), value)


def restorer(name: str) -> bytes:
    """Return the operations that push a restorer."""
    return b"%b%b\x93" % (text(ALIAS), text(name))


def texts(values: list[str]) -> bytes:
    """Return the operations that push a list of strings."""
    return b"](%be" % b"".join(map(text, values)) if values else b"]"


_TUPLE = (b")", b"\x85", b"\x86", b"\x87")


def call(function: bytes, arguments: bytes, count: int) -> bytes:
    """Return the operations that call a function with ``count`` arguments, at most three."""
    return b"%b%b%bR" % (function, arguments, _TUPLE[count])
