"""What the test API answers: replies made of parts, failures, and faults of the stream."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.messages_api.received import Received


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thinking:
    """Sent with a signature that the API checks when the block comes back."""

    thinking: str


@dataclass(frozen=True)
class ToolCall:
    name: str
    input: dict[str, Any]
    id: str | None = None
    """Given by the API if left out."""
    raw_json: str | None = None
    """Streamed instead of ``input``, e.g. JSON that breaks off."""


@dataclass(frozen=True)
class Search:
    """A call of a tool that the API itself runs.

    Its result is a ``Found``, perhaps in a later reply that goes on where this one was paused.
    """

    query: str
    id: str


@dataclass(frozen=True)
class Found:
    """The result of the search with this id."""

    id: str
    titles: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """Something that happens to the stream after ``after`` events.

    ``cut`` closes the connection; ``stall`` sends nothing more until the client leaves; ``pause``
    waits for ``MessagesAPI.resume()``; ``malformed`` sends an event that is no JSON; ``error``
    sends an ``error`` event of type ``error_type``.
    """

    kind: Literal["cut", "stall", "pause", "malformed", "error"]
    after: int = 3
    error_type: str = "overloaded_error"


@dataclass(frozen=True)
class Latency:
    """How long a reply takes, in seconds and tokens a second. All zero: no time at all."""

    first_token_s: float = 0.0
    input_tokens_per_s: float = 0.0
    """Speed of reading what no cache held; 0: instantly."""
    tokens_per_s: float = 0.0
    """Speed of writing; 0: instantly."""

    def before_first(self, uncached_tokens: int) -> float:
        reading = uncached_tokens / self.input_tokens_per_s if self.input_tokens_per_s else 0.0
        return self.first_token_s + reading

    def of_output(self, tokens: int) -> float:
        return tokens / self.tokens_per_s if self.tokens_per_s else 0.0


Part = Text | Thinking | ToolCall | Search | Found


@dataclass(frozen=True)
class Reply:
    parts: tuple[Part, ...] = ()
    stop_reason: str | None = None
    """``tool_use`` if a part calls a tool, else ``end_turn``, unless a limit is hit."""
    fault: Fault | None = None
    latency: Latency | None = None
    """Instead of the API's own."""


@dataclass(frozen=True)
class Failure:
    """An error response instead of a stream."""

    status: int
    message: str = "Scripted failure"
    kind: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


Answer = Reply | Failure
Responder = Callable[["Received"], Answer]


def reply(*parts: Part | str, stop_reason: str | None = None, fault: Fault | None = None) -> Reply:
    """A reply of ``parts``; a string is a text part."""
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return Reply(made, stop_reason, fault)


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def rate_limited(retry_after: float | None = None) -> Failure:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Failure(429, "Number of requests has exceeded your rate limit.", headers=headers)


def overloaded() -> Failure:
    return Failure(529, "Overloaded")


def server_error() -> Failure:
    return Failure(500, "Internal server error")


def too_long(tokens: int, maximum: int) -> Failure:
    return Failure(400, f"prompt is too long: {tokens} tokens > {maximum} maximum")


def load(path: Path) -> Responder:
    """A responder from a file.

    A ``.py`` file defines ``respond(request)``. A ``.json`` file holds a list of rules
    ``{"when": {"text": regex?, "tool_result": regex?, "model": regex?}, "reply": [part, …]}`` or
    ``{…, "error": status, "message": …, "headers": …}``; the first whose conditions all hold
    answers. ``text`` is searched in what the user typed last, ``tool_result`` in the results that
    the request ends with. A part is ``{"text": …}``, ``{"thinking": …}`` or
    ``{"tool": name, "input": {…}}``.
    """
    if path.suffix == ".json":
        return _Rules(json.loads(path.read_text("utf-8")))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is neither Python nor JSON")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    responder: Responder = module.respond
    return responder


class _Rules:
    def __init__(self, rules: list[dict[str, Any]]) -> None:
        self._rules = rules

    def __call__(self, request: Received) -> Answer:
        for rule in self._rules:
            if self._holds(rule.get("when", {}), request):
                return _answer(rule)
        return Failure(400, "No rule of the script matches this request.")

    @staticmethod
    def _holds(when: dict[str, str], request: Received) -> bool:
        seen = {
            "text": request.user_text,
            "tool_result": request.tool_result_text,
            "model": request.model,
        }
        return all(re.search(pattern, seen[key], re.DOTALL) for key, pattern in when.items())


def _answer(rule: dict[str, Any]) -> Answer:
    if "error" in rule:
        return Failure(
            rule["error"], rule.get("message", "Scripted failure"), headers=rule.get("headers", {})
        )
    return reply(*(_part(part) for part in rule["reply"]))


def _part(part: dict[str, Any]) -> Part:
    if "tool" in part:
        return ToolCall(part["tool"], part.get("input", {}))
    if "thinking" in part:
        return Thinking(part["thinking"])
    return Text(part["text"])
