"""A text made as long as a number of tokens allows."""

from __future__ import annotations

from collections.abc import Callable

CHARACTERS_PER_TOKEN = 3
"""Of English and code; what is written in other scripts is found to be longer and made anew."""

SHORTEST_CHARS = 400


def fitted(make: Callable[[int], str], tokens: int, count: Callable[[str], int]) -> str:
    """What ``make`` gives for as many characters as ``tokens`` have in this language."""
    chars = tokens * CHARACTERS_PER_TOKEN
    text = make(max(SHORTEST_CHARS, chars))
    taken = count(text)
    if taken > tokens:
        text = make(max(SHORTEST_CHARS, len(text) * tokens * 9 // (taken * 10)))
    return text
