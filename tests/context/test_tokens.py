"""Counting tokens, and learning how a model's own count differs."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import random
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context import tokens
from prime_ext.context.image_size import image_size
from prime_ext.context.tokens import (
    IMAGE_TOKEN_CAP,
    RATIO_MAX,
    RATIO_MIN,
    Size,
    UsageEstimator,
    context_tokens,
    count_text,
    image_tokens,
    measure_block,
    measure_message,
    measure_request,
    seed_ratio,
)
from tests.messages_api.pictures import gif, image, jpeg, png, webp

RANDOM = random.Random(7)


def count_block(block: dict[str, Any], image_cap: int = IMAGE_TOKEN_CAP) -> int:
    return measure_block(block, image_cap).raw


def count_message(message: dict[str, Any]) -> int:
    return measure_message(message).raw


def base64_text(characters: int) -> str:
    return base64.b64encode(RANDOM.randbytes(characters)).decode()[:characters]


# Text


def test_known_counts() -> None:
    assert count_text("") == 0
    assert count_text("hello world") == 2
    assert count_text("import pandas as pd\ndf = pd.read_csv('penguins.csv')\n") == 15


def test_special_tokens_are_plain_text() -> None:
    assert count_text("<|endoftext|>") > 1
    assert count_text("<|endoftext|>" * 1_000) > 1_000


def test_lone_surrogates_are_counted() -> None:
    assert count_text("a\ud800b") >= 3
    assert count_text("\udfff" * 1_000) >= 200


def test_a_million_characters_of_base64() -> None:
    for text in (base64_text(1_000_000), f"data:image/png;base64,{base64_text(1_000_000)}"):
        assert 700_000 <= count_text(text) <= 730_000


def test_base64_in_lines() -> None:
    lines = base64.encodebytes(RANDOM.randbytes(30_000)).decode()
    assert count_text(lines) == pytest.approx(len(lines) / 1.4, rel=0.05)


@pytest.mark.parametrize(
    "text",
    ["-" * 5_000, "=" * 5_000, "A" * 5_000, "ACGT" * 1_250, "_" * 400 + "x" * 400],
    ids=["rule", "double rule", "letter", "sequence", "mixed"],
)
def test_long_runs_that_are_no_base64(text: str) -> None:
    assert count_text(text) < len(text) / 1.5


def test_ten_thousand_cjk_characters() -> None:
    common = "数据分析是一个重要的领域我们需要加载数据框并绘制图表" * 400
    assert len(common) >= 10_000
    assert count_text(common) >= len(common)
    rare = "".join(chr(RANDOM.randint(0x4E00, 0x9FA5)) for _ in range(10_000))
    assert count_text(rare) >= 10_000


@given(st.text(max_size=2_000))
def test_any_text_has_a_count(text: str) -> None:
    count = count_text(text)
    assert 0 <= count <= 4 * len(text)
    assert (count == 0) == (not text)


@given(st.text(min_size=600, max_size=1_000))
def test_counting_again_gives_the_same(text: str) -> None:
    assert count_text(text) == count_text("".join(list(text)))


# Blocks and messages


def test_images_by_their_size_never_by_their_length() -> None:
    large = png(3_000, 2_000, padding=2_500_000)
    assert len(large) > 2.5e6
    block = image(large)
    assert count_block(block) == 4_784
    assert count_block(block, image_cap=1_568) == 1_568
    assert count_block(image(png(280, 280))) == 100
    assert count_block(image(png(281, 1))) == 11
    result = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    assert count_message({"role": "user", "content": [result]}) < 4_800


def test_images_that_cannot_be_measured_count_in_full() -> None:
    unknown = {"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}}
    assert count_block(unknown) == 4_784
    assert count_block(image(b"no image")) == 4_784
    broken = {"type": "image", "source": {"type": "base64", "data": "####"}}
    assert count_block(broken) == 4_784


def test_marks_weigh_nothing() -> None:
    block = {"type": "text", "text": "Some text."}
    mark = {"cache_control": {"type": "ephemeral"}}
    assert count_block({**block, **mark}) == count_block(block)
    tool = {"name": "run_code", "input_schema": {"type": "object"}}
    assert measure_request([], [{**tool, **mark}], []) == measure_request([], [tool], [])


def test_a_request_is_the_sum_of_its_parts() -> None:
    system = [{"type": "text", "text": "You help."}]
    message = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Let me think.", "signature": "x" * 200},
            {"type": "text", "text": "Running it."},
            {"type": "tool_use", "id": "t", "name": "run_code", "input": {"code": "df.head()"}},
        ],
    }
    alone = measure_request([], [], [message])
    assert alone == measure_message(message)
    assert measure_request(system, [], [message, message]) == (
        measure_request(system, [], []).plus(alone).plus(alone)
    )
    assert count_message({"role": "user", "content": "a string"}) == count_message(
        {"role": "user", "content": [{"type": "text", "text": "a string"}]}
    )


def test_thinking_whose_text_is_left_out_has_a_size() -> None:
    assert count_block({"type": "thinking", "thinking": "", "signature": "x" * 800}) == 100
    assert count_block({"type": "redacted_thinking", "data": "x" * 800}) == 100


def test_blocks_of_a_kind_yet_unknown_are_counted_as_text() -> None:
    assert count_block({"type": "search_result", "title": "word " * 50}) > 50


# Image sizes


@pytest.mark.parametrize(
    "data",
    [
        png(1_234, 567),
        jpeg(1_234, 567),
        jpeg(1_234, 567, metadata=200_000),
        gif(1_234, 567),
        webp(1_234, 567, b"VP8X"),
        webp(1_234, 567, b"VP8L"),
        webp(1_234, 567, b"VP8 "),
    ],
    ids=["png", "jpeg", "jpeg with metadata", "gif", "webp", "webp lossless", "webp lossy"],
)
def test_image_sizes(data: bytes) -> None:
    assert image_size(data) == (1_234, 567)
    for length in range(min(len(data), 64)):
        assert image_size(data[:length]) in (None, (1_234, 567))


def test_a_jpeg_whose_size_stands_far_behind() -> None:
    assert count_block(image(jpeg(280, 280, metadata=150_000), "image/jpeg")) == 100


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X"]),
)
def test_no_bytes_are_too_odd(data: bytes, start: bytes) -> None:
    size = image_size(start + data)
    assert size is None or min(size) >= 0


def test_image_tokens() -> None:
    assert image_tokens(1, 1) == 1
    assert image_tokens(28, 56) == 2
    assert image_tokens(10_000, 10_000) == 4_784


# The estimator


def usage(tokens_: int, output: int = 0) -> dict[str, Any]:
    read = tokens_ // 2
    return {
        "input_tokens": 3,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": tokens_ - read - 3,
        "output_tokens": output,
    }


def test_context_tokens() -> None:
    assert context_tokens(usage(1_000)) == 1_000
    assert context_tokens({"input_tokens": 7, "cache_read_input_tokens": None}) == 7
    assert context_tokens({}) is None


@pytest.mark.parametrize(
    ("model", "ratio"),
    [
        ("claude-opus-4-5", 1.3),
        ("claude-sonnet-4-6", 1.3),
        ("claude-opus-4-7", 1.6),
        ("claude-sonnet-5", 1.6),
        ("claude-sonnet-5-5", 1.6),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", 1.3),
        ("claude-sonnet-4-20250514", 1.3),
        ("qwen3", 1.3),
    ],
)
def test_seeds(model: str, ratio: float) -> None:
    assert seed_ratio(model) == ratio


def test_before_any_report_the_seed_has_to_do() -> None:
    estimator = UsageEstimator.for_model("claude-opus-4-5")
    assert not estimator.anchored
    assert estimator.estimate(Size(1_000, 500)) == 1_800


def test_anchored_on_the_last_report() -> None:
    estimator = UsageEstimator(1.5)
    estimator.observe(usage(40_000), Size(100))
    assert estimator.ratio == 1.5, "100 tokens are too few to learn from"
    assert estimator.estimate(Size(100)) == 40_000
    assert estimator.estimate(Size(300, 1_000)) == 40_000 + 300 + 1_000
    assert estimator.estimate(Size(0)) == 40_000 - 150


def test_a_replys_reported_output_is_part_of_the_anchor() -> None:
    estimator = UsageEstimator(1.5)
    estimator.observe(usage(40_000, output=700), Size(100), reply=Size(50))
    assert estimator.estimate(Size(150)) == 40_700
    estimator = UsageEstimator(1.5)
    estimator.observe(usage(40_000, output=1), Size(100), reply=Size(50))
    assert estimator.estimate(Size(150)) == 40_075, "a placeholder is not believed"


def test_images_do_not_bend_the_ratio() -> None:
    estimator = UsageEstimator(1.5)
    estimator.observe(usage(1_500), Size(1_000))
    estimator.observe(usage(1_500 + 1_500 + 4_784), Size(2_000, 4_784))
    assert estimator.ratio == pytest.approx(1.5)


def test_a_usage_without_figures_changes_nothing() -> None:
    estimator = UsageEstimator(1.5)
    before = replace(estimator)
    estimator.observe({}, Size(1_000))
    estimator.observe({"output_tokens": 9}, Size(1_000))
    assert estimator == before


def test_after_a_compaction_the_ratio_stays() -> None:
    estimator = UsageEstimator(1.3)
    estimator.observe(usage(9_000), Size(1_000))
    assert estimator.ratio == 1.3, "a whole request has overhead that nobody counts"
    estimator.observe(usage(9_000 + 2_000), Size(1_000 + 1_000))
    learned = estimator.ratio
    assert learned == pytest.approx(1.3 + 0.2 * 0.7)
    estimator.drop_anchor()
    assert not estimator.anchored
    assert estimator.ratio == learned
    assert estimator.estimate(Size(1_000)) == round(1_000 * learned)


deltas = st.lists(
    st.tuples(st.integers(200, 20_000), st.integers(0, 5_000)), min_size=25, max_size=60
)


@given(st.floats(0.8, 2.4), deltas)
def test_it_learns_any_ratio(true_ratio: float, steps: list[tuple[int, int]]) -> None:
    estimator = UsageEstimator(1.3)
    size, actual = Size(0), 0.0
    for text, images in steps:
        size = size.plus(Size(text, images))
        actual += text * true_ratio + images
        predicted = estimator.estimate(size)
        estimator.observe(usage(round(actual)), size)
    assert estimator.ratio == pytest.approx(true_ratio, abs=0.02)
    assert predicted == pytest.approx(actual, abs=0.02 * steps[-1][0] + 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**5)),
        max_size=30,
    )
)
def test_the_ratio_stays_within_its_bounds(steps: list[tuple[int, int, int]]) -> None:
    estimator = UsageEstimator(1.6)
    for reported, text, images in steps:
        estimator.observe({"input_tokens": reported}, Size(text, images))
        assert RATIO_MIN <= estimator.ratio <= RATIO_MAX
        assert estimator.estimate(Size(0)) >= 0


# The tokenizer's data


def test_the_packaged_data_is_the_published_one() -> None:
    data = resources.files("prime_ext.data").joinpath(tokens.BPE_FILE).read_bytes()
    assert hashlib.sha256(data).hexdigest() == tokens.BPE_SHA256
    spec = importlib.util.find_spec("tiktoken_ext.openai_public")
    assert spec is not None
    assert spec.origin is not None
    published = Path(spec.origin).read_text("utf-8")
    assert tokens.BPE_SHA256 in published
    assert tokens.SPLIT_PATTERN in published


async def test_loading_leaves_the_event_loop_alone() -> None:
    assert await tokens.load()


def test_without_the_tokenizer_bytes_are_counted() -> None:
    program = """
import sys
sys.modules["tiktoken"] = None
import asyncio
from prime_ext.context.tokens import count_text, load
assert asyncio.run(load()) is False
assert count_text("hello world") == 4
assert count_text("\\u6570" * 100) == 100
import base64, os
text = base64.b64encode(os.urandom(75_000)).decode()
assert 70_000 < count_text(text) < 72_000
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))


def test_importing_is_cheap() -> None:
    program = """
import sys
import prime_ext.context.tokens
assert "tiktoken" not in sys.modules and "regex" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
