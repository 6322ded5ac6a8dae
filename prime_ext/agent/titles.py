"""Titles of sessions."""

from __future__ import annotations

MAX_TITLE = 200
"""Characters of a title that a person gives."""

SHOWN = 60
"""Characters of a title that is made of a message."""


def clean_title(title: str | None) -> str | None:
    """``title`` on one line and not too long; ``None`` if nothing is left."""
    if title is None:
        return None
    return " ".join(title.split())[:MAX_TITLE] or None


def title_of(text: str) -> str:
    """A title for a session that begins with the message ``text``."""
    line = " ".join(text.split())
    if len(line) <= SHOWN:
        return line
    head = line[: SHOWN - 1]
    words, _, rest = head.rpartition(" ")
    # A cut in the middle of a word is better than a title of one short word.
    return f"{words if len(words) > len(rest) else head}…"
