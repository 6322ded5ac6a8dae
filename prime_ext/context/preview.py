"""Previews: the short texts that replace pruned tool results in the context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prime_ext.session.records import AnyRecord, AssistantMessage, Block, Prune, ToolResult

HEAD_CHARS = 240
TAIL_CHARS = 160
ERROR_TAIL_CHARS = 1_200
"""Errors keep more, because the end of a traceback says what went wrong."""

SHORTEST_CHARS = 1_000
"""Shorter results are not pruned, because their previews would save next to nothing."""

IMAGE_CHARS = 4_000
"""Characters of text that an image counts as when deciding whether to prune."""


def preview(result: ToolResult) -> list[Block]:
    """Return the content that replaces a pruned result; empty if the result has none.

    Deterministic: the same result always has the same preview.
    """
    text = _text(result.content)
    images = _images(result.content)
    tail_chars = ERROR_TAIL_CHARS if result.is_error else TAIL_CHARS
    left_out = len(text) - HEAD_CHARS - tail_chars
    if left_out <= 0:
        parts = [text] if text.strip() else []
        what = []
    else:
        parts = [text[:HEAD_CHARS], text[len(text) - tail_chars :]]
        what = [f"{left_out} characters"]
    if images:
        what.append("an image" if images == 1 else f"{images} images")
    if what:
        marker = (
            f"[… {' and '.join(what)} of this old output left out here; "
            f"session_read {result.seq} gives the text …]"
        )
        parts.insert(1, marker)
    return [{"type": "text", "text": "\n".join(parts)}] if parts else []


def is_prunable(result: ToolResult) -> bool:
    """Return whether the preview of ``result`` is much shorter than the result."""
    images = _images(result.content)
    kept = HEAD_CHARS + (ERROR_TAIL_CHARS if result.is_error else TAIL_CHARS)
    weight = len(_text(result.content)) + images * IMAGE_CHARS
    return weight > max(SHORTEST_CHARS, 2 * kept)


def pruned_seqs(records: Iterable[AnyRecord]) -> frozenset[int]:
    """Return the ``seq`` of all results that the ``prune`` records replace by previews."""
    return frozenset(seq for r in records if isinstance(r, Prune) for seq in r.pruned)


def loses_thinking(record: AssistantMessage, prunes: Sequence[Prune]) -> bool:
    """Return whether a prune has changed messages that precede ``record``.

    Thinking blocks are only valid after exactly the messages they were written after. If those
    have changed, the thinking must be left out.
    """
    return any(min(prune.pruned, default=prune.seq) < record.seq < prune.seq for prune in prunes)


def _text(content: Sequence[Block]) -> str:
    return "\n".join(str(block["text"]) for block in content if block["type"] == "text")


def _images(content: Sequence[Block]) -> int:
    return sum(1 for block in content if block["type"] == "image")
