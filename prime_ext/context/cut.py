"""The point at which a compaction cuts: summarise what precedes it, keep what follows verbatim."""

from __future__ import annotations

from collections.abc import Sequence

from prime_ext.context.projection import ProjectedMessage, may_begin


def cut_index(
    messages: Sequence[ProjectedMessage],
    tokens: Sequence[int],
    keep_tail_tokens: int,
) -> int:
    """Return the index of the first message that stays verbatim; ``len(messages)`` if none does.

    A final user message without a reply always stays, whatever its size, because it is the
    question to answer. Otherwise as many of the newest messages stay as fit in
    ``keep_tail_tokens``. Neither a tool call and its result are separated, nor a reply that was
    paused and its continuation.

    Parameters
    ----------
    messages:
        The context, oldest first.
    tokens:
        Size of each message.
    keep_tail_tokens:
        Maximum size of the verbatim tail.
    """
    end = len(messages)
    kept = 0
    cut = end
    for index in range(end - 1, -1, -1):
        kept += tokens[index]
        pending = index == end - 1 and _is_question(messages[index])
        if kept > keep_tail_tokens and not pending:
            break
        if may_begin(messages, index):
            cut = index
    return cut


def _is_question(message: ProjectedMessage) -> bool:
    return message.role == "user" and not message.is_answer
