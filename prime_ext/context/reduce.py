"""Reduced forms of a conversation, for when the model's server refuses to summarise all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prime_ext.context.digest import digest
from prime_ext.context.projection import ProjectedMessage, may_begin
from prime_ext.context.sections import shorten
from prime_ext.session.records import Block

_IMAGE: Block = {"type": "text", "text": "[An image is left out here.]"}
_MEDIA = frozenset({"image", "document"})


def without_media(messages: Sequence[ProjectedMessage]) -> list[ProjectedMessage]:
    """Return the messages with a short text in place of each image or document.

    Messages without media are returned as the same objects.
    """
    return [
        replace(message, content=_text_only(message.content))
        if any(_has_media(block) for block in message.content)
        else message
        for message in messages
    ]


def fitting(
    messages: Sequence[ProjectedMessage],
    sizes: Sequence[int],
    room: int,
    *,
    digest_chars: int,
) -> list[ProjectedMessage]:
    """Return the newest messages that fit in ``room`` tokens, after an extraction of the others.

    A tool call and its result stay together, as do a reply and its continuation.

    Parameters
    ----------
    sizes:
        Size of each message, in tokens.
    room:
        Maximum size of the result, in tokens.
    digest_chars:
        Maximum characters of the extraction.
    """
    first = len(messages)
    used = digest_chars // 2  # A cautious estimate of two characters per token.
    for index in range(len(messages) - 1, -1, -1):
        used += sizes[index]
        if used > room:
            break
        if may_begin(messages, index):
            first = index
    if first == 0:
        return list(messages)
    text = digest([m.wire for m in messages[:first]], max_chars=digest_chars)
    older = ProjectedMessage(
        "user",
        [{"type": "text", "text": f"[Older messages, by extraction:]\n{text}"}],
        messages[0].first_seq,
        messages[first - 1].last_seq,
    )
    return [older, *messages[first:]]


def transcript(messages: Sequence[ProjectedMessage], max_chars: int) -> str:
    """Return the conversation as one text of at most ``max_chars`` characters.

    Long messages are shortened in the middle. Each message of the newer half gets twice the room
    of a message of the older half.
    """
    lines = [f"{message.role}: {_told(message)}" for message in messages]
    if not lines:
        return ""
    older = len(lines) // 2
    share = max_chars // (older + 2 * (len(lines) - older))
    if share < 40:  # Too many messages: use the newest only.
        return shorten("\n".join(lines[-(max_chars // 80) or -1 :]), max_chars)
    return "\n".join(
        shorten(line, (share if index < older else 2 * share) - 1)
        for index, line in enumerate(lines)
    )


def _told(message: ProjectedMessage) -> str:
    parts = []
    for block in message.content:
        if block["type"] == "text":
            parts.append(str(block["text"]))
        elif block["type"] == "compaction":
            parts.append(f"[summary of what was before: {block['content']}]")
        elif block["type"] == "tool_use":
            parts.append(
                f"[calls {block['name']} {json.dumps(block['input'], ensure_ascii=False)}]"
            )
        elif block["type"] == "tool_result":
            inner: list[Any] = block["content"]
            texts = [str(b["text"]) for b in _text_only(inner) if b["type"] == "text"]
            parts.append(f"[result: {' '.join(texts)}]")
    return " ".join(parts)


def _has_media(block: Block) -> bool:
    inner = block.get("content")
    return block["type"] in _MEDIA or (
        isinstance(inner, list) and any(b["type"] in _MEDIA for b in inner)
    )


def _text_only(content: Sequence[Block]) -> list[Block]:
    kept: list[Block] = []
    for block in content:
        if block["type"] in _MEDIA:
            kept.append(_IMAGE)
        elif _has_media(block):
            kept.append({**block, "content": _text_only(block["content"])})
        else:
            kept.append(block)
    return kept
