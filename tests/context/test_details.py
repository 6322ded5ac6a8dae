"""The exact details of a text."""

from __future__ import annotations

import pytest

from prime_ext.context.details import details


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Use --alpha=0.35 in src/load.py:42, never more than 5,000 rows.",
            ["--alpha=0.35", "src/load.py:42", "5,000 rows"],
        ),
        ("Set timeout = 4217s and max_depth to 7.", ["timeout = 4217s", "max_depth to 7"]),
        ("It said KeyError: 'price' in fetchRows.", ["KeyError: 'price' in fetchRows"]),
        ('Call it "the big plan" in `notes.md`.', ['"the big plan"', "`notes.md`"]),
        ("The limit is 4711 units.", ["limit is 4711"]),
        ("Thanks, that looks great. I have 3 more.", []),
    ],
)
def test_what_is_exact_is_found(text: str, found: list[str]) -> None:
    assert details(text) == found
