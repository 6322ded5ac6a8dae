"""When a note is begun and rolled forward."""

from __future__ import annotations

import dataclasses

import pytest

from prime_ext.context.limits import Limits
from prime_ext.context.plan import (
    leap_room,
    may_follow,
    prefire_point,
    tail_room,
    wants_rolling,
)

LIMITS = Limits.resolve(window=1_000_000, max_output=32_000, min_cache_tokens=512)


def test_a_note_is_begun_at_the_margin_or_earlier_where_the_context_leaps() -> None:
    assert prefire_point(LIMITS, 0) == 270_000
    assert prefire_point(LIMITS, 5_000) == 270_000
    assert prefire_point(LIMITS, 40_000) == 220_000
    # Never so early that a compaction would bring it about at once.
    assert prefire_point(LIMITS, 200_000) == 150_001
    high = dataclasses.replace(LIMITS, landing=290_000)
    assert prefire_point(high, 0) == 270_000


def test_what_is_cached_anew_after_a_compaction_stays_small() -> None:
    assert tail_room(LIMITS, 5_000, 3_000) == 18_000 - 6_500 - 3_000
    assert tail_room(LIMITS, 5_000, 30_000) == 4_000  # a quarter of the tail stays, whatever comes
    # A head that is too short for the cache counts as well.
    assert tail_room(LIMITS, 500, 3_000) == 18_000 - 6_500 - 3_000 - 500


@pytest.mark.parametrize(
    ("tail", "to_go", "wanted"),
    [
        (4_000, 20_000, False),  # there is time
        (11_000, 20_000, True),
        (8_000, 3_000, False),  # it will still be short enough
        (11_500, 1_500, False),  # it would be late, and is not needed
        (12_500, 1_500, True),  # late, but more would be cached anew than should be
        (15_000, 1_500, True),  # late, but without it the note cannot be used
    ],
)
def test_a_note_is_rolled_forward_in_time_and_only_if_it_must_be(
    tail: int, to_go: int, wanted: bool
) -> None:
    found = wants_rolling(tail, to_go, room=12_000, keep_tail=16_000, fast_growth=2_000)
    assert found is wanted


def test_what_may_follow_a_note() -> None:
    assert may_follow(16_000, 3_000, LIMITS, 5_000)
    assert not may_follow(16_001, 3_000, LIMITS, 5_000)
    # It must land as well, with what code adds; unless not even the note does.
    small = dataclasses.replace(LIMITS, landing=24_000)
    room = 24_000 - 5_000 - 3_000 - small.added_tokens(5_000)
    assert may_follow(room, 3_000, small, 5_000)
    assert not may_follow(room + 1, 3_000, small, 5_000)
    assert may_follow(room + 1, 24_000, small, 5_000)


def test_beyond_the_threshold_there_is_room_while_prompt_and_reply_fit_in_the_window() -> None:
    limits = Limits.resolve(window=200_000, max_output=32_000)
    assert limits.threshold == 148_000
    assert leap_room(limits, 159_000, 0, 0, stops_at_window=True) == 159_000 + 14_800
    assert leap_room(limits, 185_000, 0, 0, stops_at_window=True) == 200_000 - 8_000
    # What may be wrong with the size, and what a reply may be longer by, is left free.
    assert leap_room(limits, 185_000, 20_000, 12_000, stops_at_window=True) == 183_000
    # Of another model the largest reply must fit, or the prompt would be refused.
    assert leap_room(limits, 185_000, 0, 0, stops_at_window=False) == 168_000
    # A threshold far below the window is not overrun either.
    small = Limits.resolve(window=1_000_000, max_output=32_000, max_context_tokens=24_000)
    assert leap_room(small, 25_000, 0, 0, stops_at_window=True) == 27_400
