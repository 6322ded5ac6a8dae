"""Requests to the model for a summary, made so that the prompt cache serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from prime_ext.context.breakpoints import place_marks
from prime_ext.context.projection import ProjectedMessage, Projection, finished
from prime_ext.context.sections import condensed, shorten
from prime_ext.context.server_side import edits
from prime_ext.context.summary import REBUILD, instruction, why_no_summary
from prime_ext.context.tokens import context_tokens
from prime_ext.context.unverified import flagged, source_texts, unverified, without_flags
from prime_ext.models.model import Model, ModelError, ModelRequest, Reply, Retry
from prime_ext.session.records import Block

TOKENS_PER_WORD = 2
"""Average for a summary, including names, numbers and code."""

TOLERANCE = 1.25
"""Factor by which a summary may exceed the requested length."""

MOST_INSTRUCTIONS = 16_384
"""Maximum characters of the instructions for a compaction by the model's server."""


@dataclass(frozen=True)
class Summary:
    """Result of a summary request. ``text`` is empty if the reply was not a summary."""

    text: str
    usage: dict[str, Any]
    cost_usd: float | None = None
    reason: str | None = None
    """Why the reply was not a summary."""
    block: Block | None = None
    """Signed block, if the model's server made the summary. ``text`` is then the text of the block
    with the list of its unverified values."""

    def followed_by(self, other: Summary) -> Summary:
        """Return ``other`` with the usage and cost of both."""
        usage = {
            key: self.usage.get(key, 0) + other.usage.get(key, 0)
            for key in {*self.usage, *other.usage}
            if isinstance(other.usage.get(key, self.usage.get(key)), int)
        }
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return replace(other, usage=usage, cost_usd=sum(costs) if costs else None)

    @property
    def sent_tokens(self) -> int:
        """Tokens of the request, including those read from the cache."""
        return context_tokens(self.usage) or 0


@dataclass(frozen=True)
class Room:
    """Maximum lengths of a reply and a summary, in tokens."""

    max_output: int
    """Maximum output of the request, the same as in all requests of the conversation. A smaller
    value would also change the thinking budget, and the cache would then not serve the request."""
    summary: int
    """Maximum length of the summary."""
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
    """Have the model summarise ``messages``, in one request.

    The request repeats the conversation, including system prompt and tools, and ends with the
    instruction, so that everything sent before is read from the cache.

    Parameters
    ----------
    instructions:
        The user's wishes for the summary.
    extraction:
        Extraction from the raw records, if the summary is to be corrected by it.
    on_retry:
        Called before the request is sent again.
    whole:
        Original messages, if ``messages`` is a reduced form of them. The summary is checked against
        these, since the reduced form may lack the list of unverified values of an earlier summary.

    Raises
    ------
    ModelError
        If the model's server refuses the request or cannot be reached.
    """
    wire = [message.wire for message in finished(messages)]
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
    """Have the model's server summarise ``messages`` and sign the result as a block.

    If the server refuses, or its summary is missing or too long, ``summarise`` is used instead,
    which takes a second request. Parameters and exceptions are those of ``summarise``.
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
    """Send ``request``; return the reply and its cost in US dollars, if known."""
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
    """Return all texts that the summary can have been made from."""
    read = source_texts(message.content for message in messages)
    return [instructions or "", extraction, str(projection.system), str(projection.tools), *read]


def _within(text: str, room: Room) -> str:
    """Return ``text``, with its sections shortened if it is too long for a summary."""
    tokens = room.count(text)
    if tokens <= room.summary * TOLERANCE:
        return text
    return condensed(text, len(text) * room.summary // tokens)


async def _checked(text: str, sources: Sequence[str]) -> str:
    """Return ``text`` with a list of the values in it that occur in none of ``sources``."""

    def check() -> str:
        body = without_flags(text)
        return flagged(body, unverified(body, sources))

    return await asyncio.to_thread(check)
