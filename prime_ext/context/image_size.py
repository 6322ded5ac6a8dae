"""Format, width and height of an image from its first bytes, without decoding it."""

from __future__ import annotations

import struct

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8"
# Start-of-frame markers; C4, C8 and CC in the same range are tables, not frames.
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
JPEG_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})


def image_format(data: bytes) -> str | None:
    """Return the media type of PNG, JPEG, GIF or WebP data by its first 12 bytes, else ``None``."""
    if data.startswith(PNG):
        return "image/png"
    if data.startswith(JPEG):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return the size of a PNG, JPEG, GIF or WebP image.

    Parameters
    ----------
    data:
        The file, or enough of its beginning. In a JPEG the size can follow long metadata.

    Returns
    -------
    tuple or None
        Width and height in pixels; ``None`` if ``data`` has another format or is too short.
    """
    kind = image_format(data)
    if kind == "image/png":
        return _unpack(">II", data, 16)
    if kind == "image/gif":
        return _unpack("<HH", data, 6)
    if kind == "image/webp":
        return _webp(data)
    return _jpeg(data) if kind == "image/jpeg" else None


def _unpack(layout: str, data: bytes, offset: int) -> tuple[int, int] | None:
    if len(data) < offset + struct.calcsize(layout):
        return None
    width, height = struct.unpack_from(layout, data, offset)
    return (width, height) if width and height else None


def _webp(data: bytes) -> tuple[int, int] | None:
    chunk = data[12:16]
    if chunk == b"VP8 ":
        size = _unpack("<HH", data, 26)
        # The two upper bits of each number hold a scaling hint.
        return (size[0] & 0x3FFF, size[1] & 0x3FFF) if size else None
    if chunk == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8X" and len(data) >= 30:
        return (
            int.from_bytes(data[24:27], "little") + 1,
            int.from_bytes(data[27:30], "little") + 1,
        )
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    offset = 2
    while offset + 4 <= len(data):
        if data[offset] != 0xFF:
            return None
        marker = data[offset + 1]
        if marker == 0xFF:
            offset += 1
        elif marker in JPEG_STANDALONE:
            offset += 2
        elif marker in JPEG_FRAMES:
            size = _unpack(">HH", data, offset + 5)
            return (size[1], size[0]) if size else None
        else:
            offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    return None
