"""Scales images that are too large for the Messages API, if Pillow is installed."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prime_ext.agent.tools.tool import ToolOutcome
from prime_ext.context.image_limits import MAX_CHARS, MAX_SIDE, decoded_size, refusal

if TYPE_CHECKING:
    from PIL import Image

    from prime_ext.session.records import Block

MAX_PIXELS = 50_000_000
"""Largest image that is scaled, in pixels; scaling takes about 200 MB of memory then."""
MAX_BYTES = MAX_CHARS * 3 // 4
JPEG_QUALITY = 90


def with_scaled_images(outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome with images scaled for the model; the panel keeps the originals.

    A text block says which images were scaled. Images that cannot be scaled stay as they are; the
    projection of the context replaces them by a notice. This is slow, so call it in a thread.
    """
    content: list[Block] = []
    notes: list[str] = []
    originals: dict[int, str] = {}
    for index, block in enumerate(outcome.content):
        fit = scaled(block)
        content.append(fit)
        if fit is not block:
            originals[index] = block["source"]["data"]
            number = sum(1 for one in content if one["type"] == "image")
            notes.append(f"[Image {number} is {difference(block, fit)}.]")
    if not originals:
        return outcome
    content.append({"type": "text", "text": "\n".join(notes)})
    outputs = [_with_originals(output, originals) for output in outcome.outputs]
    return replace(outcome, content=content, outputs=outputs)


def scaled(block: Block) -> Block:
    """Return a scaled copy of an image block that the API would refuse.

    Any other block is returned itself, and so is an image that cannot be scaled.
    """
    if block["type"] != "image" or refusal(block) is None:
        return block
    data = str(block["source"].get("data", ""))
    size = decoded_size(data)
    if size is None or size[0] * size[1] > MAX_PIXELS:
        return block
    try:
        smaller, kind = _drawn_smaller(base64.b64decode(data))
    except ImportError:
        return block
    except Exception:  # a damaged image can fail anywhere in the decoder
        return block
    encoded = base64.b64encode(smaller).decode()
    fit = {**block, "source": {"type": "base64", "media_type": kind, "data": encoded}}
    return fit if refusal(fit) is None else block


def difference(block: Block, fit: Block) -> str:
    """Return a phrase for the model about how the scaled image differs."""
    before, after = (decoded_size(one["source"]["data"]) or (0, 0) for one in (block, fit))
    if before == after:
        return "compressed"
    return f"shown with {after[0]} × {after[1]} pixels, smaller than its {before[0]} × {before[1]}"


def _with_originals(output: dict[str, Any], originals: dict[int, str]) -> dict[str, Any]:
    data = {
        kind: originals.get(value["content_index"], value)
        if isinstance(value, dict) and isinstance(value.get("content_index"), int)
        else value
        for kind, value in output.get("data", {}).items()
    }
    return {**output, "data": data} if data else output


def _drawn_smaller(data: bytes) -> tuple[bytes, str]:
    """Return the image scaled to both limits (side and bytes), and its media type."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data)) as opened:
        photo = opened.format == "JPEG"
        image = ImageOps.exif_transpose(opened)
        if image.mode not in ("L", "LA", "RGB", "RGBA") or "transparency" in image.info:
            # Neither palette colours nor a transparent colour key can be interpolated.
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    side = MAX_SIDE
    while True:
        image.thumbnail((side, side))
        encoded = None if photo else _encoded(image, "PNG")
        if encoded is not None and len(encoded) <= MAX_BYTES:
            return encoded, "image/png"
        encoded = _encoded(_opaque(image), "JPEG", quality=JPEG_QUALITY)
        if len(encoded) <= MAX_BYTES:
            return encoded, "image/jpeg"
        side = side * 3 // 4


def _opaque(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    from PIL import Image

    page = Image.new("RGB", image.size, "white")
    page.paste(image, mask=image.getchannel("A"))
    return page


def _encoded(image: Image.Image, format: str, **options: Any) -> bytes:  # noqa: A002
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()
