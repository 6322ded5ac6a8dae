"""The exact details of a text: what a summary would bend and a search would need."""

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
"""Counts and ordinals that say nothing by themselves."""


def details(text: str) -> list[str]:
    """Quoted text, paths, flags, settings, errors, numbers and identifiers in ``text``, in order.

    Each once, none that stands inside another.
    """
    found = (match[0].strip() for match in _DETAIL.finditer(text))
    return list(dict.fromkeys(part for part in found if part and not _SMALL.fullmatch(part)))
