"""A model behind the Messages API: streaming, visible retries and readable errors."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prime_ext.clean_text import well_formed
from prime_ext.models import failures, server_side
from prime_ext.models.capabilities import known_capabilities, reported_capabilities
from prime_ext.models.connection import Connection
from prime_ext.models.model import (
    Block,
    BlockStart,
    Capabilities,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    Retry,
    ServerSide,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)

if TYPE_CHECKING:
    from prime_ext.config import ModelConfig

ASK_SECONDS = 10.0
"""Timeout for asking the API about a model's capabilities."""
ASK_AGAIN_SECONDS = 60.0
"""Delay before the API is asked again after it gave no answer."""
MIN_THINKING_TOKENS = 1_024
"""The smallest budget that the API accepts."""
OPTIONAL_FIELDS = ("diagnostics", "thinking")
"""Fields that some servers do not know; omitted for good once the server has refused them."""
UNKNOWN_FIELD = re.compile(
    r"extra|unknown|unexpected|unrecogni[sz]ed|unsupported|not (?:permitted|supported|allowed)",
    re.IGNORECASE,
)


class AnthropicModel:
    """One model of one provider.

    Parameters
    ----------
    connection:
        Connection to the provider.
    model:
        Model id, as the provider spells it.
    config:
        Source of ``thinking_tokens`` and ``max_attempts``.
    sleep:
        Called with the seconds to wait between attempts.
    """

    def __init__(
        self,
        connection: Connection,
        model: str,
        config: ModelConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.provider = connection.provider
        self.id = model
        self._connection = connection
        self._config = config
        self._sleep = sleep
        self._capabilities: Capabilities | None = None
        self._capabilities_for: tuple[int, str] | None = None
        self._ask_again_at = 0.0
        self._asking = asyncio.Lock()
        self._refused_fields: set[str] = set()
        self._server_side = ServerSide()
        self._server_side_for: tuple[int, str] | None = None

    @property
    def endpoint(self) -> str | None:
        """Host that conversation content is sent to, with the port if there is one."""
        return self._connection.host

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self._connection.encrypted

    async def capabilities(self) -> Capabilities:
        """Return the capabilities that the API reports, or those known for the model id.

        The API's answer is cached until the server or key changes.
        """
        async with self._asking:
            known = self._capabilities
            if known is not None and self._capabilities_for == self._connection.identity:
                return known
            if time.monotonic() < self._ask_again_at:
                return known_capabilities(self.id)
            asked_for = self._connection.identity
            info = await self._ask()
            if info is None:
                self._ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS
                return known_capabilities(self.id)
            self._capabilities = reported_capabilities(self.id, info)
            self._capabilities_for = asked_for
            return self._capabilities

    async def server_side(self) -> ServerSide:
        """Return what the API reports about context management, or nothing if it cannot be asked.

        The API's answer is cached until the server or key changes.
        """
        async with self._asking:
            asked_for = self._connection.identity
            if self._server_side_for != asked_for:
                if time.monotonic() < self._ask_again_at:
                    return ServerSide()
                info = await self._ask(beta=True)
                if info is None:
                    self._ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS
                    return ServerSide()
                self._server_side, self._server_side_for = server_side.offered(info), asked_for
            return self._server_side

    async def _ask(self, *, beta: bool = False) -> Any:
        if self.provider != "anthropic":
            # Only Anthropic's own API has the Models API.
            return None
        try:
            client = await self._connection.client()
            if beta:
                return await client.beta.models.retrieve(
                    self.id, betas=[server_side.COMPACTION_BETA], timeout=ASK_SECONDS
                )
            return await client.models.retrieve(self.id, timeout=ASK_SECONDS)
        except ModelError:
            return None
        except Exception as error:
            # Sending the first message reports the same problem, with a hint how to fix it.
            if self._classify(error) is None:
                raise
            return None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request``; see :class:`prime_ext.models.model.Model`."""
        attempt = 0
        max_attempts = self._config.max_attempts
        while True:
            attempt += 1
            try:
                async with aclosing(self._attempt(request)) as events:
                    async for event in events:
                        yield event
                return
            except UnicodeEncodeError:
                # Kernel output can contain lone surrogates, which cannot be encoded as UTF-8.
                request = _encodable(request)
                attempt -= 1
                continue
            except Exception as error:
                failure = self._classify(error)
                if failure is None:
                    raise
                if self._drop_refused_field(failure.error):
                    attempt -= 1
                    continue
                limit = min(max_attempts, failure.max_attempts or max_attempts)
                if not failure.passes or attempt >= limit:
                    # Drop the SDK's exception: it holds the request, which holds the key.
                    raise failure.error from None
            delay = failures.backoff(attempt, failure.retry_after_s, random.random)
            yield Retry(attempt, limit, delay, failure.reason)
            await self._sleep(delay)

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        client = await self._connection.client()
        message = _Message()
        arguments = self._arguments(request, await self.capabilities())
        betas = server_side.needed_betas(request)
        if betas:
            stream = await client.beta.messages.create(**arguments, betas=betas)
        else:
            stream = await client.messages.create(**arguments)
        async with stream:
            async for event in stream:
                for made in message.feed(event):
                    yield made
        yield message.reply(self.id)

    def _arguments(self, request: ModelRequest, capabilities: Capabilities) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.id,
            "max_tokens": request.max_tokens,
            "messages": request.messages,
            "stream": True,
            **server_side.needed_fields(request),
        }
        if request.system:
            arguments["system"] = request.system
        if request.tools:
            arguments["tools"] = request.tools
        thinking = thinking_parameter(
            capabilities, self._config.thinking_tokens, request.max_tokens, request.messages
        )
        if thinking is not None:
            arguments["thinking"] = thinking
        if self.provider == "anthropic" and request.compaction is None:
            # Sent as null on the first request, so that the API can compare the second with it.
            arguments["diagnostics"] = {"previous_message_id": request.previous_message_id}
        for name in self._refused_fields:
            arguments.pop(name, None)
        return arguments

    def _drop_refused_field(self, error: ModelError) -> bool:
        """Drop a field that the server has refused; return whether to send the request again."""
        if error.code != "bad_request":
            return False
        said = error.message.partition(" It says: ")[2]
        for name in OPTIONAL_FIELDS:
            refused = name in said and (said.startswith(name) or UNKNOWN_FIELD.search(said))
            if refused and name not in self._refused_fields:
                self._refused_fields.add(name)
                return True
        return False

    def _classify(self, error: Exception) -> failures.Failure | None:
        """Classify the error of a failed attempt; ``None`` if it is a bug of this package."""
        if isinstance(error, ModelError):
            return failures.Failure(error, passes=False)
        # Already imported by the client that failed.
        import anthropic
        import httpx2

        peer = self._connection.peer(self.id)
        said = self._connection.redact
        if isinstance(error, anthropic.APIStatusError):
            headers = error.response.headers
            return failures.from_status(
                error.status_code,
                error.type or "",
                said(error.api_message or ""),
                peer,
                retry_after_s=failures.parse_retry_after(
                    headers.get("retry-after"), headers.get("retry-after-ms")
                ),
                should_retry=headers.get("x-should-retry"),
            )
        if isinstance(error, anthropic.APIConnectionError | httpx2.TransportError):
            cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
            if isinstance(cause, httpx2.ReadTimeout | httpx2.WriteTimeout):
                return failures.stalled(peer, self._connection.stall_seconds)
            if isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError):
                return failures.broken(peer, said(str(cause)) or type(cause).__name__)
            return failures.unreachable(peer, said(str(cause)) or type(cause).__name__)
        if isinstance(error, failures.StreamBroke | httpx2.HTTPError | json.JSONDecodeError):
            return failures.broken(peer, said(str(error)))
        if isinstance(error, anthropic.APIError):
            return failures.broken(peer, said(error.message))
        if _is_credential_error(error):
            return failures.no_credentials(peer, said(str(error)))
        return None


def _encodable(request: ModelRequest) -> ModelRequest:
    """Return ``request`` with lone surrogates replaced, deterministically."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return well_formed(value)
        if isinstance(value, list):
            return [clean(item) for item in value]
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        return value

    return replace(
        request,
        system=clean(request.system),
        tools=clean(request.tools),
        messages=clean(request.messages),
    )


def _is_credential_error(error: Exception) -> bool:
    """Whether ``error`` comes from the SDK lacking a key or from a cloud credential chain."""
    import anthropic

    if isinstance(error, anthropic.AnthropicError):
        return True
    if isinstance(error, TypeError):
        return "authentication method" in str(error)
    module = type(error).__module__
    return module.startswith(("google.auth", "botocore")) or (
        isinstance(error, RuntimeError | ValueError)
        and any(word in str(error) for word in ("credentials", "API token", "project_id"))
    )


def thinking_parameter(
    capabilities: Capabilities,
    budget: int,
    max_tokens: int,
    messages: list[dict[str, Any]],
) -> dict[str, Any] | None:
    """Return the request's ``thinking`` field, according to what the model accepts.

    Parameters
    ----------
    budget:
        Wanted number of thinking tokens; 0 turns thinking off. Only manual thinking (``enabled``)
        has a budget. A model that cannot turn thinking off gets ``between_tools`` if it accepts
        that, else ``adaptive``.
    messages:
        Messages of the request. Manual thinking is not possible in a tool loop whose last reply
        has lost its thinking block, as after a compaction.

    Returns
    -------
    dict or None
        ``None`` omits the field and leaves the decision to the model.
    """
    types = capabilities.thinking_types
    # Without `display`, the newest models omit the text of their thinking.
    adaptive = {"type": "adaptive", "display": "summarized"}
    if budget:
        if "adaptive" in types:
            return adaptive
        if "enabled" in types:
            tokens = min(budget, max_tokens - 1)
            if tokens >= MIN_THINKING_TOKENS and not _has_lost_thinking(messages):
                return {"type": "enabled", "budget_tokens": tokens}
        return None
    for off in ("disabled", "between_tools"):
        if off in types:
            return {"type": off}
    return adaptive if "adaptive" in types else None


def _has_lost_thinking(messages: list[dict[str, Any]]) -> bool:
    # The API merges consecutive messages of one role, so text may follow the tool results, and a
    # reply may go on in a further message.
    end = len(messages)
    while end and messages[end - 1]["role"] == "user":
        end -= 1
    if end == len(messages) or messages[end]["content"][0]["type"] != "tool_result":
        return False
    begin = end
    while begin and messages[begin - 1]["role"] == "assistant":
        begin -= 1
    first = messages[begin]["content"][0]["type"]
    return first not in ("thinking", "redacted_thinking")


@dataclass
class _Message:
    """A reply being assembled from the events of a stream."""

    frame: dict[str, Any] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)
    inputs: dict[int, list[str]] = field(default_factory=dict)
    stop_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    applied_edits: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False

    def feed(self, event: Any) -> list[ModelEvent]:
        """Process one event of the SDK's stream and return the events to pass on."""
        kind = event.type
        if kind == "message_start":
            self.frame = event.message.to_dict()
            self.usage = dict(self.frame.get("usage") or {})
        elif kind == "content_block_start":
            return self._start(event.index, event.content_block.to_dict())
        elif kind == "content_block_delta":
            return self._delta(event.index, event.delta)
        elif kind == "message_delta":
            self.stop_reason = event.delta.stop_reason or self.stop_reason
            if getattr(event, "usage", None) is not None:
                reported = event.usage.to_dict()
                self.usage.update({k: v for k, v in reported.items() if v is not None})
            if getattr(event, "context_management", None) is not None:
                self.applied_edits = event.context_management.to_dict().get("applied_edits") or []
        elif kind == "message_stop":
            self.ended = True
        return []

    def _start(self, index: int, block: Block) -> list[ModelEvent]:
        self.blocks[index] = dict(block)
        if "input" in block:
            self.inputs[index] = []
        events: list[ModelEvent] = [BlockStart(index, block)]
        if block.get("text"):
            events.append(TextDelta(index, block["text"]))
        return events

    def _delta(self, index: int, delta: Any) -> list[ModelEvent]:
        block = self.blocks.get(index)
        if block is None:
            raise failures.StreamBroke(f"a delta came for block {index}, which had not begun")
        if delta.type == "text_delta":
            block["text"] = block.get("text", "") + delta.text
            return [TextDelta(index, delta.text)]
        if delta.type == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta.thinking
            return [ThinkingDelta(index, delta.thinking)]
        if delta.type == "signature_delta":
            block["signature"] = delta.signature
        elif delta.type == "input_json_delta" and index in self.inputs and delta.partial_json:
            self.inputs[index].append(delta.partial_json)
            # Calls of tools that the server itself runs are neither shown nor answered here.
            if block["type"] == "tool_use":
                return [ToolInputDelta(index, delta.partial_json)]
        return []

    def reply(self, model: str) -> Reply:
        """Return the complete message.

        Raises
        ------
        StreamBroke
            If the stream ended before the message did.
        """
        if not self.ended:
            raise failures.StreamBroke("the connection ended in mid-message")
        invalid: dict[str, str] = {}
        for index, pieces in self.inputs.items():
            text = "".join(pieces)
            arguments = _parsed(text) if text else self.blocks[index].get("input", {})
            if not isinstance(arguments, dict):
                invalid[self.blocks[index]["id"]] = text
                arguments = {}
            self.blocks[index]["input"] = arguments
        diagnostics = self.frame.get("diagnostics") or {}
        return Reply(
            content=[self.blocks[index] for index in sorted(self.blocks)],
            stop_reason=self.stop_reason or "end_turn",
            usage=server_side.with_compaction(self.usage),
            model=self.frame.get("model") or model,
            message_id=self.frame.get("id"),
            cache_miss_reason=(diagnostics.get("cache_miss_reason") or {}).get("type"),
            applied_edits=self.applied_edits,
            invalid_inputs=invalid,
        )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
