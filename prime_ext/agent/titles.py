"""Titles of sessions."""

from __future__ import annotations

import re

MAX_TITLE = 200
"""Maximum length of a title that a person gives, in characters."""

_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
"""Beginning or end of a code block in Markdown."""

SHOWN = 60
"""Maximum length of a title that is made from a message, in characters."""


def clean_title(title: str | None) -> str | None:
    """Return ``title`` on one line and shortened; ``None`` if nothing is left."""
    if title is None:
        return None
    return " ".join(title.split())[:MAX_TITLE] or None


def title_of(text: str) -> str:
    """Return a title for a session that begins with the message ``text``."""
    line = " ".join(_FENCE.sub("", text).split()) or " ".join(text.split())
    if len(line) <= SHOWN:
        return line
    head = line[: SHOWN - 1]
    words, _, rest = head.rpartition(" ")
    # A cut in the middle of a word is better than losing most of the title.
    return f"{words if len(words) > len(rest) else head}…"
