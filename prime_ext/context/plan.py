"""What is to be done about a context's size: decisions only, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prime_ext.context.cut import cut_index
from prime_ext.context.limits import Limits
from prime_ext.context.projection import ProjectedMessage
from prime_ext.context.prune import Pruning, Rates, is_cheaper, pruning
from prime_ext.session.records import AnyRecord

GROWTHS_AHEAD = 2
"""A note takes about as long as so many requests."""

Prune = Callable[[Sequence[ProjectedMessage], Iterable[AnyRecord], int], Pruning | None]
"""See ``pruning``."""

LEAP_OUTPUT = 8_000
"""Tokens that a reply beyond the threshold has room for: few are longer."""

LARGEST_ERROR = 0.25
"""Of an estimate, as a share of what it is an estimate of: the kind of text may be a new one."""

FRESH_TOKENS = 18_000
"""What a compaction aims to leave to be cached anew: the summary turn and the tail. It is to be
20,000 at most with what one more request adds, which is seen too late."""


@dataclass(frozen=True)
class Measured:
    """A context and its sizes, in tokens."""

    messages: Sequence[ProjectedMessage]
    sizes: Sequence[int]
    """Of each message."""
    overhead: int
    """System prompt and tools."""
    total: int
    """The whole, as the next request would send it."""


def prefire_point(limits: Limits, fast_growth: int) -> int:
    """Size at which the note is begun: early enough to be ready at the threshold.

    Where the context grows by leaps it is earlier than the configured margin, but never so early
    that a compaction would bring it about at once.
    """
    early = limits.threshold - GROWTHS_AHEAD * fast_growth
    return max(min(limits.prefire_at, early), min(limits.prefire_at, limits.landing + 1))


def leap_room(
    limits: Limits, crossed_at: int, unreported: int, fast_growth: int, *, stops_at_window: bool
) -> int:
    """Size up to which requests may go on beyond the threshold, while a note is being made.

    The prompt must fit in the window whatever the estimate is wrong by, and a reply behind it. And
    it must not grow by more than a tenth of the threshold, which may have been set for its own
    sake.

    Parameters
    ----------
    crossed_at:
        Size at which the threshold was found to be crossed.
    unreported:
        Tokens of the size that no reply has reported yet.
    stops_at_window:
        A reply that reaches the window's end is cut off there. Of another model it is not known
        that it takes a prompt which leaves no room for the largest reply.
    """
    reply = max(min(LEAP_OUTPUT, limits.max_output), fast_growth)
    if not stops_at_window:
        reply = limits.max_output
    room = limits.window - reply - int(unreported * LARGEST_ERROR)
    return min(room, crossed_at + limits.threshold // 10)


def tail_room(limits: Limits, overhead: int, note_tokens: int) -> int:
    """Tokens that may follow a note verbatim, so that what is cached anew stays small."""
    fresh = FRESH_TOKENS - limits.added_tokens(overhead) - note_tokens
    if overhead < limits.min_cache_tokens:  # too short to be cached by itself
        fresh -= overhead
    return min(limits.keep_tail, max(fresh, limits.keep_tail // 4))


def may_follow(tail: int, note_tokens: int, limits: Limits, overhead: int) -> bool:
    """Whether ``tail`` tokens may follow a note verbatim, so that it takes the prefix's place."""
    room = limits.landing - overhead - note_tokens - limits.added_tokens(overhead)
    # Where not even the note lands alone, a request for a shorter one would not help either.
    return tail <= limits.keep_tail and (tail <= room or room <= 0)


def wants_rolling(tail: int, to_go: int, room: int, keep_tail: int, fast_growth: int) -> bool:
    """Whether the note must be rolled forward now, to be ready before its tail is too long.

    Parameters
    ----------
    tail:
        Tokens that have come since the note.
    to_go:
        Tokens up to the threshold.
    room:
        Tokens that should follow a note at most, see ``tail_room``.
    keep_tail:
        Tokens with which it can still take the prefix's place.
    fast_growth:
        What the next request may add.
    """
    if to_go <= fast_growth:
        # The next request may cross the threshold before the model has rolled the note forward.
        # It is worth it only where the note could not be used as it is, or not well.
        return tail > room or tail + fast_growth > keep_tail
    return tail + to_go > room and tail > max(room - fast_growth, room // 2)


def choose_prune(
    context: Measured,
    records: Sequence[AnyRecord],
    limits: Limits,
    rates: Rates,
    size_of: Callable[[Sequence[ProjectedMessage]], int],
    prune: Prune = pruning,
) -> tuple[Pruning, int] | None:
    """The prune that suffices at the threshold, and the size it leaves; ``None`` if none does.

    It suffices if the context lands under ``limits.landing`` once it has grown to the threshold,
    taking it that what comes can be pruned as well as what is there; and if a summary would not
    make room more cheaply.

    Parameters
    ----------
    size_of:
        Counts messages that are not in the context.
    prune:
        Makes it: by previews, or by what the model's server leaves out.
    """
    cut = cut_index(context.messages, context.sizes, limits.keep_tail)
    found = prune(context.messages, records, cut)
    if found is None:
        return None
    changed = [
        (index, message)
        for index, message in enumerate(found.messages)
        if message is not context.messages[index]
    ]
    freed = sum(context.sizes[index] for index, _ in changed)
    freed -= size_of([message for _, message in changed])
    after = context.total - freed
    tail = sum(context.sizes[cut:])
    still_to_come = max(0, limits.threshold - context.total)
    stays = 1 - freed / max(1, sum(context.sizes[:cut]))
    if freed <= 0 or after + stays * still_to_come > limits.landing:
        return None
    summary_tokens = limits.summary_tokens(context.overhead) // 2  # few are as long as they may
    fresh = summary_tokens + limits.added_tokens(context.overhead) + tail
    cheaper = is_cheaper(
        before=context.total,
        unchanged=context.overhead + sum(context.sizes[: found.first]),
        after_prune=after,
        after_summary=context.overhead + fresh,
        summary_output=summary_tokens,
        written_after_summary=fresh,
        rates=rates,
    )
    return (found, after) if cheaper else None
