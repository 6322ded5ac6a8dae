"""Excerpts of texts: snippets around a match, and texts cut to a common length."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prime_ext.session.search_index import folded, words_of

SNIPPET_CHARS = 240


def snippet(text: str, query: str) -> str:
    """Return about ``SNIPPET_CHARS`` of ``text`` around its match with ``query``, on one line."""
    lower = text.lower()
    words = words_of(query)
    for wanted in (query, *sorted(words, key=len, reverse=True)):
        at = lower.find(wanted.lower())
        if at >= 0:
            break
    else:
        # The index ignores punctuation and accents. Look for the longest word of the query.
        runs = sorted(re.findall(r"\w+", folded(query)), key=len, reverse=True)
        at = next((at for at in (_find(text, run) for run in runs) if at is not None), 0)
        wanted = ""
    start = max(0, at - (SNIPPET_CHARS - min(len(wanted), SNIPPET_CHARS)) // 2)
    end = start + SNIPPET_CHARS
    piece = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"


def _find(text: str, run: str) -> int | None:
    """Return about where ``text`` contains ``run``, which is folded; ``None`` if it does not."""
    # Folding may change the length of a text, so it is folded piece by piece. The pieces overlap,
    # so that none of them ends inside the match.
    for start in range(0, len(text), SNIPPET_CHARS // 2):
        at = folded(text[start : start + SNIPPET_CHARS]).find(run)
        if at >= 0:
            return start + at
    return None


def fitted(texts: Sequence[str], chars: int) -> list[str]:
    """Cut the longest of ``texts`` in the middle, to about ``chars`` characters in total."""
    shares = _shares([len(text) for text in texts], chars)
    return [_cut(text, share) for text, share in zip(texts, shares, strict=True)]


def _shares(lengths: list[int], total: int) -> list[int]:
    """Divide ``total`` equally; what short texts do not need goes to longer ones."""
    shares = [0] * len(lengths)
    left = max(total, 0)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for position, i in enumerate(order):
        shares[i] = min(lengths[i], left // (len(order) - position))
        left -= shares[i]
    return shares


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    head = chars * 2 // 3
    tail = chars - head
    end = text[len(text) - tail :] if tail else ""
    return f"{text[:head]}\n[… {len(text) - chars} characters left out …]\n{end}"
