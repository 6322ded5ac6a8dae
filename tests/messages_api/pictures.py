"""Images of any size, without an imaging library."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any


def png(width: int, height: int, *, padding: int = 0) -> bytes:
    """A valid grey PNG; ``padding`` bytes of noise-free text chunk make it larger."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height, 1)
    comment = chunk(b"tEXt", b"Comment\0" + b"x" * padding) if padding else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + comment
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


def jpeg(width: int, height: int, *, metadata: int = 0) -> bytes:
    """The frame of a JPEG, behind ``metadata`` bytes of EXIF segments; not meant to be decoded."""
    segments = b""
    while metadata > 0:
        size = min(metadata, 65_000)
        segments += b"\xff\xe1" + struct.pack(">H", size + 2) + b"e" * size
        metadata -= size
    frame = struct.pack(">BHHB", 8, height, width, 3) + b"\x01\x22\x00\x02\x11\x01\x03\x11\x01"
    start = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    return start + segments + b"\xff\xc0" + struct.pack(">H", len(frame) + 2) + frame + b"\xff\xd9"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


def webp(width: int, height: int, kind: bytes = b"VP8X") -> bytes:
    if kind == b"VP8X":
        data = b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        data = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
    else:
        data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    data += b"\0" * 16
    body = b"WEBP" + kind + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    """A content block."""
    return {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": media_type,
            "data": base64.b64encode(data).decode(),
        },
    }
