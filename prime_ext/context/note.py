"""A note made ahead of need: a summary of a prefix of the context, and what it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import is_
from typing import Any

import msgspec

from prime_ext.context.projection import ProjectedMessage, Projection, without_thinking
from prime_ext.context.summary import CLOSE, OPEN
from prime_ext.session.records import Block

PROMPT_VERSION = 2
"""Grows with every change of the instruction that a note is made by."""

CACHE_SECONDS = 280.0
"""Life of an entry in the prompt cache, five minutes, less the time a request may take to begin."""


@dataclass(frozen=True)
class Note:
    """A summary of every message up to and including record ``through_seq``."""

    text: str
    through_seq: int
    fingerprint: str
    waited_tokens: int = 0
    """Tokens of the request for it, if anyone waited for that."""
    block: Block | None = None
    """The note as the model's server made and signed it, if it did."""
    made_of: Projection | None = field(default=None, repr=False, compare=False)
    """What its fingerprint was taken of, no more; ``None`` if that comes from the log."""


def prefix_length(messages: Sequence[ProjectedMessage], tokens: Sequence[int], share: float) -> int:
    """How many of the oldest messages a note covers: about ``share`` of the tokens.

    The prefix is one that a request has sent as a whole, and that the prompt cache still holds:
    entries are written at the ends of requests and live for five minutes. Of those it is the one
    that comes nearest to ``share``; 0 if nothing was sent yet.
    """
    ends = _request_ends(messages)
    live = [end for end in ends if _is_cached(messages[end], messages[ends[-1]])]
    before = list(accumulate(tokens, initial=0))
    budget = share * before[-1]
    return min(live, key=lambda end: abs(before[end] - budget), default=0)


def rolled_length(messages: Sequence[ProjectedMessage], tokens: Sequence[int], leave: int) -> int:
    """How many of the oldest messages a note that is rolled forward covers.

    As few as leave at most ``leave`` tokens verbatim behind them; failing that, all that was sent.
    """
    ends = _request_ends(messages)
    before = list(accumulate(tokens, initial=0))
    enough = (end for end in ends if before[-1] - before[end] <= leave)
    return next(enough, ends[-1] if ends else 0)


def _request_ends(messages: Sequence[ProjectedMessage]) -> list[int]:
    """Lengths of the prefixes that requests have sent: each ends where its reply begins."""
    return [index for index, message in enumerate(messages) if index and _is_reply(message)]


def _is_reply(message: ProjectedMessage) -> bool:
    return message.role == "assistant"


def _is_cached(reply: ProjectedMessage, newest: ProjectedMessage) -> bool:
    """Whether the entry that the request of ``reply`` wrote is still there after ``newest``."""
    if reply is newest or reply.sent_at is None or newest.sent_at is None:
        return True
    return newest.sent_at - reply.sent_at + newest.seconds < CACHE_SECONDS


def split(messages: Sequence[ProjectedMessage], note: Note) -> int:
    """Index of the first message that the note does not cover."""
    return sum(1 for message in messages if message.last_seq <= note.through_seq)


def as_message(note: Note) -> ProjectedMessage:
    """The note as the message that stands for what it covers."""
    if note.block is not None:
        return ProjectedMessage("assistant", [note.block], 0, note.through_seq)
    text = f"{OPEN}\n{note.text}\n{CLOSE}"
    return ProjectedMessage("user", [{"type": "text", "text": text}], 0, note.through_seq)


def behind(note: Note, messages: Sequence[ProjectedMessage]) -> list[ProjectedMessage]:
    """The note, and ``messages`` as they can follow on it."""
    if note.block is not None:  # for the server, it is the very messages that it stands for
        return [as_message(note), *messages]
    return [as_message(note), *map(bare, messages)]


def bare(message: ProjectedMessage) -> ProjectedMessage:
    """A message without thinking, to stand behind another beginning than it was written behind."""
    return replace(message, content=without_thinking(message.content))


def fingerprint(projection: Projection, length: int) -> str:
    """SHA-256 of all that a note on the first ``length`` messages depends on.

    Any change of those messages, of model, system prompt or tools, or of the instruction makes
    another fingerprint; what is appended behind them does not.
    """
    digest = hashlib.sha256()
    for part in (
        [PROMPT_VERSION, projection.provider, projection.model],
        projection.system,
        projection.tools,
        [message.wire for message in projection.messages[:length]],
    ):
        digest.update(_canonical(part))
        digest.update(b"\0")
    return digest.hexdigest()


def prefix(projection: Projection, length: int) -> Projection:
    """What a note on the first ``length`` messages is made of."""
    return replace(projection, messages=projection.messages[:length])


def holds(note: Note, projection: Projection) -> bool:
    """Whether the note still says what the context's prefix says, by its fingerprint.

    Takes about 10 ms for 300,000 tokens.
    """
    length = split(projection.messages, note)
    return length > 0 and fingerprint(projection, length) == note.fingerprint


def is_made_of(note: Note, projection: Projection) -> bool:
    """Whether the context begins with the very objects that the fingerprint was taken of.

    Nothing changes them in place, which is proven at each request; so the note holds without
    another look at what they say. ``False`` says nothing.
    """
    made_of = note.made_of
    if made_of is None or len(made_of.messages) > len(projection.messages):
        return False
    head = (made_of.provider, made_of.model, made_of.system, made_of.tools)
    return (
        head == (projection.provider, projection.model, projection.system, projection.tools)
        and len(made_of.messages) > 0
        and all(map(is_, made_of.messages, projection.messages))
    )


_encoder = msgspec.json.Encoder(order="sorted")


def _canonical(value: Any) -> bytes:
    return _encoder.encode(value)
