"""Thinking blocks: signed when sent, checked when they come back."""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

from tests.messages_api.catalogue import ModelSpec
from tests.messages_api.conversation import BINDING_BETA, drops_unbound, thinking_type
from tests.messages_api.errors import refuse
from tests.messages_api.prompt import block_bytes

DIGEST_BYTES = 32
THINKING = ("thinking", "redacted_thinking")


class Prefix:
    """Running digest of everything in front of a block, role by role, marks aside."""

    def __init__(self, system: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        self._digest = hashlib.sha256()
        for tool in tools:
            self.add("tools", tool)
        for block in system:
            self.add("system", block)

    def add(self, role: str, block: dict[str, Any]) -> None:
        data = block_bytes(block)
        self._digest.update(f"{role}:{len(data)}:".encode())
        self._digest.update(data)

    def digest(self) -> bytes:
        return self._digest.digest()

    def copy(self) -> Prefix:
        made = copy.copy(self)
        made._digest = self._digest.copy()
        return made


@dataclass(frozen=True)
class Compacted:
    """What a block was made of."""

    content: str
    head: bytes
    """Digest of system prompt and tools."""
    prefix: Prefix | None
    """Of everything that the block stands for; ``None`` where the model binds no thinking."""
    last_role: str


class Signer:
    """Signs thinking with a key of its own, and remembers which blocks were sent together."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(DIGEST_BYTES)
        self._siblings: dict[str, list[str]] = {}
        self._compacted: dict[str, Compacted] = {}

    def sign(self, text: str, prefix: bytes, model: str) -> str:
        return base64.b64encode(prefix + self._mac(text, prefix, model)).decode()

    def compacted(
        self,
        content: str,
        system: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        messages: list[dict[str, Any]],
        spec: ModelSpec,
    ) -> str:
        """The signature of a block that stands for ``messages``."""
        prefix = self.prefix(system, tools, messages)
        made = Compacted(
            content,
            Prefix(system, tools).digest(),
            prefix if spec.preserved_thinking else None,
            messages[-1]["role"],
        )
        signature = self.sign(content, prefix.digest(), spec.id)
        self._compacted[signature] = made
        return signature

    def check_block(self, messages: list[dict[str, Any]]) -> None:
        """The block is one that was made here, as it was made."""
        block = messages[0]["content"][0]
        if block["type"] != "compaction":
            return
        made = self._compacted.get(block["signature"])
        where = "messages.0.content.0"
        if made is None:
            raise refuse(where, "invalid signature", code="compaction_signature_invalid")
        if made.content != block["content"]:
            raise refuse(where, "content was changed", code="compaction_content_mismatch")

    def prefix(
        self,
        system: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        messages: list[dict[str, Any]],
    ) -> Prefix:
        """Of a whole request."""
        prefix = self.beginning(system, tools, messages)
        for message in messages:
            for block in message["content"]:
                if block["type"] != "compaction":
                    prefix.add(message["role"], block)
        return prefix

    def beginning(
        self,
        system: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        messages: list[dict[str, Any]],
    ) -> Prefix:
        """Of what stands in front of the messages, or of what a block stands for.

        Thinking behind a block stays valid if what follows it is what followed the messages.
        """
        prefix = Prefix(system, tools)
        block = messages[0]["content"][0]
        if block["type"] != "compaction":
            return prefix
        made = self._compacted[block["signature"]]
        rest = [*messages[0]["content"][1:], *messages[1:]]
        follows = len(rest) == 0 or len(messages[0]["content"]) > 1
        if not follows:
            follows = messages[1]["role"] != made.last_role
        if made.prefix is None or made.head != prefix.digest() or not follows:
            prefix.add("assistant", block)
            return prefix
        return made.prefix.copy()

    def remember(self, content: list[dict[str, Any]]) -> None:
        """Note the thinking of a reply, to see later if only a part of it comes back."""
        signatures = [block["signature"] for block in content if block["type"] == "thinking"]
        for signature in signatures:
            self._siblings[signature] = signatures

    def _mac(self, text: str, prefix: bytes, model: str) -> bytes:
        message = model.encode() + b"\0" + prefix + text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256")

    def check(
        self,
        body: dict[str, Any],
        system: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        messages: list[dict[str, Any]],
        spec: ModelSpec,
        known_models: tuple[str, ...],
    ) -> list[dict[str, Any]]:
        """Refuse altered, partly removed or displaced thinking.

        Returns
        -------
        list
            ``messages`` without the blocks that the model cannot read: those of other models,
            and on request those whose prefix has changed.
        """
        if thinking_type(body, spec) == "enabled":
            _check_loop(messages)
        if not any(block["type"] in THINKING for m in messages for block in m["content"]):
            return messages
        prefix = self.beginning(system, tools, messages)
        kept_messages = []
        for i, message in enumerate(messages):
            kept = []
            dropped = False
            for j, block in enumerate(message["content"]):
                if block["type"] == "thinking":
                    where = f"messages.{i}.content.{j}"
                    origin = self._origin(block, known_models)
                    if origin is None:
                        raise refuse(where, "Invalid `signature` in `thinking` block")
                    bound = base64.b64decode(block["signature"])[:DIGEST_BYTES]
                    readable = origin == spec.id
                    if readable and spec.preserved_thinking and bound != prefix.digest():
                        if not drops_unbound(body):
                            raise refuse(
                                where,
                                "Invalid `signature` in `thinking` block. The block is bound to a "
                                "different conversation. Remove the block, or set "
                                "`thinking.block_binding.prefix_mismatch_behavior` to "
                                f'"drop_block". This setting requires the value `{BINDING_BETA}` '
                                "in the `anthropic-beta` header.",
                            )
                        readable = False
                    if readable:
                        kept.append(block)
                    dropped |= not readable
                elif block["type"] == "redacted_thinking":
                    raise refuse(f"messages.{i}.content.{j}", "Invalid `data` in block")
                else:
                    kept.append(block)
                if block["type"] != "compaction":
                    prefix.add(message["role"], block)
            if message["role"] == "assistant" and not dropped:
                self._check_whole(i, message)
            kept_messages.append({"role": message["role"], "content": kept})
        return kept_messages

    def _origin(self, block: dict[str, Any], known_models: tuple[str, ...]) -> str | None:
        """The model that made ``block``; ``None`` if none did, or the block was altered."""
        try:
            signature = base64.b64decode(block["signature"], validate=True)
        except (binascii.Error, ValueError):
            return None
        prefix, mac = signature[:DIGEST_BYTES], signature[DIGEST_BYTES:]
        for model in known_models:
            if hmac.compare_digest(mac, self._mac(block["thinking"], prefix, model)):
                return model
        return None

    def _check_whole(self, i: int, message: dict[str, Any]) -> None:
        signatures = [b["signature"] for b in message["content"] if b["type"] == "thinking"]
        if not signatures:
            return
        expected: list[str] = []
        for signature in signatures:
            siblings = self._siblings.get(signature, [signature])
            if expected[-len(siblings) :] != siblings:
                expected += siblings
        if signatures != expected:
            raise refuse(
                f"messages.{i}",
                "`thinking` or `redacted_thinking` blocks in an assistant message cannot be "
                "modified. These blocks must remain as they were in the original response.",
            )


def _check_loop(messages: list[dict[str, Any]]) -> None:
    """With manual thinking, a tool loop goes on only from a message that starts with thinking."""
    # Messages of one role that follow each other count as one.
    at = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    following = messages[at + 1 :]
    if at < 0 or not following or following[0]["content"][0]["type"] != "tool_result":
        return
    first = messages[at]["content"][0]["type"]
    if first not in THINKING:
        raise refuse(
            f"messages.{at}.content.0.type",
            f"Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block.",
        )
