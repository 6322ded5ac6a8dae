"""Pruning: replace old tool results by short previews and keep everything else verbatim.

Pruning needs no request to the model, so nobody waits for it. It pays off if old results make up
most of the context; otherwise a summary frees more room for its cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from prime_ext.context.preview import is_prunable, preview, pruned_seqs
from prime_ext.context.projection import ProjectedMessage
from prime_ext.session.records import AnyRecord, ToolResult


@dataclass(frozen=True)
class Rates:
    """Prices of a token, relative to a token of uncached input."""

    cache_read: float = 0.1
    cache_write: float = 1.25
    output: float = 5.0


@dataclass(frozen=True)
class Pruning:
    """A possible prune and its result."""

    seqs: list[int]
    """``seq`` of the tool results that are replaced by previews."""
    first: int
    """Index of the first message that changes; the messages before it stay in the prompt cache."""
    messages: list[ProjectedMessage]
    """The messages of the context after the prune."""
    by_server: bool = False
    """Whether the model's server leaves the results out; the request then still contains them."""


def pruning(
    messages: Sequence[ProjectedMessage],
    records: Iterable[AnyRecord],
    keep_from: int,
) -> Pruning | None:
    """Replace every long old tool result by its preview; ``None`` if there is none.

    All of them are replaced at once, not only as many as are needed: each prune invalidates the
    prompt cache from its first preview on, so few large prunes are cheaper than many small ones.

    Parameters
    ----------
    messages:
        The context, oldest first.
    records:
        The records that the context was projected from.
    keep_from:
        Index of the first message whose results stay whole. Results that the model has not seen
        yet also stay whole.
    """
    seen = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=0)
    shown = list(records)
    already = pruned_seqs(shown)
    results = {
        r.tool_use_id: r
        for r in shown
        if isinstance(r, ToolResult) and r.seq not in already and is_prunable(r)
    }
    seqs: list[int] = []
    first: int | None = None
    after = list(messages)
    for index, message in enumerate(messages[: min(keep_from, seen)]):
        found = [
            results[block["tool_use_id"]]
            for block in message.content
            if block["type"] == "tool_result" and block["tool_use_id"] in results
        ]
        if message.is_answer and found:
            first = index if first is None else first
            seqs.extend(result.seq for result in found)
            previews = {result.tool_use_id: preview(result) for result in found}
            after[index] = replace(
                message,
                content=[
                    {**block, "content": previews[block["tool_use_id"]]}
                    if block.get("tool_use_id") in previews
                    else block
                    for block in message.content
                ],
            )
    if first is None:
        return None
    return Pruning(sorted(seqs), first, after)


def is_cheaper(
    *,
    before: int,
    unchanged: int,
    after_prune: int,
    after_summary: int,
    summary_output: int,
    written_after_summary: int,
    rates: Rates,
) -> bool:
    """Return whether a prune costs less than a summary for each token that it frees.

    After a prune, the API writes the prompt cache again from the first preview on. For a summary,
    it reads the whole context from the cache, generates the summary, and then caches the new
    context.

    Parameters
    ----------
    before:
        Size of the context.
    unchanged:
        Size of what precedes the first preview, including system prompt and tools.
    after_prune, after_summary:
        Size of the context after a prune or a summary.
    summary_output:
        Size of the summary.
    written_after_summary:
        Size of what is written to the cache after a summary: the summary turn and the verbatim
        tail.
    rates:
        Prices of a token. All sizes are in tokens.
    """
    prune = rates.cache_write * max(0, after_prune - unchanged)
    summary = (
        rates.cache_read * before
        + rates.output * summary_output
        + rates.cache_write * written_after_summary
    )
    freed_by_prune = before - after_prune
    freed_by_summary = max(1, before - after_summary)
    return freed_by_prune > 0 and prune * freed_by_summary <= summary * freed_by_prune
