"""The prompt cache by its documented rules, and the diagnosis of its misses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tests.messages_api.catalogue import ModelSpec
from tests.messages_api.conversation import thinking_type
from tests.messages_api.prompt import Position

LOOK_BACK = 20
TTL_SECONDS = {"5m": 300.0, "1h": 3_600.0}


@dataclass
class Entry:
    ttl: str
    expires: float
    readable_from: float


@dataclass(frozen=True)
class Lookup:
    """What a request finds in the cache and will write to it."""

    usage: dict[str, Any]
    """Input figures, as reported with the reply."""
    uncached_tokens: int
    total_tokens: int
    touched: tuple[str, ...]
    """Entries it uses: they live on from its start."""
    written: tuple[tuple[str, str], ...]
    """Keys and time to live of the entries it makes."""


class PromptCache:
    """Entries by the hash of the whole prefix; written only at marks, found up to 20 back."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def look_up(
        self, positions: Sequence[Position], salt: str, spec: ModelSpec, now: float
    ) -> Lookup:
        """Match ``positions`` against the entries that are readable at ``now``.

        ``salt`` stands for what invalidates the messages but neither tools nor system prompt.
        """
        keys = _chain(positions, salt, spec)
        sizes = list(accumulate(position.tokens for position in positions))
        total = sizes[-1] if sizes else 0
        marks = [
            i
            for i, position in enumerate(positions)
            if position.mark is not None and sizes[i] >= spec.min_cache_tokens
        ]
        best = -1
        for mark in marks:
            best = max(best, self._reach(positions, keys, sizes, mark, spec, now))
        read = sizes[best] if best >= 0 else 0
        written: list[tuple[str, str]] = []
        created = {"5m": 0, "1h": 0}
        behind = read
        for mark in marks:
            ttl = (positions[mark].mark or {}).get("ttl", "5m")
            if mark > best:
                created[ttl] += sizes[mark] - behind
                behind = sizes[mark]
            if mark > best or not self._alive(keys[mark], now):
                written.append((keys[mark], ttl))
        touched = {keys[mark] for mark in marks if mark <= best} | (
            {keys[best]} if best >= 0 else set()
        )
        creation = created["5m"] + created["1h"]
        return Lookup(
            {
                "input_tokens": total - read - creation,
                "cache_creation_input_tokens": creation,
                "cache_read_input_tokens": read,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": created["5m"],
                    "ephemeral_1h_input_tokens": created["1h"],
                },
            },
            total - read,
            total,
            tuple(touched),
            tuple(written),
        )

    def commit(self, lookup: Lookup, started: float, begun: float) -> None:
        """Store what ``lookup`` writes: alive from the request's start, readable from its reply."""
        for key in lookup.touched:
            entry = self._entries.get(key)
            if entry is not None:
                entry.expires = started + TTL_SECONDS[entry.ttl]
        for key, ttl in lookup.written:
            self._entries[key] = Entry(ttl, started + TTL_SECONDS[ttl], begun)

    def clear(self) -> None:
        self._entries.clear()

    def _alive(self, key: str, now: float) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.readable_from <= now < entry.expires

    def _reach(
        self,
        positions: Sequence[Position],
        keys: Sequence[str],
        sizes: Sequence[int],
        mark: int,
        spec: ModelSpec,
        now: float,
    ) -> int:
        """The longest prefix found from ``mark`` backwards; -1 if there is none."""
        looked_at = 1
        for i in range(mark, -1, -1):
            if sizes[i] >= spec.min_cache_tokens and self._alive(keys[i], now):
                return i
            if not positions[i].in_run:
                looked_at += 1
            if looked_at > LOOK_BACK:
                break
        return -1


def _chain(positions: Sequence[Position], salt: str, spec: ModelSpec) -> list[str]:
    digest = hashlib.sha256(spec.id.encode())
    section = ""
    keys = []
    for position in positions:
        if position.section != section:
            section = position.section
            digest.update(f"\0{section}\0".encode())
            if section == "messages":
                digest.update(salt.encode())
        digest.update(len(position.data).to_bytes(8, "big"))
        digest.update(position.data)
        keys.append(digest.hexdigest())
    return keys


def messages_salt(body: dict[str, Any], spec: ModelSpec, *, has_images: bool) -> str:
    """What changes the reading of the messages: tool choice, images, thinking, effort."""
    output = body.get("output_config") or {}
    return json.dumps(
        [
            body.get("tool_choice") or {"type": "auto"},
            has_images,
            thinking_type(body, spec),
            (body.get("thinking") or {}).get("budget_tokens"),
            output.get("effort"),
        ]
    )


@dataclass
class Fingerprint:
    """What is remembered of a request that asked for diagnostics."""

    model: str
    system: str
    tools: str
    messages: list[str]
    rest: str
    sizes: list[int] = field(default_factory=list)


class Diagnosis:
    """Why a request could not reuse the prefix of an earlier one."""

    def __init__(self) -> None:
        self._fingerprints: dict[str, Fingerprint] = {}

    def remember(self, message_id: str, fingerprint: Fingerprint) -> None:
        self._fingerprints[message_id] = fingerprint

    def compare(self, previous_id: str | None, now: Fingerprint) -> dict[str, Any] | None:
        """The reply's ``diagnostics``; ``None`` where nothing diverged."""
        if previous_id is None:
            return None
        before = self._fingerprints.get(previous_id)
        if before is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        lost = sum(before.sizes)
        for reason, same in (
            ("model_changed", before.model == now.model),
            ("tools_changed", before.tools == now.tools),
            ("system_changed", before.system == now.system),
            ("messages_changed", before.messages == now.messages[: len(before.messages)]),
        ):
            if not same:
                return {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": lost}}
        if before.rest != now.rest:
            return {"cache_miss_reason": {"type": "unavailable"}}
        return None


def fingerprint(positions: Sequence[Position], salt: str, spec: ModelSpec) -> Fingerprint:
    def digest(section: str) -> list[str]:
        return [
            hashlib.sha256(position.data).hexdigest()
            for position in positions
            if position.section == section
        ]

    return Fingerprint(
        model=spec.id,
        system="".join(digest("system")),
        tools="".join(digest("tools")),
        messages=digest("messages"),
        rest=salt,
        sizes=[position.tokens for position in positions],
    )
