"""The events of a reply, as the real API streams them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prime_ext.context.tokens import count_text
from tests.messages_api.catalogue import ModelSpec
from tests.messages_api.prompt import scaled
from tests.messages_api.script import Found, Part, Reply, Search, Text, Thinking

CHUNK_CHARS = 24

Sign = Callable[[str, list[dict[str, Any]]], str]
"""Thinking as shown, and the blocks before it → signature."""


@dataclass(frozen=True)
class Piece:
    """A delta and the tokens it takes to write it."""

    delta: dict[str, Any]
    tokens: int


@dataclass(frozen=True)
class Block:
    """One content block: how it begins, its deltas, and what it is when whole."""

    start: dict[str, Any]
    pieces: tuple[Piece, ...]
    whole: dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """A reply cut to the tokens it may have."""

    blocks: tuple[Block, ...]
    stop_reason: str
    output_tokens: int

    @property
    def content(self) -> list[dict[str, Any]]:
        return [block.whole for block in self.blocks]


def render(
    reply: Reply,
    spec: ModelSpec,
    *,
    max_tokens: int,
    room: int,
    shows_thinking: bool,
    thinks: bool,
    sign: Sign,
    new_tool_id: Callable[[], str],
) -> Rendered:
    """Turn the parts of ``reply`` into blocks.

    Parameters
    ----------
    max_tokens, room:
        What the request allows, and what is left of the window; the smaller cuts the reply.
    sign:
        Called with the thinking text as shown and the blocks before it; gives the signature.
    """
    budget = min(max_tokens, room)
    blocks: list[Block] = []
    used = 0
    cut = False
    for part in reply.parts:
        if isinstance(part, Thinking) and not thinks:
            continue
        block = _block(part, spec, shows_thinking, new_tool_id)
        kept = []
        for piece in block.pieces:
            if used + piece.tokens > budget:
                cut = True
                break
            used += piece.tokens
            kept.append(piece)
        block = _finished(block, tuple(kept), [b.whole for b in blocks], sign, cut=cut)
        blocks.append(block)
        if cut:
            break
    if cut:
        stop = "max_tokens" if max_tokens <= room else "model_context_window_exceeded"
    else:
        calls = any(block.start["type"] == "tool_use" for block in blocks)
        stop = reply.stop_reason or ("tool_use" if calls else "end_turn")
    return Rendered(tuple(blocks), stop, max(1, used))


def _block(
    part: Part, spec: ModelSpec, shows_thinking: bool, new_tool_id: Callable[[], str]
) -> Block:
    if isinstance(part, Text):
        pieces = [
            Piece({"type": "text_delta", "text": chunk}, scaled(count_text(chunk), spec))
            for chunk in _chunks(part.text)
        ]
        return Block({"type": "text", "text": ""}, tuple(pieces), {})
    if isinstance(part, Thinking):
        text = part.thinking if shows_thinking else ""
        pieces = [
            Piece({"type": "thinking_delta", "thinking": chunk}, scaled(count_text(chunk), spec))
            for chunk in _chunks(text)
        ]
        return Block({"type": "thinking", "thinking": "", "signature": ""}, tuple(pieces), {})
    if isinstance(part, Found):
        pages = [
            {
                "type": "web_search_result",
                "title": title,
                "url": f"https://example.org/{number}",
                "encrypted_content": "c2VjcmV0",
                "page_age": None,
            }
            for number, title in enumerate(part.titles)
        ]
        found = {"type": "web_search_tool_result", "tool_use_id": part.id, "content": pages}
        return Block(found, (), {})
    if isinstance(part, Search):
        start = {"type": "server_tool_use", "id": part.id, "name": "web_search", "input": {}}
        data = json.dumps({"query": part.query}, ensure_ascii=False)
    else:
        start = {
            "type": "tool_use",
            "id": part.id or new_tool_id(),
            "name": part.name,
            "input": {},
        }
        data = json.dumps(part.input, ensure_ascii=False)
        data = data if part.raw_json is None else part.raw_json
    pieces = [Piece({"type": "input_json_delta", "partial_json": ""}, 0)]
    pieces += [
        Piece({"type": "input_json_delta", "partial_json": chunk}, scaled(count_text(chunk), spec))
        for chunk in _chunks(data)
    ]
    return Block(start, tuple(pieces), {})


def _chunks(text: str) -> Iterator[str]:
    for i in range(0, len(text), CHUNK_CHARS):
        yield text[i : i + CHUNK_CHARS]


def _finished(
    block: Block, pieces: tuple[Piece, ...], before: list[dict[str, Any]], sign: Sign, *, cut: bool
) -> Block:
    """The block with what was kept of it, whole: signed, its input parsed."""
    kind = block.start["type"]
    deltas = [piece.delta for piece in pieces]
    if kind == "text":
        text = "".join(delta["text"] for delta in deltas)
        return Block(block.start, pieces, {"type": "text", "text": text})
    if kind == "thinking":
        text = "".join(delta["thinking"] for delta in deltas)
        signature = sign(text, before)
        signed = Piece({"type": "signature_delta", "signature": signature}, 0)
        whole = {"type": "thinking", "thinking": text, "signature": signature}
        return Block(block.start, (*pieces, signed), whole)
    if kind == "web_search_tool_result":
        return Block(block.start, pieces, block.start)
    data = "".join(delta["partial_json"] for delta in deltas)
    try:
        arguments = json.loads(data) if data else {}
    except ValueError:
        arguments = {}
    return Block(block.start, pieces, {**block.start, "input": arguments})


@dataclass(frozen=True)
class Event:
    """One server-sent event, and the output tokens that it takes to write."""

    name: str
    data: dict[str, Any]
    tokens: int = 0

    def encode(self) -> bytes:
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return f"event: {self.name}\ndata: {data}\n\n".encode("utf-8", "surrogatepass")


def events(
    rendered: Rendered, message: dict[str, Any], usage: dict[str, Any], closing: dict[str, Any]
) -> Iterator[Event]:
    """All events of a reply.

    Parameters
    ----------
    message:
        Its frame, as sent with ``message_start``.
    usage, closing:
        What ``message_delta`` reports in the end: the usage, and more fields.
    """
    yield Event("message_start", {"type": "message_start", "message": message})
    for index, block in enumerate(rendered.blocks):
        yield Event(
            "content_block_start",
            {"type": "content_block_start", "index": index, "content_block": block.start},
        )
        if index == 0:
            yield Event("ping", {"type": "ping"})
        for piece in block.pieces:
            yield Event(
                "content_block_delta",
                {"type": "content_block_delta", "index": index, "delta": piece.delta},
                piece.tokens,
            )
        yield Event("content_block_stop", {"type": "content_block_stop", "index": index})
    reported = (
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "iterations",
    )
    yield Event(
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": rendered.stop_reason, "stop_sequence": None},
            "usage": {key: usage[key] for key in reported if key in usage},
            **closing,
        },
    )
    yield Event("message_stop", {"type": "message_stop"})
