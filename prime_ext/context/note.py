"""A note made ahead of need: a summary of a prefix of the context, and what it was made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_ext.context.projection import ProjectedMessage, Projection, without_thinking
from prime_ext.context.summary import CLOSE, OPEN

PROMPT_VERSION = 2
"""Grows with every change of the instruction that a note is made by."""


@dataclass(frozen=True)
class Note:
    """A summary of every message up to and including record ``through_seq``."""

    text: str
    through_seq: int
    fingerprint: str


def prefix_length(messages: Sequence[ProjectedMessage], tokens: Sequence[int], share: float) -> int:
    """How many of the oldest messages a note covers: at most ``share`` of the tokens.

    The cut never falls between a call and its result. What the model has not seen yet, the
    messages behind its last reply, is left out: the prefix then is one that an earlier request
    has sent, and the prompt cache serves it.
    """
    budget = share * sum(tokens)
    covered = 0
    length = 0
    for end in _ends(messages):
        covered += sum(tokens[length:end])
        if covered > budget:
            break
        length = end
    return length


def rolled_length(messages: Sequence[ProjectedMessage], tokens: Sequence[int], leave: int) -> int:
    """How many of the oldest messages a note that is rolled forward covers.

    As few as leave at most ``leave`` tokens behind them verbatim, under the same rules.
    """
    behind = sum(tokens)
    length = 0
    for end in _ends(messages):
        behind -= sum(tokens[length:end])
        length = end
        if behind <= leave:
            break
    return length


def _ends(messages: Sequence[ProjectedMessage]) -> Iterator[int]:
    """Lengths that a prefix can have."""
    seen = max((i + 1 for i, m in enumerate(messages) if m.role == "assistant"), default=0)
    for end in range(1, seen + 1):
        if end == len(messages) or not messages[end].is_answer:
            yield end


def split(messages: Sequence[ProjectedMessage], note: Note) -> int:
    """Index of the first message that the note does not cover."""
    return sum(1 for message in messages if message.last_seq <= note.through_seq)


def as_message(note: Note) -> ProjectedMessage:
    """The note as the message that stands for what it covers."""
    text = f"{OPEN}\n{note.text}\n{CLOSE}"
    return ProjectedMessage("user", [{"type": "text", "text": text}], 0, note.through_seq)


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
        [message.wire() for message in projection.messages[:length]],
    ):
        digest.update(_canonical(part))
        digest.update(b"\0")
    return digest.hexdigest()


def holds(note: Note, projection: Projection) -> bool:
    """Whether the note still says what the context's prefix says."""
    length = split(projection.messages, note)
    return length > 0 and fingerprint(projection, length) == note.fingerprint


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
