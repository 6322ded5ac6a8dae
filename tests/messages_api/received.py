"""One request as it arrived, kept for assertions."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.messages_api.prompt import Position


def canonical(value: object) -> bytes:
    """JSON bytes of ``value`` in its own order, without cache marks."""
    return json.dumps(
        _unmarked(value), ensure_ascii=False, separators=(",", ":"), sort_keys=False
    ).encode("utf-8", "surrogatepass")


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        # A tool's input may have a key of that name; a cache mark stands on a block.
        marked = "type" in value or "input_schema" in value
        return {
            key: item if key in ("input", "input_schema") else _unmarked(item)
            for key, item in value.items()
            if not (marked and key == "cache_control")
        }
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value


@dataclass
class Received:
    """A request, and what became of it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    """Parsed JSON, ``{}`` if there was none."""
    at: float
    """On the API's clock, in seconds."""
    status: int | None = None
    error: str | None = None
    """Message of the error it was answered with."""
    usage: dict[str, Any] = field(default_factory=dict)
    reply: list[dict[str, Any]] = field(default_factory=list)
    """Content blocks that were sent back."""
    positions: list[Position] = field(default_factory=list)
    """The prompt as the model read it, block by block; empty if it was refused."""
    first_token_s: float | None = None
    duration_s: float | None = None
    closed: threading.Event = field(default_factory=threading.Event)
    """Set when the client went away before the reply was whole."""
    done: threading.Event = field(default_factory=threading.Event)
    """Set when the request is over, in whatever way."""

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body.get("messages", [])
        return messages

    @property
    def system_bytes(self) -> bytes:
        return canonical(self.body.get("system", []))

    @property
    def tools_bytes(self) -> bytes:
        return canonical(self.body.get("tools", []))

    @property
    def messages_bytes(self) -> list[bytes]:
        """Each message by itself."""
        return [canonical(message) for message in self.messages]

    def begins_with(self, earlier: Received) -> bool:
        """Whether this request starts byte for byte with ``earlier``, cache marks aside."""
        count = len(earlier.messages)
        return (
            self.system_bytes == earlier.system_bytes
            and self.tools_bytes == earlier.tools_bytes
            and self.messages_bytes[:count] == earlier.messages_bytes
        )

    @property
    def tool_names(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", [])]

    @property
    def user_text(self) -> str:
        """Text of the last user message that is more than tool results."""
        for message in reversed(self.messages):
            if message["role"] == "user":
                text = _text(message["content"])
                if text:
                    return text
        return ""

    @property
    def tool_results(self) -> list[dict[str, Any]]:
        """The results that the last message carries."""
        if not self.messages or isinstance(self.messages[-1]["content"], str):
            return []
        return [b for b in self.messages[-1]["content"] if b["type"] == "tool_result"]

    @property
    def tool_result_text(self) -> str:
        return "\n".join(_text(result.get("content", "")) for result in self.tool_results)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Every ``tool_use`` since the last thing the user typed, in order."""
        calls: list[dict[str, Any]] = []
        for message in self.messages:
            content = message["content"]
            if message["role"] == "user" and _text(content):
                calls.clear()
            elif message["role"] == "assistant" and not isinstance(content, str):
                calls += [block for block in content if block["type"] == "tool_use"]
        return calls


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
