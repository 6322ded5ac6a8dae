"""Asking the model for a summary, in a request that the prompt cache serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from prime_ext.context.breakpoints import place_marks
from prime_ext.context.projection import ProjectedMessage, Projection
from prime_ext.context.sections import condensed, shorten
from prime_ext.context.server_side import edits
from prime_ext.context.summary import REBUILD, instruction, why_no_summary
from prime_ext.context.tokens import context_tokens
from prime_ext.context.unverified import flagged, source_texts, unverified, without_flags
from prime_ext.models.model import Model, ModelError, ModelRequest, Reply, Retry
from prime_ext.session.records import Block

TOKENS_PER_WORD = 2
"""What a word of a summary takes, names, numbers and code included."""

TOLERANCE = 1.25
"""A summary may be so much longer than it was asked to be."""

MOST_INSTRUCTIONS = 16_384
"""Characters of instructions that a server takes."""


@dataclass(frozen=True)
class Summary:
    """What the model answered. ``text`` is empty if that was no summary."""

    text: str
    usage: dict[str, Any]
    cost_usd: float | None = None
    reason: str | None = None
    """Why there is none."""
    block: Block | None = None
    """What the model's server has signed, if it made it; ``text`` is its text, with flags."""

    def followed_by(self, other: Summary) -> Summary:
        """``other``, with what both have cost."""
        usage = {
            key: self.usage.get(key, 0) + other.usage.get(key, 0)
            for key in {*self.usage, *other.usage}
            if isinstance(other.usage.get(key, self.usage.get(key)), int)
        }
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return replace(other, usage=usage, cost_usd=sum(costs) if costs else None)

    @property
    def sent_tokens(self) -> int:
        """Tokens of the request, those from the cache included."""
        return context_tokens(self.usage) or 0


@dataclass(frozen=True)
class Room:
    """How long a reply and a summary may be, in tokens."""

    max_output: int
    """Of the request, as of any other of the conversation: a smaller one would change the budget
    of thinking with it, and with that the cache would not serve the request."""
    summary: int
    count: Callable[[str], int]
    """Counts the tokens of a text."""


async def summarise(
    projection: Projection,
    messages: Sequence[ProjectedMessage],
    model: Model,
    room: Room,
    *,
    instructions: str | None,
    extraction: str = "",
    on_retry: Callable[[Retry], None] | None = None,
    whole: Sequence[ProjectedMessage] | None = None,
) -> Summary:
    """Have ``messages`` summarised, in one request.

    The request is the conversation's own, system prompt and tools included, with one instruction
    behind it: what was sent before comes from the cache.

    Parameters
    ----------
    whole:
        What ``messages`` are a smaller form of, for checking the summary: of an earlier one they
        may have left out what it was flagged for.

    Raises
    ------
    ModelError
        If the model's server refuses or cannot be reached.
    """
    wire = [message.wire for message in messages]
    asked = instruction(instructions, extraction, max_words=room.summary // TOKENS_PER_WORD)
    wire.append({"role": "user", "content": [{"type": "text", "text": asked}]})
    system, marked = place_marks(projection.system, wire)
    request = ModelRequest(
        system=system,
        tools=projection.tools,
        messages=marked,
        max_tokens=room.max_output,
        purpose="compaction",
        summary_tokens=room.summary,
        edits=edits(messages),
    )
    reply, cost = await _ask(model, request, on_retry)
    text = "\n\n".join(b["text"] for b in reply.content if b["type"] == "text").strip()
    called = any(block["type"] == "tool_use" for block in reply.content)
    reason = why_no_summary(text, reply.stop_reason, called)
    if reason is not None:
        return Summary("", reply.usage, cost, reason)
    text = await asyncio.to_thread(_within, text, room)
    sources = _sources(projection, whole or messages, instructions, extraction)
    return Summary(await _checked(text, sources), reply.usage, cost)


async def summarise_on_server(
    projection: Projection,
    messages: Sequence[ProjectedMessage],
    model: Model,
    room: Room,
    *,
    instructions: str | None,
    extraction: str = "",
    on_retry: Callable[[Retry], None] | None = None,
) -> Summary:
    """The same by the model's server, which signs what it has made.

    Where it refuses, or gives no summary that is short enough, the model is asked as ever; that
    makes two requests.

    Raises
    ------
    ModelError
        As ``summarise``.
    """
    words = room.summary // TOKENS_PER_WORD
    room_for_extraction = MOST_INSTRUCTIONS - len(instruction(instructions, "", max_words=words))
    extract = shorten(extraction, max(0, room_for_extraction - len(REBUILD) - 100))
    asked = shorten(instruction(instructions, extract, max_words=words), MOST_INSTRUCTIONS)
    system, marked = place_marks(projection.system, [message.wire for message in messages])
    request = ModelRequest(
        system=system,
        tools=projection.tools,
        messages=marked,
        max_tokens=room.max_output,
        purpose="compaction",
        summary_tokens=room.summary,
        compaction=asked,
    )
    spent = Summary("", {})
    try:
        reply, cost = await _ask(model, request, on_retry)
    except ModelError as error:
        if error.code != "bad_request":
            raise
    else:
        spent = Summary("", reply.usage, cost)
        block = next((b for b in reply.content if b["type"] == "compaction"), {})
        text = str(block.get("content") or "").strip()
        if text and room.count(text) <= room.summary * TOLERANCE:
            sources = _sources(projection, messages, instructions, extract)
            return replace(spent, text=await _checked(text, sources), block=block)
    return spent.followed_by(
        await summarise(
            projection,
            messages,
            model,
            room,
            instructions=instructions,
            extraction=extraction,
            on_retry=on_retry,
        )
    )


async def _ask(
    model: Model, request: ModelRequest, on_retry: Callable[[Retry], None] | None
) -> tuple[Reply, float | None]:
    """The reply and what it has cost."""
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, Retry) and on_retry is not None:
                on_retry(event)
            elif isinstance(event, Reply):
                price = (await model.capabilities()).price
                return event, price.cost(event.usage) if price else None
    raise ModelError("The model's stream ended without a message.", code="server_error")


def _sources(
    projection: Projection,
    messages: Sequence[ProjectedMessage],
    instructions: str | None,
    extraction: str,
) -> list[str]:
    """All that a summary can have been made of."""
    read = source_texts(message.content for message in messages)
    return [instructions or "", extraction, str(projection.system), str(projection.tools), *read]


def _within(text: str, room: Room) -> str:
    """``text`` in the room that a summary has: of a longer one its sections, each shortened."""
    tokens = room.count(text)
    if tokens <= room.summary * TOLERANCE:
        return text
    return condensed(text, len(text) * room.summary // tokens)


async def _checked(text: str, sources: Sequence[str]) -> str:
    """``text`` with a list of what in it the model cannot have read anywhere."""

    def check() -> str:
        body = without_flags(text)
        return flagged(body, unverified(body, sources))

    return await asyncio.to_thread(check)
