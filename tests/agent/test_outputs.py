"""Outputs as the record keeps them."""

from __future__ import annotations

from prime_ext.agent.outputs import SHOWN_CHARS, shorten


def test_long_text_is_cut_in_the_middle_and_says_so() -> None:
    text = "a" * SHOWN_CHARS + "b" * SHOWN_CHARS
    stream = shorten({"output_type": "stream", "name": "stdout", "text": text})
    assert stream["text"].startswith("aaa")
    assert stream["text"].endswith("bbb")
    assert f"{SHOWN_CHARS} characters left out" in stream["text"]
    result = {"output_type": "execute_result", "data": {"text/plain": text, "image/png": text}}
    shortened = shorten(result)
    assert len(shortened["data"]["text/plain"]) < SHOWN_CHARS + 100
    assert shortened["data"]["image/png"] == text


def test_what_is_short_stays_as_it_is() -> None:
    for output in (
        {"output_type": "stream", "name": "stdout", "text": "1"},
        {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["t"]},
        {"output_type": "display_data", "data": {"image/png": {"content_index": 1}}},
    ):
        assert shorten(output) == output
