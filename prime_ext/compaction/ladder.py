"""A summary that is always made: where the server refuses the whole, of less and less of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from prime_ext.compaction.strategy import Strategy
from prime_ext.compaction.summarise import Room, Summary, summarise
from prime_ext.context.limits import Limits
from prime_ext.context.projection import ProjectedMessage, Projection
from prime_ext.context.reduce import fitting, transcript, without_media
from prime_ext.models.model import ContextOverflow, Model, ModelError, Retry

STEP_DOWN = ("context_overflow", "request_too_large", "bad_request")
"""Failures that less content may cure; behind any other the next request would fail as well."""

DIGEST_CHARS = 8_000
"""Of the extraction that stands for messages which did not fit."""

SAFETY = 0.8
"""Share of the room that is used: sizes are estimates, and they have just been wrong."""

CHARS_PER_TOKEN = 2
"""Of a transcript, on the safe side."""


@dataclass(frozen=True)
class Sizes:
    """In tokens."""

    overhead: int
    messages: Sequence[int]

    @property
    def total(self) -> int:
        return self.overhead + sum(self.messages)


async def summarise_somehow(
    projection: Projection,
    prefix: Sequence[ProjectedMessage],
    sizes: Sizes,
    model: Model,
    limits: Limits,
    count: Callable[[str], int],
    *,
    first: Strategy,
    instructions: str | None,
    extraction: str = "",
    on_retry: Callable[[Retry], None],
    on_overflow: Callable[[ContextOverflow], None],
    log: logging.Logger,
) -> Summary:
    """Have ``prefix`` summarised, in at most four requests.

    The first is the conversation's own, which the prompt cache serves. Where the server refuses
    it as too long or faulty: without images, then only what fits behind an extraction of the rest,
    then as one shortened text. The last is also tried where the model answers with anything but
    a summary; what it answers in the end may be none.

    Parameters
    ----------
    sizes:
        Of system prompt and tools, and of each message of ``prefix``.
    count:
        Counts the tokens of a text.
    first:
        How the first is asked for. By a server it may take two requests; one step is left out.
    on_overflow:
        Told what the server said of its window.

    Raises
    ------
    ModelError
        The last refusal, or the first failure that no smaller request can cure.
    """
    budget = limits.summary_tokens(sizes.overhead)
    window = limits.window - budget
    sent: list[ProjectedMessage] | None = None
    failure: ModelError | None = None
    answered: Summary | None = None
    scale = 1.0

    async def reduced(step: str) -> list[ProjectedMessage]:
        room = int((window * SAFETY - sizes.overhead) / scale)
        if step == "whole":
            return list(prefix)
        bare = without_media(prefix)
        if step == "no_media":
            return bare
        if step == "fit":
            return await asyncio.to_thread(
                fitting, bare, sizes.messages, max(room, 0), digest_chars=DIGEST_CHARS
            )
        text = await asyncio.to_thread(transcript, bare, max(2_000, room * CHARS_PER_TOKEN // 2))
        last = prefix[-1]
        return [
            ProjectedMessage(
                "user", [{"type": "text", "text": text}], last.first_seq, last.last_seq
            )
        ]

    steps = (
        ["whole", "fit", "lossy"] if first.makes_blocks else ["whole", "no_media", "fit", "lossy"]
    )
    while steps:
        step = steps.pop(0)
        messages = await reduced(step)
        if messages == sent:
            continue
        sent = messages
        try:
            ask = first.summarise if step == "whole" else partial(summarise, whole=prefix)
            summary = await ask(
                projection,
                messages,
                model,
                Room(limits.max_output, budget, count),
                instructions=instructions,
                extraction=extraction,
                on_retry=on_retry,
            )
        except ModelError as error:
            if error.code not in STEP_DOWN:
                raise
            log.info("A summary was refused (%s): %s", step, error.message)
            failure = error
            if isinstance(error, ContextOverflow):
                on_overflow(error)
                window = min(window, (error.maximum or limits.window) - budget)
                # What the server counted says how wrong the estimate was.
                scale = max(scale, (error.tokens or 0) / max(1, sizes.total))
            continue
        answered = summary if answered is None else answered.followed_by(summary)
        if answered.text:
            return answered
        log.info("A summary was not one (%s): %s", step, answered.reason)
        # A model that goes on with the work will do so again, unless there is none to go on with.
        steps = [step for step in steps if step == "lossy"]
    if answered is not None:
        return answered
    assert failure is not None
    raise failure
