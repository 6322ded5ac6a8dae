"""Which images the Messages API takes; one that it refuses would make every later request fail."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from prime_ext.context.image_size import image_format, image_size

MAX_SIDE = 2_000
"""Pixels. Twenty images may be larger, up to 8,000, but the next one would spoil them all, and
what has been sent once must not change."""
MAX_CHARS = 5 * 1024 * 1024
"""Of base64."""
HEADER_CHARS = 4_096
"""Of base64 that tell the size of all but a JPEG with a large preview in it."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
"""Python decodes more than this, such as line ends; the API does not."""


def decoded_size(data: str) -> tuple[int, int] | None:
    """Width and height of an image in base64; ``None`` if it cannot be read."""
    for chars in (HEADER_CHARS, len(data)):
        size = _size(data, chars)
        if size is not None or chars >= len(data):
            return size
    return None


def refusal(block: Mapping[str, Any]) -> str | None:
    """Why an ``image`` block cannot be sent, for the model; ``None`` if it can."""
    source = block.get("source") or {}
    if source.get("type") != "base64":
        return None
    data = str(source.get("data", ""))
    if len(data) > MAX_CHARS:
        return f"it is {len(data) * 3 // 4:,} bytes, {MAX_CHARS * 3 // 4:,} at most can be shown"
    size = decoded_size(data) if len(data) % 4 == 0 and _BASE64.fullmatch(data) else None
    if size is None or image_format(_head(data)) != source.get("media_type"):
        return "it is no PNG, JPEG, GIF or WebP, or it is damaged"
    if max(size) > MAX_SIDE:
        return (
            f"it is {size[0]} × {size[1]} pixels, {MAX_SIDE} on a side at most can be shown; draw "
            "it smaller or with fewer dots per inch"
        )
    return None


def _size(data: str, chars: int) -> tuple[int, int] | None:
    try:
        return image_size(base64.b64decode(data[: chars - chars % 4]))
    except (binascii.Error, ValueError):
        return None


def _head(data: str) -> bytes:
    return base64.b64decode(data[:32])
