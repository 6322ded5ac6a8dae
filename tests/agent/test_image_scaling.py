"""Images that the Messages API would refuse, drawn smaller."""

from __future__ import annotations

import base64
import io
import sys

import pytest
from PIL import Image

from prime_ext.agent.image_scaling import difference, scaled
from prime_ext.context.image_limits import MAX_CHARS, decoded_size, refusal
from tests.messages_api.pictures import image, png


def drawn(size: tuple[int, int], mode: str, format_: str) -> bytes:
    """Noise, which compresses badly."""
    file = io.BytesIO()
    Image.effect_noise(size, 100).convert(mode).save(file, format_)
    return file.getvalue()


@pytest.mark.parametrize(
    ("mode", "format_", "kind"),
    [
        ("RGB", "JPEG", "image/jpeg"),
        ("RGB", "WEBP", "image/webp"),
        ("P", "GIF", "image/gif"),
        ("P", "PNG", "image/png"),
        ("1", "PNG", "image/png"),
        ("LA", "PNG", "image/png"),
    ],
)
def test_what_is_too_wide_keeps_its_shape(mode: str, format_: str, kind: str) -> None:
    wide = image(drawn((2_400, 600), mode, format_), kind)
    fit = scaled(wide)
    assert refusal(fit) is None
    assert decoded_size(fit["source"]["data"]) == (2_000, 500)
    assert difference(wide, fit) == "shown with 2000 × 500 pixels, smaller than its 2400 × 600"


def test_what_has_too_many_bytes_is_compressed() -> None:
    dense = image(drawn((1_900, 1_500), "RGBA", "PNG") + b"\0" * MAX_CHARS)
    fit = scaled(dense)
    assert refusal(fit) is None
    assert decoded_size(fit["source"]["data"]) == (1_900, 1_500)
    assert difference(dense, fit) == "compressed"


def test_a_transparent_ground_is_white_where_there_is_no_transparency() -> None:
    size = (1_900, 1_900)
    colours = [Image.effect_noise(size, 200) for _ in range(3)]  # too much for any PNG
    picture = Image.merge("RGBA", [*colours, Image.new("L", size, 0)])
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=0)
    fit = scaled(image(file.getvalue()))
    with Image.open(io.BytesIO(base64.b64decode(fit["source"]["data"]))) as opened:
        assert opened.format == "JPEG"
        assert opened.getpixel((5, 5)) == (255, 255, 255)


def test_what_fits_cannot_be_read_or_is_gigantic_stays() -> None:
    for block in (
        {"type": "text", "text": "no image"},
        image(png(2_000, 2_000)),
        image(b"no image"),
        image(png(3_000, 10)[:60]),
        image(png(20_000, 3_000)),
    ):
        assert scaled(block) is block


def test_without_pillow_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    block = image(png(3_000, 10))
    assert scaled(block) is block
    assert base64.b64decode(block["source"]["data"]) == png(3_000, 10)
