"""Cutting a long tool result head and tail, before the model is sent it the first time."""

from __future__ import annotations

from collections.abc import Callable

HEAD_SHARE = 0.6
"""Output starts with what it is and ends with what came of it; errors sit at the end."""

LONGEST_TOKEN = 64
"""Characters of a token at most, in anything but long runs of one character. Of a longer text
only its ends are counted: to count megabytes takes seconds."""


def cap_text(
    text: str, max_tokens: int, count: Callable[[str], int], *, where: str
) -> tuple[str, bool]:
    """Cut the middle out of ``text`` if it is longer than ``max_tokens``.

    Parameters
    ----------
    text:
        Full text of a tool result.
    max_tokens:
        Tokens that may be sent.
    count:
        Counts the tokens of a string.
    where:
        How the model gets at the full text, e.g. a file name; named in the marker.

    Returns
    -------
    tuple
        The text to send and whether anything was cut. Cuts fall on line ends where lines are
        short enough.
    """
    # A token is never longer than its text, so short texts need no count.
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
        # Dense text (base64, digits) has more tokens a character than the average suggests.
        share *= 0.85


def _to_line_end(head: str) -> str:
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _from_line_start(tail: str) -> str:
    start = tail.find("\n")
    return tail[start + 1 :] if 0 <= start < len(tail) // 2 else tail
