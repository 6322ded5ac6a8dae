"""Placement of the four prompt cache breakpoints (``cache_control`` marks) of a request.

The API writes cache entries only at marks. From each mark it looks back 20 positions for an entry
written earlier; a run of ``tool_use`` blocks, or of ``tool_result`` blocks, counts as one position.
"""

from __future__ import annotations

from typing import Any

LOOK_BACK_MARK = 15
"""Positions before the last mark at which another one is set, well within the look-back of 20."""

CACHEABLE = frozenset({"text", "image", "document", "tool_use", "tool_result", "compaction"})
EPHEMERAL: dict[str, Any] = {"type": "ephemeral"}
ONE_HOUR: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}


SYSTEM = -1
"""Used in place of a message index for the system prompt, which precedes all messages."""


def place_marks(
    system: list[dict[str, Any]], messages: list[dict[str, Any]], first: int | None = SYSTEM
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return copies of ``system`` and ``messages`` with cache marks.

    The mark at the end of the system prompt, which also covers the tools, has a lifetime of one
    hour, so that the entry survives a pause of the user. The others last five minutes: at the
    first message if it is a summary, about 15 positions before the end, and at the last message.

    Apart from the marks the copies equal the input; unmarked blocks are shared with it.

    Parameters
    ----------
    first:
        Index of the first message at whose end the request is long enough to be cached, or
        ``SYSTEM`` if system prompt and tools alone are long enough. No mark is placed before it.
        ``None``: no marks at all.
    """
    marked_system = list(system)
    if marked_system and first == SYSTEM:
        marked_system[-1] = {**marked_system[-1], "cache_control": ONE_HOUR}
    marked = list(messages)
    targets: list[tuple[int, int]] = []
    last = _last_cacheable(messages, len(messages) - 1)
    if last is not None:
        targets.append(last)
        back = _back(messages, last, LOOK_BACK_MARK)
        if back is not None:
            targets.append(back)
        summary = _summary(messages)
        if summary is not None:
            targets.append(summary)
    for message_index, block_index in dict.fromkeys(targets):
        if first is None or message_index < first:
            continue
        message = marked[message_index]
        content = list(message["content"])
        content[block_index] = {**content[block_index], "cache_control": EPHEMERAL}
        marked[message_index] = {**message, "content": content}
    return marked_system, marked


def _last_cacheable(messages: list[dict[str, Any]], start: int) -> tuple[int, int] | None:
    for message_index in range(start, -1, -1):
        content = messages[message_index]["content"]
        for block_index in range(len(content) - 1, -1, -1):
            if content[block_index]["type"] in CACHEABLE:
                return message_index, block_index
    return None


def _back(
    messages: list[dict[str, Any]], last: tuple[int, int], positions: int
) -> tuple[int, int] | None:
    """Return the cacheable block more than ``positions`` before ``last``, if there is one.

    The result is a pair of message and block index.
    """
    counted = 0
    previous_type = ""
    for message_index in range(last[0], -1, -1):
        content = messages[message_index]["content"]
        start = last[1] if message_index == last[0] else len(content) - 1
        for block_index in range(start, -1, -1):
            kind = content[block_index]["type"]
            in_run = kind == previous_type and kind in ("tool_use", "tool_result")
            if not in_run:
                counted += 1
            previous_type = kind
            if counted > positions and kind in CACHEABLE and not in_run:
                return message_index, block_index
        previous_type = ""
    return None


def _summary(messages: list[dict[str, Any]]) -> tuple[int, int] | None:
    content = messages[0]["content"]
    if content[0]["type"] == "compaction":
        return 0, 0
    if content[0]["type"] == "text" and content[0]["text"].startswith("<compaction-summary>"):
        return 0, 0
    return None
