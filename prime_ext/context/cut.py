"""Where a compaction cuts: what becomes the summary, what stays verbatim behind it."""

from __future__ import annotations

from collections.abc import Sequence

from prime_ext.context.projection import ProjectedMessage


def cut_index(
    messages: Sequence[ProjectedMessage],
    tokens: Sequence[int],
    keep_tail_tokens: int,
) -> int:
    """Index of the first message that stays verbatim; ``len(messages)`` if none does.

    A user message that has no reply yet always stays, whatever its size: it is the question.
    Beyond it as many of the newest messages stay as fit in ``keep_tail_tokens``. A call and its
    result are never separated.

    Parameters
    ----------
    messages:
        The context, oldest first.
    tokens:
        Size of each message.
    keep_tail_tokens:
        Size of the verbatim tail at most.
    """
    end = len(messages)
    kept = 0
    cut = end
    for index in range(end - 1, -1, -1):
        kept += tokens[index]
        pending = index == end - 1 and _is_question(messages[index])
        if kept > keep_tail_tokens and not pending:
            break
        if not messages[index].is_answer:
            cut = index
    return cut


def _is_question(message: ProjectedMessage) -> bool:
    return message.role == "user" and not message.is_answer
