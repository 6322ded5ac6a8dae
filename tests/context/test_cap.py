"""Cutting long tool results."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.cap import cap_text
from prime_ext.context.tokens import count_text


def words(text: str) -> int:
    return len(text) // 4 + 1


def test_what_fits_stays_as_it_is() -> None:
    assert cap_text("short", 100, words, where="f") == ("short", False)


def test_head_and_tail_stay_and_the_marker_says_where_the_rest_is() -> None:
    text = "\n".join(f"line {i}" for i in range(10_000))
    capped, cut = cap_text(text, 500, words, where="outputs/call-1.txt")
    assert cut
    assert capped.startswith("line 0\nline 1\n")
    assert capped.endswith("line 9998\nline 9999")
    assert "outputs/call-1.txt" in capped
    assert words(capped) <= 500


def test_megabytes_are_not_counted_to_be_cut() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return len(text) // 4

    text = "a line of a log\n" * 1_000_000
    capped, cut = cap_text(text, 1_000, count, where="f")
    assert cut
    assert 3_000 < len(capped) <= 4_000
    assert sum(counted) < len(text) // 100


def test_a_small_cap_holds_for_a_large_text_with_dense_ends() -> None:
    text = "漢" * 1_000 + "." * 5_000_000 + "漢" * 1_000
    capped, _ = cap_text(text, 100, count_text, where="f")
    assert count_text(capped) <= 100


@given(st.text(alphabet="ab \n0é漢", max_size=3_000), st.integers(60, 400))
def test_the_cap_holds_for_any_text(text: str, limit: int) -> None:
    capped, cut = cap_text(text, limit, count_text, where="f")
    assert count_text(capped) <= limit
    assert cut == (capped != text)
