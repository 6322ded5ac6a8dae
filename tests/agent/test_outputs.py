"""Outputs as the model, the record and the panel are given them."""

from __future__ import annotations

from typing import Any

from prime_ext.agent.outputs import (
    LIVE_RICH_CHARS,
    LIVE_TEXT_CHARS,
    RECORD_RICH_CHARS,
    RECORD_TEXT_CHARS,
    for_panel,
    for_record,
)
from prime_ext.agent.tools.run_outcome import MAX_IMAGES, run_outcome
from prime_ext.kernel.execution import Execution


def figure(size: int) -> dict[str, Any]:
    data = {"image/png": "i" * size, "text/plain": "<Figure>"}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def test_long_text_is_cut_in_the_middle_and_says_so() -> None:
    text = "a" * RECORD_TEXT_CHARS + "b" * RECORD_TEXT_CHARS
    stream, result = for_record(
        [
            {"output_type": "stream", "name": "stdout", "text": text},
            {"output_type": "execute_result", "data": {"text/plain": text, "image/png": text}},
        ]
    )
    assert stream["text"].startswith("aaa")
    assert stream["text"].endswith("bbb")
    assert f"{RECORD_TEXT_CHARS} characters left out" in stream["text"]
    assert len(result["data"]["text/plain"]) < RECORD_TEXT_CHARS + 100
    assert result["data"]["image/png"] == text
    (live,) = for_panel([stream])
    assert len(live["text"]) < LIVE_TEXT_CHARS + 100


def test_figures_over_the_limit_of_all_give_way_to_a_line() -> None:
    small, large = figure(1_000), figure(RECORD_RICH_CHARS)
    kept = for_record([small, large, small])
    assert kept[0] == kept[2] == small
    assert kept[1]["data"] == {
        "text/plain": f"<Figure> [image/png, {RECORD_RICH_CHARS:,} characters, left out here]"
    }
    live = for_panel([figure(LIVE_RICH_CHARS // 3)] * 9)
    assert ["image/png" in output["data"] for output in live] == [True] * 3 + [False] * 6


def test_what_is_short_stays_as_it_is() -> None:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": "1"},
        {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["t"]},
        {"output_type": "display_data", "data": {"image/png": {"content_index": 1}}},
    ]
    assert for_record(outputs) == for_panel(outputs) == outputs


def test_of_many_figures_the_model_is_shown_the_first_and_told_of_the_others() -> None:
    outcome = run_outcome(Execution("ok", [figure(100)] * (MAX_IMAGES + 30)))
    text, *images = outcome.content
    assert len(images) == MAX_IMAGES
    assert text["text"].startswith("<Figure> [image 1]\n")
    assert text["text"].endswith("[30 more images, which you are not shown: 20 at most]")
    assert outcome.outputs[MAX_IMAGES] == figure(100)
