"""Fallbacks for a summary request that is refused: retry with less and less content."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from prime_ext.compaction.strategy import Strategy
from prime_ext.compaction.summarise import Room, Summary, summarise
from prime_ext.context.limits import Limits
from prime_ext.context.note import bare
from prime_ext.context.projection import ProjectedMessage, Projection
from prime_ext.context.reduce import fitting, transcript, without_media
from prime_ext.models.model import ContextOverflow, Model, ModelError, Retry

STEP_DOWN = ("context_overflow", "request_too_large", "bad_request")
"""Codes of errors that a smaller request may avoid. After any other error it would fail as well."""

MOST_REQUESTS = 4
"""Maximum requests for one compaction, with those for a note that was waited for."""

DIGEST_CHARS = 8_000
"""Maximum length of the extraction that replaces messages that did not fit."""

SAFETY = 0.8
"""Share of the room that is used, because the estimated sizes have just proved too low."""

CHARS_PER_TOKEN = 2
"""Cautious estimate for a transcript."""


@dataclass(frozen=True)
class Sizes:
    """Sizes in tokens."""

    overhead: int
    """Size of system prompt and tools."""
    messages: Sequence[int]
    """Size of each message."""

    @property
    def total(self) -> int:
        return self.overhead + sum(self.messages)


def steps_for(requests: int) -> list[str]:
    """Return the steps to take with at least one request, a request for each."""
    steps = ["whole", "bare", "fit", "lossy"]
    del steps[1 : 1 + max(0, len(steps) - requests)]
    return steps


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
    requests: int = MOST_REQUESTS,
    on_retry: Callable[[Retry], None],
    on_overflow: Callable[[ContextOverflow], None],
    log: logging.Logger,
) -> Summary:
    """Have the model summarise ``prefix``, in at most ``requests`` requests.

    The first request repeats the conversation, so that the prompt cache serves it. If the server
    refuses it as too long or invalid, the steps are: without images and thinking; only the newest
    messages that fit, after an extraction of the others; one shortened transcript. The last step is
    also tried if the model answers with something other than a summary.

    Parameters
    ----------
    sizes:
        Sizes of system prompt and tools, and of the messages of ``prefix``.
    count:
        Counts the tokens of a text.
    first:
        Strategy for the first step. A summary by the model's server may take two requests.
    instructions:
        The user's wishes for the summary.
    extraction:
        Extraction from the raw records, if the summary is to be corrected by it.
    requests:
        Maximum number of requests. If it is less than all steps may take, those in the middle are
        omitted.
    on_retry:
        Called before a request is sent again.
    on_overflow:
        Called if the model's server refuses a request as too long.

    Returns
    -------
    Summary
        Its ``text`` is empty if the model never answered with a summary.

    Raises
    ------
    ModelError
        The last refusal, or the first error that a smaller request cannot avoid.
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
        no_media = without_media(prefix)
        if step == "bare":
            return bare(no_media)
        if step == "fit":
            # Thinking behind what is left out here would be refused.
            return bare(
                await asyncio.to_thread(
                    fitting, no_media, sizes.messages, max(room, 0), digest_chars=DIGEST_CHARS
                )
            )
        text = await asyncio.to_thread(
            transcript, no_media, max(2_000, room * CHARS_PER_TOKEN // 2)
        )
        last = prefix[-1]
        return [
            ProjectedMessage(
                "user", [{"type": "text", "text": text}], last.first_seq, last.last_seq
            )
        ]

    steps = steps_for(requests - first.more_requests)
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
                # Correct the estimates by the number of tokens that the server counted.
                scale = max(scale, (error.tokens or 0) / max(1, sizes.total))
            continue
        answered = summary if answered is None else answered.followed_by(summary)
        if answered.text:
            return answered
        log.info("A summary was not one (%s): %s", step, answered.reason)
        # A model that continued the work instead would do so again. In a transcript there is no
        # conversation to continue.
        steps = [step for step in steps if step == "lossy"]
    if answered is not None:
        return answered
    assert failure is not None
    raise failure
