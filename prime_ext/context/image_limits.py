"""Checks that the Messages API will accept an image.

An image that the API refuses would make every later request of the session fail.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from prime_ext.context.image_size import image_format, image_size

MAX_SIDE = 2_000
"""Maximum width and height in pixels. The API accepts up to 8,000 in requests with at most twenty
images, but one more image would make all of them invalid, and messages must not change later."""
MAX_CHARS = 5 * 1024 * 1024
"""Maximum length of the base64 data."""
HEADER_CHARS = 4_096
"""Base64 characters that suffice to read the size, except for JPEGs with a large embedded
preview."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
"""Base64 as the API accepts it. Python's decoder also accepts other characters, e.g. line feeds."""


def decoded_size(data: str) -> tuple[int, int] | None:
    """Return width and height in pixels of a base64 image; ``None`` if they cannot be read."""
    for chars in (HEADER_CHARS, len(data)):
        size = _size(data, chars)
        if size is not None or chars >= len(data):
            return size
    return None


def refusal(block: Mapping[str, Any]) -> str | None:
    """Return why an ``image`` block cannot be sent, worded for the model; ``None`` if it can."""
    source = block.get("source") or {}
    if source.get("type") != "base64":
        return None
    data = str(source.get("data", ""))
    if len(data) > MAX_CHARS:
        return f"it has {len(data) * 3 // 4:,} bytes; the maximum is {MAX_CHARS * 3 // 4:,}"
    size = decoded_size(data) if len(data) % 4 == 0 and _BASE64.fullmatch(data) else None
    if size is None or image_format(_head(data)) != source.get("media_type"):
        return "it is not a PNG, JPEG, GIF or WebP image, or it is damaged"
    if max(size) > MAX_SIDE:
        return (
            f"it has {size[0]} × {size[1]} pixels; the maximum is {MAX_SIDE} on each side: draw it "
            "smaller or with fewer dots per inch"
        )
    return None


def _size(data: str, chars: int) -> tuple[int, int] | None:
    try:
        return image_size(base64.b64decode(data[: chars - chars % 4]))
    except (binascii.Error, ValueError):
        return None


def _head(data: str) -> bytes:
    return base64.b64decode(data[:32])
