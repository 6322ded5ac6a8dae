"""Backoff, retry-after, and the spellings of an overflow; prices and capabilities by id."""

from __future__ import annotations

import email.utils
import time
from types import SimpleNamespace

import pytest

from prime_ext.models import failures
from prime_ext.models.capabilities import known_capabilities, reported_capabilities
from prime_ext.models.model import ContextOverflow

PEER = failures.Peer("anthropic", "models.example.org", "claude-sonnet-5-5", "PRIME_API_KEY")


def test_backoff_doubles_up_to_its_cap() -> None:
    waits = [failures.backoff(attempt, None, lambda: 0.0) for attempt in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert failures.backoff(10_000, None, lambda: 1.0) == pytest.approx(22.5)
    assert failures.backoff(1, 12.5, lambda: 1.0) == 12.5


def test_retry_after_in_all_spellings() -> None:
    assert failures.parse_retry_after("7") == 7
    assert failures.parse_retry_after("7", "1500") == 1.5
    assert failures.parse_retry_after(None) is None
    assert failures.parse_retry_after("soon") is None
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    wait = failures.parse_retry_after(date)
    assert wait is not None
    assert 25 < wait <= 30
    assert failures.parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0


@pytest.mark.parametrize(
    ("message", "tokens", "maximum"),
    [
        ("prompt is too long: 205030 tokens > 200000 maximum", 205_030, 200_000),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, "
            "decrease input length or `max_tokens` and try again",
            210_000,
            200_000,
        ),
        (
            "request (40112 tokens) exceeds the available context size (32768 tokens), try "
            "increasing it",
            40_112,
            32_768,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9001 "
            "tokens in the messages.",
            9_001,
            8_192,
        ),
        ("Input is too long for requested model.", None, None),
    ],
)
def test_overflows(message: str, tokens: int | None, maximum: int | None) -> None:
    failure = failures.from_status(400, "invalid_request_error", message, PEER)
    assert isinstance(failure.error, ContextOverflow)
    assert (failure.error.tokens, failure.error.maximum) == (tokens, maximum)
    assert not failure.passes


def test_the_server_decides_whether_to_try_again() -> None:
    assert not failures.from_status(500, "", "", PEER, should_retry="false").passes
    assert failures.from_status(400, "", "", PEER, should_retry="true").passes


def test_an_error_within_a_stream_is_known_by_its_type() -> None:
    for kind, code in (
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "rate_limited"),
        ("api_error", "server_error"),
    ):
        failure = failures.from_status(200, kind, "", PEER)
        assert (failure.error.code, failure.passes) == (code, True)
    refused = failures.from_status(200, "authentication_error", "", PEER)
    assert (refused.error.code, refused.passes) == ("bad_credentials", False)


@pytest.mark.parametrize(
    ("origin", "hint"),
    [
        ("", "Enter a key in the panel, or set PRIME_API_KEY and restart the server."),
        ("the panel", "Enter a valid key in the panel."),
        ("PRIME_API_KEY", "Correct PRIME_API_KEY and restart the server."),
        (
            "ANTHROPIC_API_KEY",
            "Enter a valid key in the panel, or correct ANTHROPIC_API_KEY and restart the server.",
        ),
    ],
)
def test_a_refused_key_says_where_it_came_from(origin: str, hint: str) -> None:
    peer = failures.Peer("anthropic", "h", "m", origin)
    assert failures.from_status(401, "", "", peer).error.hint == hint


@pytest.mark.parametrize(
    ("model", "window", "min_cache", "preserved"),
    [
        ("claude-sonnet-5-5", 1_000_000, 512, True),
        ("claude-sonnet-5", 1_000_000, 1_024, False),
        ("claude-sonnet-4-5-20250929", 200_000, 1_024, False),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", 200_000, 4_096, False),
        ("eu.anthropic.claude-opus-4-7", 1_000_000, 2_048, False),
        ("claude-opus-4-6@20260205", 1_000_000, 4_096, False),
        ("claude-opus-7", 1_000_000, 512, True),
        ("claude-fable-5", 1_000_000, 512, False),
        ("claude-fable-5-2", 1_000_000, 512, True),
    ],
)
def test_models_known_by_their_id(model: str, window: int, min_cache: int, preserved: bool) -> None:
    known = known_capabilities(model)
    assert (known.window, known.min_cache_tokens, known.preserved_thinking) == (
        window,
        min_cache,
        preserved,
    )


def test_models_of_other_makers() -> None:
    known = known_capabilities("qwen3-coder:30b")
    assert not known.thinking
    assert not known.images
    assert known.price is None


def test_a_server_that_says_little() -> None:
    reported = reported_capabilities("qwen3", SimpleNamespace(id="qwen3", max_input_tokens=40_960))
    assert (reported.window, reported.max_output) == (40_960, 8_192)
    assert reported_capabilities("claude-sonnet-5", SimpleNamespace()) == (
        known_capabilities("claude-sonnet-5")
    )


def test_prices() -> None:
    sonnet = known_capabilities("claude-sonnet-5-5").price
    assert sonnet is not None
    usage = {
        "input_tokens": 1_000,
        "cache_read_input_tokens": 100_000,
        "cache_creation_input_tokens": 10_000,
        "cache_creation": {"ephemeral_1h_input_tokens": 4_000, "ephemeral_5m_input_tokens": 6_000},
        "output_tokens": 500,
    }
    expected = (1_000 * 2 + 100_000 * 0.1 + 4_000 * 4 + 6_000 * 2.5 + 500 * 10) / 1e6
    assert sonnet.cost(usage) == pytest.approx(expected)
    haiku = known_capabilities("claude-haiku-5-5").price
    assert haiku is not None
    assert haiku.cost({"input_tokens": 100_000, "output_tokens": 1_000}) == pytest.approx(0.0105)
    assert haiku.cost({"input_tokens": 100_001, "output_tokens": 1_000}) == pytest.approx(0.0525005)
