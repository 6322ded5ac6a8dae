"""Decisions about the size of a context, without I/O: when to make a note, prune or wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prime_ext.context.cut import cut_index
from prime_ext.context.limits import Limits
from prime_ext.context.projection import ProjectedMessage
from prime_ext.context.prune import Pruning, Rates, is_cheaper, pruning
from prime_ext.session.records import AnyRecord

GROWTHS_AHEAD = 2
"""Requests that are typically made while a note is being written."""

Prune = Callable[[Sequence[ProjectedMessage], Iterable[AnyRecord], int], Pruning | None]
"""Signature of ``pruning``."""

LEAP_OUTPUT = 8_000
"""Tokens reserved for a reply above the threshold; few replies are longer."""

LARGEST_ERROR = 0.25
"""Assumed maximum error of a token estimate, as a share of the estimated part."""

FRESH_TOKENS = 18_000
"""Target for the tokens that are written to the prompt cache after a compaction: the summary turn
and the verbatim tail. The next request adds to them before the size is checked again; together they
should stay below 20,000."""


@dataclass(frozen=True)
class Measured:
    """A context and its sizes in tokens."""

    messages: Sequence[ProjectedMessage]
    sizes: Sequence[int]
    """Size of each message."""
    overhead: int
    """Size of system prompt and tools."""
    total: int
    """Size of the next request."""


def prefire_point(limits: Limits, fast_growth: int) -> int:
    """Return the context size at which the note is started, so that it is ready at the threshold.

    If the context grows fast, this is earlier than ``limits.prefire_at``, but not so early that the
    size right after a compaction (up to ``limits.landing``) would already start the next note.
    """
    early = limits.threshold - GROWTHS_AHEAD * fast_growth
    return max(min(limits.prefire_at, early), min(limits.prefire_at, limits.landing + 1))


def leap_room(
    limits: Limits, crossed_at: int, unreported: int, fast_growth: int, *, stops_at_window: bool
) -> int:
    """Return the size up to which requests may continue above the threshold during a note.

    The prompt and a reply must fit in the window even if the estimate is too low. The context must
    also not grow by more than a tenth of the threshold, which the user may have set on purpose.

    Parameters
    ----------
    crossed_at:
        Size of the context when it was found to be above the threshold.
    unreported:
        Part of the size that is an estimate, because no reply has reported it yet, in tokens.
    fast_growth:
        Tokens that the next request may add.
    stops_at_window:
        Whether the model stops a reply at the end of the window. Other models may refuse a prompt
        that leaves no room for the largest possible reply.
    """
    reply = max(min(LEAP_OUTPUT, limits.max_output), fast_growth)
    if not stops_at_window:
        reply = limits.max_output
    room = limits.window - reply - int(unreported * LARGEST_ERROR)
    return min(room, crossed_at + limits.threshold // 10)


def tail_room(limits: Limits, overhead: int, note_tokens: int) -> int:
    """Return the tokens that should follow a note verbatim at most, to limit cache writes."""
    fresh = FRESH_TOKENS - limits.added_tokens(overhead) - note_tokens
    if overhead < limits.min_cache_tokens:  # System prompt and tools are too short to be cached.
        fresh -= overhead
    return min(limits.keep_tail, max(fresh, limits.keep_tail // 4))


def may_follow(tail: int, note_tokens: int, limits: Limits, overhead: int) -> bool:
    """Return whether a note can replace its prefix with ``tail`` tokens verbatim after it."""
    room = limits.landing - overhead - note_tokens - limits.added_tokens(overhead)
    # If the note alone exceeds the landing size, asking for a shorter one would not help either.
    return tail <= limits.keep_tail and (tail <= room or room <= 0)


def wants_rolling(tail: int, to_go: int, room: int, keep_tail: int, fast_growth: int) -> bool:
    """Return whether the note must be rolled forward now, before its tail gets too long.

    Parameters
    ----------
    tail:
        Tokens added since the note.
    to_go:
        Tokens left up to the threshold.
    room:
        Tokens that should follow a note at most, see ``tail_room``.
    keep_tail:
        Tokens that may follow a note at most, see ``may_follow``.
    fast_growth:
        Tokens that the next request may add.
    """
    if to_go <= fast_growth:
        # The next request may cross the threshold before the rolled note is ready. Rolling pays
        # off only if the note could not be used as it is, or only with a tail that is too long.
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
    """Return a sufficient prune and the context size after it; ``None`` if there is none.

    A prune suffices if it would bring the context below ``limits.landing`` at the threshold, and
    if a summary would not free room more cheaply. Content added up to the threshold is assumed to
    be as prunable as the present content.

    Parameters
    ----------
    size_of:
        Returns the tokens of messages that are not in the context.
    prune:
        Makes the prune: with previews (``pruning``), or by the model's server (``clearing``).
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
    summary_tokens = limits.summary_tokens(context.overhead) // 2  # Few use all of their room.
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
