"""Which exact values of a summary stand in none of the records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.unverified import (
    flagged,
    source_texts,
    trusted,
    unverified,
    without_flags,
)

SOURCE = """\
frame = pd.read_csv('data/prices.csv')
mean_price = 1,234.50 on 2024-01-06, n_estimators=200
File "/home/ada/load.py", line 42, in fetchRows
run_42 wrote model_v2.bin
"""


@pytest.mark.parametrize(
    "text",
    [
        "The mean (`mean_price`) is 1234.5 on 2024-01-06.",
        "Read data/prices.csv; it failed in /home/ada/load.py, line 42, in `fetchRows`.",
        "1. Load.\n2. Plot and/or save.\n12. The end.",
        "Load it, then use 200 trees: 3 steps.",
        "Cast to float32 in Python3 (R2, Q3, UTF-8), first V2, as fold 2 of run_42.",
    ],
)
def test_what_the_records_say_is_not_flagged(text: str) -> None:
    assert unverified(text, [SOURCE]) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Read data/price.csv.", "data/price.csv"),
        ("The mean is 1,235.", "1,235"),
        ("It is in `mean_prices`.", "mean_prices"),
        ("See load_all in the cell.", "load_all"),
        ("Called fetchRow.", "fetchRow"),
        ("On 2024-01-05.", "2024-01-05"),
        ("In /home/ada/load.py:420 it failed.", "420"),
        ("The model is in model.joblib.", "model.joblib"),
        ("The best was run_43.", "run_43"),
        ("Then v3 was trained.", "v3"),
        ("It is fold7 that fails.", "fold7"),
    ],
)
def test_what_no_record_says_is_flagged(text: str, value: str) -> None:
    assert unverified(text, [SOURCE]) == [value]


@given(st.text(max_size=300))
def test_a_text_is_never_flagged_for_what_it_quotes(text: str) -> None:
    assert unverified(text, [text]) == []


def test_a_flag_lasts_through_the_next_summary() -> None:
    first = flagged("The mean is 1,235 in `mean_price`.", ["1,235"])
    assert "`1,235`" in first
    assert without_flags(first) == "The mean is 1,235 in `mean_price`."
    sources = list(source_texts([[{"type": "text", "text": first}]]))
    assert unverified("Mean 1235, `mean_price`.", sources) == ["1235"]
    assert unverified("Mean 1235.", [*sources, SOURCE, "1235"]) == []
    assert "mean_price" in trusted(first)


def test_sources_are_all_that_the_model_has_read() -> None:
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": "c", "name": "t", "input": {"path": "a/b.txt", "n": [4217]}},
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "ok_1"}]},
    ]
    assert unverified("a/b.txt 4217 ok_1", list(source_texts([content]))) == []
