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
    """Index of the first message that differs; ``None`` if system prompt or tools do."""


class PrefixProof:
    """Compares what is sent with what was sent, by hash.

    What does not begin with what came before is read from no cache and paid for in full, so a
    break that no compaction explains is a fault. Cache marks are not part of what is compared.
    """

    def __init__(self) -> None:
        self._head: bytes | None = None
        self._messages: list[bytes] = []

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
        head = _digest([system, tools])
        digests = [_digest(message) for message in messages]
        before_head, before = self._head, self._messages
        self._head, self._messages = head, digests
        if before_head is None:
            return None
        if head != before_head:
            return Break(None)
        for index, digest in enumerate(before):
            if index >= len(digests) or digests[index] != digest:
                return Break(index)
        return None

    def reset(self) -> None:
        """The context was rewritten on purpose: the next request begins anew."""
        self._head = None
        self._messages = []


def _digest(value: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(value)).digest()
