"""Truncation of long tool results before they are first sent to the model."""

from __future__ import annotations

from collections.abc import Callable

HEAD_SHARE = 0.6
"""Share of the room that goes to the beginning of a text. The end gets the rest, since results and
errors are printed last."""

LONGEST_TOKEN = 64
"""Maximum characters of a token, except in long runs of one character. Of a text that must exceed
the limit by this measure only the ends are counted, because counting megabytes takes seconds."""


def cap_text(
    text: str, max_tokens: int, count: Callable[[str], int], *, where: str
) -> tuple[str, bool]:
    """Cut the middle out of ``text`` if it is longer than ``max_tokens``.

    Parameters
    ----------
    text:
        Full text of a tool result.
    max_tokens:
        Maximum size of the returned text, including the marker.
    count:
        Counts the tokens of a string.
    where:
        Where the model finds the full text, e.g. a file name; named in the marker.

    Returns
    -------
    tuple
        The text to send, and whether anything was cut. Cuts are made at line ends unless the
        lines are very long.
    """
    # A token has at least one character, so short texts need not be counted.
    if len(text) <= max_tokens:
        return text, False
    room = LONGEST_TOKEN * max_tokens
    ends = text
    if len(text) > room:
        head_chars = int(room * HEAD_SHARE)
        ends = text[:head_chars] + text[len(text) - (room - head_chars) :]
    tokens = count(ends)
    if tokens <= max_tokens and len(ends) == len(text):
        return text, False
    share = min(1.0, max_tokens / tokens) * len(ends) / len(text)
    while True:
        budget = int(len(text) * share)
        head = _to_line_end(text[: int(budget * HEAD_SHARE)])
        rest = text[len(text) - (budget - int(budget * HEAD_SHARE)) :]
        tail = _from_line_start(rest)
        cut = text[len(head) : len(text) - len(tail)]
        marker = (
            f"\n[… {cut.count(chr(10))} lines, {len(cut)} characters left out here; "
            f"the full text is in {where} …]\n"
        )
        capped = head + marker + tail
        if count(capped) <= max_tokens or budget == 0:
            return capped, True
        # The kept parts may have more tokens per character than the average (base64, digits).
        share *= 0.85


def _to_line_end(head: str) -> str:
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _from_line_start(tail: str) -> str:
    start = tail.find("\n")
    return tail[start + 1 :] if 0 <= start < len(tail) // 2 else tail
