"""Pruning: old tool outputs give way to short previews, all else stays word for word.

It needs no model, so nobody waits for it. It is worth it where old outputs are most of the
context; else a summary frees more room for what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from prime_ext.context.preview import is_prunable, preview, pruned_seqs
from prime_ext.context.projection import ProjectedMessage
from prime_ext.session.records import AnyRecord, ToolResult


@dataclass(frozen=True)
class Rates:
    """What a token costs; a token of uncached input costs 1."""

    cache_read: float = 0.1
    cache_write: float = 1.25
    output: float = 5.0


@dataclass(frozen=True)
class Pruning:
    """A prune that could be done."""

    seqs: list[int]
    """Records of the tool results that become previews."""
    first: int
    """Index of the first message that changes: what stands before it stays in the cache."""
    messages: list[ProjectedMessage]
    """The context's messages afterwards."""
    by_server: bool = False
    """The model's server leaves them out; what is sent does not change."""


def pruning(
    messages: Sequence[ProjectedMessage],
    records: Iterable[AnyRecord],
    keep_from: int,
) -> Pruning | None:
    """Make every old output a preview; ``None`` if there is none that is long.

    All at once, not only as many as are needed: each prune rewrites the cache behind its first
    preview, so that few large ones are cheaper than many small ones.

    Parameters
    ----------
    messages:
        The context, oldest first.
    records:
        What it was projected from.
    keep_from:
        Index of the first message whose outputs stay whole. Outputs that the model has not seen
        yet stay whole as well.
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
    """Whether a prune costs less than a summary for each token of room that it makes.

    A prune has the API write its cache anew from the first preview on. A summary has it read the
    whole context once from the cache, write the summary, and cache what begins anew.

    Parameters
    ----------
    before:
        Tokens of the context.
    unchanged:
        Tokens in front of the first preview, system prompt and tools among them.
    after_prune, after_summary:
        Tokens of the context after either.
    summary_output:
        Tokens of the summary.
    written_after_summary:
        Tokens that are cached anew after a summary: the summary turn and what stays behind it.
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
