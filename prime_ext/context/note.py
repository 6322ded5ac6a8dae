"""A note: a summary of a prefix of the context, made ahead of time, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import is_
from typing import Any

import msgspec

from prime_ext.context.projection import ProjectedMessage, Projection, without_thinking
from prime_ext.context.summary import CLOSE, OPEN
from prime_ext.session.records import Block

PROMPT_VERSION = 2
"""Version of the summary instruction, incremented with every change. Part of the fingerprint."""

CACHE_SECONDS = 280.0
"""Lifetime of a prompt cache entry (five minutes) minus the time a request may take to start."""


@dataclass(frozen=True)
class Note:
    """A summary of every message up to and including record ``through_seq``."""

    text: str
    through_seq: int
    fingerprint: str
    waited_tokens: int = 0
    """Tokens of the request for the note, if anyone waited for it; otherwise 0."""
    block: Block | None = None
    """Compaction block, if the model's server made and signed the note."""
    made_of: Projection | None = field(default=None, repr=False, compare=False)
    """The prefix that the fingerprint was computed from; ``None`` if the note was read from the
    log."""


def prefix_length(messages: Sequence[ProjectedMessage], tokens: Sequence[int], share: float) -> int:
    """Return how many of the oldest messages a note covers, about ``share`` of all tokens.

    Among the prefixes that are the whole content of an earlier request and are still in the prompt
    cache, the one nearest to ``share`` is chosen. (Cache entries are written at the end of each
    request and live for five minutes.) 0 if no request was sent yet.
    """
    ends = _request_ends(messages)
    live = [end for end in ends if _is_cached(messages[end], messages[ends[-1]])]
    before = list(accumulate(tokens, initial=0))
    budget = share * before[-1]
    return min(live, key=lambda end: abs(before[end] - budget), default=0)


def rolled_length(messages: Sequence[ProjectedMessage], tokens: Sequence[int], leave: int) -> int:
    """Return how many of the oldest messages a rolled note covers.

    That is the shortest prefix sent by a request that leaves at most ``leave`` tokens after it, or
    the longest one sent if none does.
    """
    ends = _request_ends(messages)
    before = list(accumulate(tokens, initial=0))
    enough = (end for end in ends if before[-1] - before[end] <= leave)
    return next(enough, ends[-1] if ends else 0)


def _request_ends(messages: Sequence[ProjectedMessage]) -> list[int]:
    """Return the lengths of the prefixes that requests have sent, each up to its reply."""
    return [index for index, message in enumerate(messages) if index and _is_reply(message)]


def _is_reply(message: ProjectedMessage) -> bool:
    return message.role == "assistant"


def _is_cached(reply: ProjectedMessage, newest: ProjectedMessage) -> bool:
    """Return whether the cache entry of the request for ``reply`` still exists after ``newest``."""
    if reply.sent_at is None or newest.sent_at is None:
        return True
    return newest.sent_at - reply.sent_at + newest.seconds < CACHE_SECONDS


def split(messages: Sequence[ProjectedMessage], note: Note) -> int:
    """Return the index of the first message that the note does not cover.

    Sequence numbers may go back once: results of calls that were open at a compaction come before
    what the compaction itself adds.
    """
    covered = (n for n, message in enumerate(messages, 1) if message.last_seq <= note.through_seq)
    return max(covered, default=0)


def as_message(note: Note) -> ProjectedMessage:
    """Return the note as a message that replaces the messages it covers."""
    if note.block is not None:
        return ProjectedMessage("assistant", [note.block], 0, note.through_seq)
    text = f"{OPEN}\n{note.text}\n{CLOSE}"
    return ProjectedMessage("user", [{"type": "text", "text": text}], 0, note.through_seq)


def behind(note: Note, messages: Sequence[ProjectedMessage]) -> list[ProjectedMessage]:
    """Return the note as a message, followed by ``messages`` without invalid thinking."""
    if note.block is not None:  # To the server, a block is equivalent to the original messages.
        return [as_message(note), *messages]
    return [as_message(note), *bare(messages)]


def bare(messages: Iterable[ProjectedMessage]) -> list[ProjectedMessage]:
    """Return the messages without thinking, so that they can follow any other messages."""
    without = (
        replace(message, content=without_thinking(message.content))
        if message.has_thinking
        else message
        for message in messages
    )
    return [message for message in without if message.content]


def fingerprint(projection: Projection, length: int) -> str:
    """Return the fingerprint of a note on the first ``length`` messages: a SHA-256 in hex.

    It changes with those messages, the model, the system prompt, the tools and the
    summary instruction, but not with later messages.
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
    """Return the projection with only its first ``length`` messages."""
    return replace(projection, messages=projection.messages[:length])


def holds(note: Note, projection: Projection) -> bool:
    """Return whether the note's fingerprint still matches the prefix of the context.

    Takes about 10 ms for 300,000 tokens.
    """
    length = split(projection.messages, note)
    return length > 0 and fingerprint(projection, length) == note.fingerprint


def is_made_of(note: Note, projection: Projection) -> bool:
    """Return whether the context begins with the same objects that the fingerprint was made from.

    If so, the note holds without computing the fingerprint again, because messages are never
    changed in place (``PrefixProof`` checks this at each request). If not, the note may still hold.
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
