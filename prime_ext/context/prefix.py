"""Proof that each request begins with the one before it, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True)
class Break:
    """Where a request differs from the beginning that the one before it gave it."""

    message: int | None
    """Index of the first message that differs; ``None`` if system prompt or tools do, or if the
    message was changed in place."""


class PrefixProof:
    """Compares what is sent with what was sent, by hash.

    What does not begin with what came before is read from no cache and paid for in full, so a
    break that no compaction explains is a fault. Cache marks are not part of what is compared.
    """

    def __init__(self) -> None:
        self._sent: Sequence[dict[str, Any]] = []
        self._head = b""
        self._digest: bytes | None = None
        self._lines = msgspec.json.Encoder()

    def check(
        self,
        system: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        messages: Sequence[dict[str, Any]],
    ) -> Break | None:
        """Compare a request with the one before, and remember it; ``None`` if it begins with it.

        All shapes are the Messages API's, without cache marks. Takes about 5 ms for 300,000
        tokens; may be called in a thread.
        """
        before, before_head, before_digest = self._sent, self._head, self._digest
        count = len(before)
        hashed = hashlib.sha256(self._lines.encode_lines([*system, *tools]))
        self._head = hashed.digest()
        hashed.update(self._lines.encode_lines(messages[:count]))
        same = before_digest is None or hashed.digest() == before_digest
        hashed.update(self._lines.encode_lines(messages[count:]))
        self._sent, self._digest = list(messages), hashed.digest()
        if same:
            return None
        return Break(None if self._head != before_head else _first_difference(before, messages))

    def reset(self) -> None:
        """The context was rewritten on purpose: the next request begins anew."""
        self._sent = []
        self._digest = None


def _first_difference(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> int | None:
    for index, message in enumerate(before):
        if index >= len(after) or after[index] != message:
            return index
    return None
