"""Images that the API refuses are told from those it takes, and left out of a context."""

from __future__ import annotations

from typing import Any

import pytest

from prime_ext.context.image_limits import decoded_size, refusal
from prime_ext.context.projection import sendable
from tests.messages_api import shape
from tests.messages_api.errors import ApiError
from tests.messages_api.pictures import gif, image, jpeg, png, webp

TAKEN = {
    "png": image(png(2_000, 10)),
    "jpeg": image(jpeg(640, 480), "image/jpeg"),
    "jpeg with a large preview": image(jpeg(640, 480, metadata=100_000), "image/jpeg"),
    "gif": image(gif(1, 1), "image/gif"),
    "webp": image(webp(300, 200), "image/webp"),
}
REFUSED = {
    "too wide": (image(png(2_001, 1)), "2001 × 1 pixels"),
    "too large": (image(png(10, 10, padding=4_000_000)), "bytes"),
    "no image": (image(b"<svg/>"), "damaged"),
    "mislabelled": (image(png(10, 10), "image/jpeg"), "damaged"),
    "cut off": (image(png(10, 10)[:12]), "damaged"),
    "no base64": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "ü#"}},
        "damaged",
    ),
    "empty": (image(b""), "damaged"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_images_that_are_taken(name: str) -> None:
    assert refusal(TAKEN[name]) is None
    assert sendable([TAKEN[name]]) == [TAKEN[name]]


@pytest.mark.parametrize("name", REFUSED)
def test_images_that_are_refused(name: str) -> None:
    block, reason = REFUSED[name]
    found = refusal(block)
    assert found is not None
    assert reason in found
    note = sendable([block])[0]
    assert note["type"] == "text"
    assert reason in note["text"]


def user(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": blocks}]


@pytest.mark.parametrize("name", REFUSED)
def test_the_api_refuses_what_we_do(name: str) -> None:
    block, _ = REFUSED[name]
    with pytest.raises(ApiError):
        shape.messages(user([block] * 21))
    shape.messages(user(sendable([block] * 21)))


def test_the_size_is_read_from_the_start_where_it_stands_there() -> None:
    data = image(png(123, 45, padding=1_000_000))["source"]["data"]
    assert decoded_size(data[:4_096] + "not base64 behind the header") == (123, 45)
