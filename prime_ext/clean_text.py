"""Cleaning of text from any source before it is stored or shown."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def without_escapes(text: str) -> str:
    """Return ``text`` without ANSI escape sequences (colours, cursor movement, titles)."""
    return _ESCAPE.sub("", text)


def well_formed(text: str) -> str:
    """Return ``text`` in a form that UTF-8 can encode.

    Surrogate pairs are joined, lone surrogates become U+FFFD.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
