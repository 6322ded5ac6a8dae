"""The size of a context and how fast it grows, from the usage that replies report."""

from __future__ import annotations

from prime_ext.compaction.meter import GROWTHS, ContextMeter
from prime_ext.context.projection import project
from prime_ext.session.records import AnyRecord, AssistantMessage, CompactionEnd, UserMessage
from tests.context.conversations import numbered, start, text_block

MODEL = "claude-sonnet-5-5"


def grown(*steps: int) -> int:
    """``fast_growth`` after requests that grew by ``steps`` tokens, one after the other."""
    meter = ContextMeter(MODEL, 1_568)
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


async def resumed(*more: AnyRecord, model: str = MODEL) -> ContextMeter:
    """The meter of a session that was opened again, after one reply and ``more``."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": 41_000, "output_tokens": 40}
    records = numbered(
        [
            start(),
            UserMessage(text="q", content=[text_block("q")]),
            AssistantMessage(content=[text_block("a")], model=model, usage=usage),
            *more,
        ]
    )
    meter = ContextMeter(MODEL, 1_568)
    await meter.resume(records)
    return meter


async def test_after_a_restart_the_size_is_what_the_last_reply_reported() -> None:
    assert (await resumed()).known_tokens == 41_043
    more = UserMessage(text="r", content=[text_block("rows " * 1_000)])
    assert 42_000 < ((await resumed(more)).known_tokens or 0) < 44_000


async def test_after_a_restart_it_is_unknown_if_the_report_is_not_of_this_context() -> None:
    compacted = CompactionEnd(
        compaction_id="c",
        outcome="ok",
        trigger="manual",
        path="single_pass",
        tokens_before=41_043,
        tokens_after=1_000,
        summary="<compaction-summary>\nS\n</compaction-summary>",
    )
    assert (await resumed(compacted)).known_tokens is None
    assert (await resumed(model="offline")).known_tokens is None
