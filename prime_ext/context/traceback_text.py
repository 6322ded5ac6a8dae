"""Parsing of tracebacks: the line of the exception, and the places where it occurred."""

from __future__ import annotations

import re

from prime_ext.clean_text import without_escapes

_ERROR_LINE = re.compile(
    r"^\s*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration)\b.*)$"
)
_PLACE = re.compile(
    r"(?P<cell>Cell In ?\[\d+\], line \d+)"
    r"|File \"(?P<quoted>[^\"\n]+)\", line (?P<line>\d+)|File (?P<bare>.+?:\d+)"
)

TRACEBACK = "Traceback (most recent call last)"


def error_line(text: str) -> str:
    """Return the last line that names an exception, or else the first line that is not blank."""
    lines = without_escapes(text).splitlines()
    named = next((m[1] for line in reversed(lines) if (m := _ERROR_LINE.match(line))), None)
    return named or next((line.strip() for line in lines if line.strip()), "")


def places(text: str) -> list[str]:
    """Return the cells and files (``path:line``) of a traceback, outermost first, each once."""
    found = (
        match["cell"] or match["bare"] or f"{match['quoted']}:{match['line']}"
        for match in _PLACE.finditer(without_escapes(text))
    )
    return list(dict.fromkeys(found))
