"""The offline agent, behind the interface of a model: rules only, no network, no download."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import Any

from prime_ext.context.tokens import count_text, measure_request
from prime_ext.models.model import (
    Block,
    BlockStart,
    Capabilities,
    ModelEvent,
    ModelRequest,
    Reply,
    ServerSide,
    TextDelta,
    ToolInputDelta,
)

MODEL_ID = "offline"
WINDOW = 200_000
MAX_OUTPUT = 32_000
DELTA_CHARS = 48


class OfflineModel:
    """A model that answers from rules alone; every reply is a pure function of the request.

    It streams and calls tools like any other model, so that the panel, approvals, compaction and
    recovery work in the same way.
    """

    provider = "offline"
    id = MODEL_ID

    @property
    def endpoint(self) -> str | None:
        """``None``: nothing leaves this process."""
        return None

    @property
    def encrypted(self) -> bool:
        """Always true: nothing is transmitted."""
        return True

    async def capabilities(self) -> Capabilities:
        return Capabilities(window=WINDOW, max_output=MAX_OUTPUT)

    async def server_side(self) -> ServerSide:
        return ServerSide()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer ``request`` with the same events as a remote model's stream, ``Reply`` last."""
        # Reading a long conversation takes time, and must not block the event loop.
        content, usage, stop_reason = await asyncio.to_thread(_answer, request)
        for index, block in enumerate(content):
            if block["type"] == "text":
                yield BlockStart(index, {"type": "text", "text": ""})
                for piece in _pieces(block["text"]):
                    yield TextDelta(index, piece)
                    await asyncio.sleep(0)
            else:
                yield BlockStart(index, {**block, "input": {}})
                for piece in _pieces(json.dumps(block["input"], ensure_ascii=False)):
                    yield ToolInputDelta(index, piece)
                    await asyncio.sleep(0)
        yield Reply(content=content, stop_reason=stop_reason, usage=usage, model=MODEL_ID)


def _answer(request: ModelRequest) -> tuple[list[Block], dict[str, Any], str]:
    # Imported lazily, so that a server that never uses this agent does not load its rules.
    from prime_ext.models.offline import conversation, planner, summary

    if request.purpose == "compaction":
        content: list[Block] = [{"type": "text", "text": summary.summarise(request)}]
        return content, _usage(request, content), "end_turn"
    current = conversation.read(request)
    step = planner.next_step(current)
    content = []
    if step.text.strip():
        content.append({"type": "text", "text": step.text})
    for index, call in enumerate(step.calls):
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_{current.fingerprint[:20]}{index:02d}",
                "name": call.name,
                "input": call.arguments,
            }
        )
    return content, _usage(request, content), "tool_use" if step.calls else "end_turn"


def _usage(request: ModelRequest, content: list[Block]) -> dict[str, Any]:
    size = measure_request(request.system, request.tools, request.messages)
    output = sum(
        count_text(
            block["text"]
            if block["type"] == "text"
            else json.dumps(block["input"], ensure_ascii=False)
        )
        for block in content
    )
    return {
        "input_tokens": size.raw,
        "output_tokens": output,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }


def _pieces(text: str) -> list[str]:
    """Split ``text`` after whitespace into pieces of at least ``DELTA_CHARS`` characters."""
    return re.findall(rf"(?s).{{1,{DELTA_CHARS}}}\S*\s*", text)
