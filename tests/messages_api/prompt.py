"""A request as the model reads it: blocks in order, with their bytes and their tokens."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

from prime_ext.context.image_size import image_size
from prime_ext.context.tokens import count_text
from tests.messages_api.catalogue import ModelSpec

REQUEST_OVERHEAD = 3
TOOLS_OVERHEAD = 290
"""Tokens of the system prompt that tool use adds."""
MESSAGE_OVERHEAD = 4
RUNS = ("tool_use", "tool_result")
UNCACHEABLE = ("thinking", "redacted_thinking")


def block_bytes(block: dict[str, Any]) -> bytes:
    """What a block says, in bytes: independent of the order of its own keys and of cache marks."""
    content = block.get("content")
    plain = {key: block[key] for key in sorted(block) if key not in ("cache_control", "content")}
    data = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if isinstance(content, list):
        data += "".join(block_bytes(inner).decode("utf-8", "surrogatepass") for inner in content)
    elif content is not None:
        data += json.dumps(content, ensure_ascii=False)
    return data.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Position:
    """One block of the prompt."""

    section: str
    """``tools``, ``system`` or ``messages``."""
    data: bytes
    tokens: int
    mark: dict[str, Any] | None
    in_run: bool
    """It continues a run of calls or results, which counts as one position."""
    cacheable: bool


def positions(
    system: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    messages: list[dict[str, Any]],
    spec: ModelSpec,
    top_level_mark: dict[str, Any] | None,
) -> list[Position]:
    """The prompt's blocks in the order they are read."""
    found: list[Position] = []
    for i, tool in enumerate(tools):
        overhead = 0 if i else TOOLS_OVERHEAD
        tokens = overhead + scaled(count_text(block_bytes(tool).decode()), spec)
        found.append(
            Position("tools", block_bytes(tool), tokens, tool.get("cache_control"), False, True)
        )
    found += [
        Position(
            "system",
            block_bytes(block),
            block_tokens(block, spec),
            block.get("cache_control"),
            False,
            True,
        )
        for block in system
    ]
    previous = ""
    for message in messages:
        for i, block in enumerate(message["content"]):
            overhead = 0 if i else MESSAGE_OVERHEAD
            kind = block["type"]
            found.append(
                Position(
                    "messages",
                    message["role"].encode() + b":" + block_bytes(block),
                    overhead + block_tokens(block, spec),
                    _mark(block),
                    kind == previous and kind in RUNS,
                    kind not in UNCACHEABLE,
                )
            )
            previous = kind
    if top_level_mark is not None:
        for i in range(len(found) - 1, -1, -1):
            if found[i].cacheable:
                last = found[i]
                found[i] = Position(
                    last.section, last.data, last.tokens, top_level_mark, last.in_run, True
                )
                break
    return found


def _mark(block: dict[str, Any]) -> dict[str, Any] | None:
    mark: dict[str, Any] | None = block.get("cache_control")
    if mark is None and isinstance(block.get("content"), list):
        for inner in block["content"]:
            mark = inner.get("cache_control") or mark
    return mark


def scaled(raw: int, spec: ModelSpec) -> int:
    return math.ceil(raw * spec.factor)


def block_tokens(block: dict[str, Any], spec: ModelSpec) -> int:
    """Tokens of one block in the model's own count."""
    kind = block["type"]
    if kind == "text":
        return scaled(count_text(block["text"]), spec)
    if kind == "image":
        return _image_tokens(block, spec)
    if kind == "thinking":
        return scaled(count_text(block["thinking"]), spec)
    if kind == "compaction":
        return scaled(count_text(block["content"]), spec)
    if kind == "web_search_tool_result":
        return 8 + scaled(count_text("".join(page["title"] for page in block["content"])), spec)
    if kind in ("tool_use", "server_tool_use"):
        text = block["name"] + json.dumps(block["input"], ensure_ascii=False)
        return 8 + scaled(count_text(text), spec)
    if kind == "tool_result":
        content = block.get("content", "")
        if isinstance(content, str):
            return 8 + scaled(count_text(content), spec)
        return 8 + sum(block_tokens(inner, spec) for inner in content)
    raise ValueError(kind)


def _image_tokens(block: dict[str, Any], spec: ModelSpec) -> int:
    source = block["source"]
    size = image_size(base64.b64decode(source["data"])) if source["type"] == "base64" else None
    if size is None:
        return spec.image_token_cap
    return min(math.ceil(size[0] / 28) * math.ceil(size[1] / 28), spec.image_token_cap)
