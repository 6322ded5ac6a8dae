"""The offline agent's answer to a compaction request: a digest extracted from the messages."""

from __future__ import annotations

from typing import Any

from prime_ext.context.digest import digest
from prime_ext.context.summary import INSTRUCTION
from prime_ext.models.model import ModelRequest
from prime_ext.models.offline.conversation import blocks

CHARS_PER_TOKEN = 3
"""Lower bound for English text and code."""


def summarise(request: ModelRequest) -> str:
    """Return the digest of the messages in ``request``, without the instruction to summarise."""
    messages = list(request.messages)
    if messages:
        last = _without_instruction(messages[-1])
        messages = [*messages[:-1], last] if last is not None else messages[:-1]
    text = digest(messages, max_chars=max(400, request.summary_tokens * CHARS_PER_TOKEN))
    return text or "Nothing was said yet."


def _without_instruction(message: dict[str, Any]) -> dict[str, Any] | None:
    kept = [
        block for block in blocks(message) if not str(block.get("text", "")).startswith(INSTRUCTION)
    ]
    return {**message, "content": kept} if kept else None
