"""Extraction of exact details from a text, which summaries tend to alter and searches need."""

from __future__ import annotations

import re

_DETAIL = re.compile(
    r"""
      \b(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning)\b:?[^\n.;]{0,120}  # errors
    | "[^"\n]{2,120}" | `[^`\n]{1,160}` | (?<!\w)'[^'\n]{2,120}'(?!\w)     # what is quoted
    | (?<![\w/.~-])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*\w(?::\d+)*      # paths, with lines
    | (?<![\w/.-])[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{1,8}(?::\d+)*(?![\w/(])  # files
    | (?<!\S)--?[A-Za-z][\w-]*(?:[= ][^\s,;]*\d[^\s,;]*|=[^\s,;]+)?         # flags, with values
    | \b[A-Za-z_][\w.]*\ ?[:=]\ ?[^\s,;]*\w                                 # name = value
    | (?:\b\w+\ (?:is|was|to|of|at)\ )?                                    # numbers, with
      (?<![\w.])\d[\d,_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\ ?(?:%|[A-Za-zµ°]{1,4}\b)?  # their units
    | \b\w*(?:_\w+)+\b | \b[a-z]+[A-Z]\w*\b                                 # identifiers
    """,
    re.X,
)
_SMALL = re.compile(r"\d{1,2}|\d [A-Za-z]+")
"""Matches small counts and ordinals, which mean nothing by themselves."""


def details(text: str) -> list[str]:
    """Return quoted text, paths, flags, settings, errors, numbers and identifiers of ``text``.

    They are in order of appearance, without duplicates and without overlaps.
    """
    found = (match[0].strip() for match in _DETAIL.finditer(text))
    return list(dict.fromkeys(part for part in found if part and not _SMALL.fullmatch(part)))
