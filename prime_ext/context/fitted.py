"""Fitting a generated text into a number of tokens."""

from __future__ import annotations

from collections.abc import Callable

CHARACTERS_PER_TOKEN = 3
"""Typical of English and code. Text in other scripts turns out too long and is made again."""

SHORTEST_CHARS = 400


def fitted(make: Callable[[int], str], tokens: int, count: Callable[[str], int]) -> str:
    """Return a text from ``make`` of about ``tokens`` tokens at most.

    Parameters
    ----------
    make:
        Makes the text with at most so many characters. It is called once or twice.
    tokens:
        Maximum size of the text. Very small values are exceeded, see ``SHORTEST_CHARS``.
    count:
        Counts the tokens of a text.
    """
    chars = tokens * CHARACTERS_PER_TOKEN
    text = make(max(SHORTEST_CHARS, chars))
    taken = count(text)
    if taken > tokens:
        text = make(max(SHORTEST_CHARS, len(text) * tokens * 9 // (taken * 10)))
    return text
