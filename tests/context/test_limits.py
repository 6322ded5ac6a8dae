"""The numbers a context is kept within."""

from __future__ import annotations

import pytest

from prime_ext.context.limits import Limits


def test_automatic_threshold_leaves_room_for_output_and_a_turn() -> None:
    limits = Limits.resolve(window=200_000, max_output=32_000)
    assert limits.threshold == 148_000
    assert limits.keep_tail == 16_000
    assert limits.tool_result_cap == 7_400
    assert limits.landing == 74_000


def test_a_large_window_is_not_filled() -> None:
    assert Limits.resolve(window=1_000_000, max_output=64_000).threshold == 300_000


def test_configuration_is_used_as_it_is_but_never_above_the_window() -> None:
    assert (
        Limits.resolve(window=200_000, max_output=8_000, max_context_tokens=50_000).threshold
        == 50_000
    )
    assert (
        Limits.resolve(window=100_000, max_output=8_000, max_context_tokens=900_000).threshold
        == 92_000
    )


@pytest.mark.parametrize(
    ("window", "max_output"), [(4_096, 2_048), (8_192, 8_192), (32_000, 16_000)]
)
def test_a_small_window_still_has_a_threshold(window: int, max_output: int) -> None:
    limits = Limits.resolve(window=window, max_output=max_output)
    assert 0 < limits.threshold <= window
