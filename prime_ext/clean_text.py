"""Text of any origin, made fit to be stored and read."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def without_escapes(text: str) -> str:
    """``text`` without the sequences that colour it, or move the cursor, in a terminal."""
    return _ESCAPE.sub("", text)


def well_formed(text: str) -> str:
    """``text`` with surrogate pairs joined and lone surrogates replaced, so that it is UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
