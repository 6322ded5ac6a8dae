"""Matches of regular expressions, which can only be restored by searching the text again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .restorers import current, restorer

_WHOLE = -1
"""Used instead of a number for a match found by `re.fullmatch`."""

Spans = tuple[Any, Any]


class Search:
    """The consecutive matches of a pattern in a text, searched lazily.

    `re.search` and `re.match` find the first of them, `re.finditer` and `re.sub` the others.
    """

    def __init__(self, pattern: Any, text: Any, start: int, end: int) -> None:
        self.held = (pattern, text)  # kept alive, because their ids are keys of the cache
        self._found: list[Any] = []
        self._numbers: dict[Spans, int] = {}
        self._rest: Iterator[Any] = pattern.finditer(text, start, end)

    def _goes_on(self) -> bool:
        found = next(self._rest, None)
        if found is None:
            return False
        self._numbers.setdefault(spans(found), len(self._found))
        self._found.append(found)
        return True

    def number_of(self, match: Any) -> int | None:
        """Return the number of a match, from 0; None if it is none of them."""
        wanted = spans(match)
        while wanted not in self._numbers:
            behind = bool(self._found) and self._found[-1].start() > match.start()
            if behind or not self._goes_on():
                return None
        return self._numbers[wanted]

    def numbered(self, number: int) -> Any:
        """Return a match by its number; None if there are not that many."""
        while len(self._found) <= number:
            if not self._goes_on():
                return None
        return self._found[number]


def spans(match: Any) -> Spans:
    """Return what distinguishes a match from others of the same search."""
    return match.regs, match.lastindex


def _search(searches: dict[Any, Any], pattern: Any, text: Any, start: int, end: int) -> Search:
    key = (id(pattern), id(text), start, end)
    if key not in searches:
        searches[key] = Search(pattern, text, start, end)
    found: Search = searches[key]
    return found


@reduces(re.Match)
def reduce_match(pickler: Reducing, match: Any) -> Any:
    where = (match.re, match.string, match.pos, match.endpos)
    number = _search(pickler.context.kept, *where).number_of(match)
    if number is None:
        whole = match.re.fullmatch(*where[1:])
        if whole is None or spans(whole) != spans(match):
            return pickler.lose(match, "the match is not found again in its text")
        number = _WHOLE
    return restore_match, (*where, number, *spans(match))


@restorer
def restore_match(
    pattern: Any, text: Any, start: int, end: int, number: int, regs: Any, lastindex: Any
) -> Any:
    if number == _WHOLE:
        found = pattern.fullmatch(text, start, end)
    else:
        found = _search(current().kept, pattern, text, start, end).numbered(number)
    if found is None or spans(found) != (regs, lastindex):
        raise ValueError("the match is not found again in its text")
    return found
