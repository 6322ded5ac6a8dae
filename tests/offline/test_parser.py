"""What the offline agent understands: phrases as people type them, and what they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.parser import parse
from tests.offline.phrases import PHRASES


@pytest.mark.parametrize(("text", "expected"), PHRASES, ids=[text for text, _ in PHRASES])
def test_phrase(text: str, expected: i.Intent) -> None:
    assert parse(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "load penguins.csv and plot body mass by species",
            [i.Load("penguins.csv"), i.Plot("body mass", "species")],
        ),
        (
            "load penguins.csv, describe it and plot bill length vs bill depth",
            [i.Load("penguins.csv"), i.Describe(), i.Plot("bill length", "bill depth")],
        ),
        (
            "Load the penguins dataset and show me the first rows.",
            [i.Load("penguins"), i.Rows()],
        ),
        (
            "load a.csv, then count rows where x > 3; list variables",
            [
                i.Load("a.csv"),
                i.Filter((i.Condition("x", ">", ("3",)),), count=True),
                i.ListVariables(),
            ],
        ),
        (
            "group by species and take the mean and std of body mass",
            [i.Aggregate(("mean", "std"), ("body mass",), ("species",))],
        ),
    ],
)
def test_several_requests_in_one_message(text: str, expected: list[i.Intent]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```python\nx = 1\ny = 2\n```", i.RunCode("x = 1\ny = 2")),
        ("run this:\n```\nprint(1)\n```", i.RunCode("print(1)")),
        ("Add a cell with\n```python\nx = 1\n```", i.InsertCell("x = 1")),
        ("insert a code cell and run it:\n```\nx = 1\n```", i.InsertCell("x = 1", run=True)),
        (
            "insert a cell after cell 2:\n```py\nx = 1\n```",
            i.InsertCell("x = 1", after="2"),
        ),
        ("add a markdown cell\n```\n# Hi\n```", i.InsertCell("# Hi", "markdown")),
        ("```markdown\n# Hi\n```", i.InsertCell("# Hi", "markdown")),
        ("replace cell 3 with\n```\nz = 3\n```", i.EditCell("3", "z = 3")),
        ("change the source of cell 9f3a to this\n```\nz\n```", i.EditCell("9f3a", "z")),
    ],
)
def test_fenced_code_goes_where_the_words_say(text: str, expected: i.Intent) -> None:
    assert parse(text) == [expected]


def test_a_question_about_code_is_not_an_order_to_run_it() -> None:
    text = "can you explain this?\n```\nos.remove('x')\n```"
    assert parse(text) == [i.Unknown(text)]


def test_a_pasted_traceback_is_explained() -> None:
    pasted = "Traceback (most recent call last):\n  File ...\nKeyError: 'x'"
    for text in (pasted, f"what is this?\n```\n{pasted}\n```"):
        (intent,) = parse(text)
        assert isinstance(intent, i.ExplainError)
        assert intent.traceback is not None
        assert "KeyError: 'x'" in intent.traceback


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plot a in df", i.Plot("a", frame="df")),
        ("mean of a by b in df", i.Aggregate(("mean",), ("a",), ("b",), "df")),
        ("plot a vs b", i.Plot("a", "b")),
        ("correlation between a and b", i.Correlation(("a", "b"))),
        ("value counts of df.a", i.ValueCounts("a", "df")),
        ("plot df['the x']", i.Plot("the x", frame="df")),
        ("missing values in a", i.Missing("a")),
        ("sort df by a desc", i.Sort(("a",), descending=True, frame="df")),
        ("filter rows where a > 1", i.Filter((i.Condition("a", ">", ("1",)),))),
        ("top 3 by a", i.Top(3, "a")),
        ("describe a", i.Describe("a")),
        ("mean of x, y and z by g", i.Aggregate(("mean",), ("x", "y", "z"), ("g",))),
        ("min, max and mean of x", i.Aggregate(("min", "max", "mean"), ("x",))),
    ],
)
def test_short_names_of_columns(text: str, expected: i.Intent) -> None:
    assert parse(text) == [expected]


def test_courtesies_change_nothing() -> None:
    plain = parse("plot body mass by species")
    for text in (
        "Please plot body mass by species.",
        "could you please plot body mass by species?",
        "Hi, can you plot body mass by species for me, thanks!",
        "ok, now plot body mass by species please",
        "PLOT body mass BY species",
        "  plot   body mass\tby species  ",
        "I'd like to plot body mass by species",
    ):
        assert parse(text) == plain, text


@given(st.text(max_size=400))
def test_any_text_is_parsed(text: str) -> None:
    found = parse(text)

    assert found
    assert found == parse(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "load",
                "plot",
                "mean",
                "by",
                "of",
                "in",
                "the",
                "and",
                "rows",
                "where",
                ">",
                "=",
                "(",
                ")",
                "[",
                "`x`",
                "penguins",
                "species",
                "5",
                "top",
                "sort",
                "not",
                "is",
                "cell",
                "3",
                "run",
                ":",
                "?",
                ".",
                ",",
                ";",
                "insert",
                "with",
                "\n",
            ]
        ),
        max_size=25,
    ).map(" ".join)
)
def test_any_mix_of_known_words_is_parsed(text: str) -> None:
    assert parse(text)
