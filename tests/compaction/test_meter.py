"""How fast a context grows, from the usage that replies report."""

from __future__ import annotations

from prime_ext.compaction.meter import GROWTHS, ContextMeter
from prime_ext.context.projection import project
from tests.context.conversations import start


def grown(*steps: int) -> int:
    """``fast_growth`` after requests that grew by ``steps`` tokens, one after the other."""
    meter = ContextMeter("claude-sonnet-5-5", 1_568)
    projection = project([start()])
    size = 1_000
    for step in (0, *steps):
        size += step
        meter.observe(projection, {"input_tokens": 3, "cache_read_input_tokens": size - 3}, [])
    return meter.fast_growth


def test_the_growth_that_one_request_in_twenty_exceeds() -> None:
    assert grown() == 0
    assert grown(500) == 500
    assert grown(*[100] * 39, 9_000) == 100
    assert grown(9_000, *[100] * 17, 8_000, 100) == 9_000
    assert grown(9_000, *[100] * 37, 8_000, 100) == 8_000


def test_only_recent_growth_counts_and_a_smaller_context_is_none() -> None:
    assert grown(*[9_000] * 10, *[100] * GROWTHS) == 100
    assert grown(-500) == 0
