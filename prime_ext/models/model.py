"""What the package knows of a language model: one request in, a stream of events out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from prime_ext.errors import PrimeError

Block = dict[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    """One request in the Messages API's own shapes.

    ``cache_control`` marks are already placed in ``system``, ``tools`` and ``messages``.
    """

    system: list[Block]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    max_tokens: int
    purpose: Literal["turn", "compaction"] = "turn"
    summary_tokens: int = 0
    """How long the summary should be at most that a request for one asks for."""
    previous_message_id: str | None = None
    """API id of the last reply, for the API's own cache diagnosis."""
    edits: list[dict[str, Any]] = field(default_factory=list)
    """What the server shall leave out of the messages before the model reads them; only for a
    model that offers it, see ``ServerSide``."""
    compaction: str | None = None
    """Has the server itself summarise the messages, by these instructions; likewise."""


@dataclass(frozen=True)
class BlockStart:
    """A content block begins. ``block`` has its type and, for ``tool_use``, id and name."""

    index: int
    block: Block


@dataclass(frozen=True)
class TextDelta:
    index: int
    text: str


@dataclass(frozen=True)
class ThinkingDelta:
    index: int
    text: str


@dataclass(frozen=True)
class ToolInputDelta:
    index: int
    partial_json: str


@dataclass(frozen=True)
class Retry:
    """The request failed in a way that passes; it is sent again after ``delay_s``.

    What was streamed of the failed attempt is void.
    """

    attempt: int
    """Number of the attempt that failed, from 1."""
    max_attempts: int
    delay_s: float
    reason: str
    """Short and plain: ``"rate limited"``, ``"overloaded"``, ``"connection lost"``."""


@dataclass(frozen=True)
class Reply:
    """The whole message; always the last event of a stream that did not raise."""

    content: list[Block]
    stop_reason: str
    usage: dict[str, Any]
    model: str
    message_id: str | None = None
    cache_miss_reason: str | None = None
    applied_edits: list[dict[str, Any]] = field(default_factory=list)
    """What the server left out of the request, with its figures."""
    invalid_inputs: dict[str, str] = field(default_factory=dict)
    """``tool_use`` id → JSON text, for calls whose input broke off or is no JSON object. Their
    block has the input ``{}``; such a call is not to be run but answered with an error."""


ModelEvent = BlockStart | TextDelta | ThinkingDelta | ToolInputDelta | Retry | Reply


@dataclass(frozen=True)
class Capabilities:
    """What a model can do, asked from the API where it answers."""

    window: int
    """Input tokens at most (``max_input_tokens``)."""
    max_output: int
    min_cache_tokens: int = 1024
    thinking: bool = False
    thinking_types: tuple[str, ...] = ()
    """Values of ``thinking.type`` that a request may have: ``adaptive``, ``between_tools``,
    ``disabled``, ``enabled``. Empty if unknown."""
    preserved_thinking: bool = False
    """Thinking blocks are bound to what precedes them: a rewritten history must lose them."""
    stops_at_window: bool = False
    """A prompt that leaves no room for ``max_tokens`` is taken, and the reply cut off where the
    window ends. Others refuse it."""
    images: bool = True
    image_token_cap: int = 1568
    price: Price | None = None


@dataclass(frozen=True)
class ServerSide:
    """What the model's server can do to a context by itself. All false where it cannot be asked."""

    clears_tool_uses: bool = False
    """It leaves old tool results out, as a request's ``edits`` say."""
    compacts: bool = False
    """It answers a request for a ``compaction`` with a block that stands for the messages."""


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    long_prompt: Price | None = None
    """What the whole request costs if its prompt is longer than ``long_prompt_tokens``."""
    long_prompt_tokens: int = 0

    def cost(self, usage: dict[str, Any]) -> float:
        """Dollars for one reply's usage."""
        if self.long_prompt is not None:
            prompt = sum(
                usage.get(key) or 0
                for key in (
                    "input_tokens",
                    "cache_read_input_tokens",
                    "cache_creation_input_tokens",
                )
            )
            if prompt > self.long_prompt_tokens:
                return self.long_prompt.cost(usage)
        creation = usage.get("cache_creation") or {}
        write_1h = creation.get("ephemeral_1h_input_tokens") or 0
        write_5m = (usage.get("cache_creation_input_tokens") or 0) - write_1h
        return (
            (usage.get("input_tokens") or 0) * self.input
            + (usage.get("output_tokens") or 0) * self.output
            + (usage.get("cache_read_input_tokens") or 0) * self.cache_read
            + write_5m * self.cache_write_5m
            + write_1h * self.cache_write_1h
        ) / 1e6


class Model(Protocol):
    """A language model, remote or not. Instances are shared between sessions."""

    provider: str
    """``offline``, ``anthropic``, ``bedrock``, ``vertex`` or ``foundry``."""
    id: str

    @property
    def endpoint(self) -> str | None:
        """Host (and port, if any) that conversation content is sent to; ``None`` if it stays in
        this process. A server on this machine has one too: it is a loopback address."""

    @property
    def encrypted(self) -> bool:
        """Whether what goes to the endpoint is encrypted on the way."""

    async def capabilities(self) -> Capabilities:
        """What the model can do; cached after the first answer."""

    async def server_side(self) -> ServerSide:
        """What its server can do to a context; cached likewise, and only asked if wanted."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield events, ``Reply`` last.

        Retries what passes (408, 409, 429, 5xx, 529, lost connections, stalls), announcing each
        with ``Retry``. Closing the iterator, or cancelling the task, closes the connection.

        Raises
        ------
        ModelError
            For what does not pass.
        """


class ModelError(PrimeError):
    """A request that the model's server refused or that never got through.

    ``code`` is one of ``no_credentials``, ``bad_credentials`` (401/403), ``model_not_found``,
    ``context_overflow``, ``request_too_large`` (413), ``bad_request`` (400), ``rate_limited``,
    ``overloaded``, ``server_error``, ``unreachable``, ``stalled``, ``not_installed`` (the
    provider's client needs a package that is missing).
    """

    def __init__(self, message: str, *, code: str, hint: str = "", status: int = 502) -> None:
        super().__init__(message, code=code, hint=hint, status=status)


class ContextOverflow(ModelError):
    """The prompt is longer than the model's window."""

    def __init__(self, tokens: int | None, maximum: int | None, message: str) -> None:
        super().__init__(
            message,
            code="context_overflow",
            hint="The conversation is compacted and the request sent again.",
        )
        self.tokens = tokens
        self.maximum = maximum


@dataclass
class ModelInfo:
    """One line of ``GET models``."""

    id: str
    provider: str
    name: str
    default: bool = False
    remote: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
