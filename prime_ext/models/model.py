"""Interface of a language model: a request goes in, a stream of events comes out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from prime_ext.errors import PrimeError

Block = dict[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    """A request in the shapes of the Messages API.

    ``system``, ``tools`` and ``messages`` already carry their ``cache_control`` breakpoints.
    """

    system: list[Block]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    max_tokens: int
    purpose: Literal["turn", "compaction"] = "turn"
    summary_tokens: int = 0
    """Maximum length of the summary, in tokens; only for requests with purpose ``compaction``."""
    previous_message_id: str | None = None
    """API id of the previous reply; the API uses it to diagnose prompt cache misses."""
    edits: list[dict[str, Any]] = field(default_factory=list)
    """Context edits that the server applies before the model reads the messages. Only for a model
    that supports them, see ``ServerSide``."""
    compaction: str | None = None
    """Instructions by which the server itself summarises the messages; ``None`` for an ordinary
    request. Only for a model that supports it, see ``ServerSide``."""


@dataclass(frozen=True)
class BlockStart:
    """Start of a content block. ``block`` has its type and, for ``tool_use``, its id and name."""

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
    """The request failed with a transient error and is sent again after ``delay_s`` seconds.

    Discard the events that the failed attempt has streamed.
    """

    attempt: int
    """Number of the attempt that failed, counted from 1."""
    max_attempts: int
    delay_s: float
    reason: str
    """Short text for the user: ``"rate limited"``, ``"overloaded"``, ``"connection lost"``."""


@dataclass(frozen=True)
class Reply:
    """The complete message; always the last event of a stream that did not raise."""

    content: list[Block]
    stop_reason: str
    usage: dict[str, Any]
    model: str
    message_id: str | None = None
    cache_miss_reason: str | None = None
    applied_edits: list[dict[str, Any]] = field(default_factory=list)
    """Context edits that the server applied, as the API reports them."""
    invalid_inputs: dict[str, str] = field(default_factory=dict)
    """``tool_use`` id → raw text, for calls whose input is truncated or not a JSON object. Their
    block has the input ``{}``. Do not run such a call; answer it with an error."""


ModelEvent = BlockStart | TextDelta | ThinkingDelta | ToolInputDelta | Retry | Reply


@dataclass(frozen=True)
class Capabilities:
    """Capabilities and limits of a model, as reported by the API where it can be asked."""

    window: int
    """Maximum number of input tokens (the API's ``max_input_tokens``)."""
    max_output: int
    min_cache_tokens: int = 1024
    thinking: bool = False
    thinking_types: tuple[str, ...] = ()
    """Values of ``thinking.type`` that the model accepts: ``adaptive``, ``between_tools``,
    ``disabled``, ``enabled``. Empty if unknown."""
    preserved_thinking: bool = False
    """Whether thinking blocks are bound to the messages before them, so that they must be removed
    when the history is rewritten."""
    stops_at_window: bool = False
    """Whether the model accepts a prompt that leaves less room than ``max_tokens`` and truncates
    the reply at the end of the window. Other models refuse such a request."""
    images: bool = True
    image_token_cap: int = 1568
    price: Price | None = None


@dataclass(frozen=True)
class ServerSide:
    """Context management that the model's server offers; all false if it cannot be asked."""

    clears_tool_uses: bool = False
    """The server removes old tool results as specified by ``ModelRequest.edits``."""
    compacts: bool = False
    """The server answers a request with ``ModelRequest.compaction`` with a block that replaces the
    messages."""


@dataclass(frozen=True)
class Price:
    """Prices in US dollars per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    long_prompt: Price | None = None
    """Prices of the whole request if its prompt is longer than ``long_prompt_tokens``."""
    long_prompt_tokens: int = 0

    def cost(self, usage: dict[str, Any]) -> float:
        """Return the cost in US dollars of a reply with this ``usage``."""
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
        """Host (and port, if any) that conversation content is sent to.

        ``None`` if the content stays in this process. A server on this machine also has an
        endpoint: a loopback address.
        """

    @property
    def encrypted(self) -> bool:
        """Whether the connection to the endpoint is encrypted."""

    async def capabilities(self) -> Capabilities:
        """Return the model's capabilities, cached after the first answer."""

    async def server_side(self) -> ServerSide:
        """Return what the model's server offers for context management; cached as well.

        The server is asked only when this method is called.
        """

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield events, ``Reply`` last.

        Transient failures (408, 409, 425, 429, 5xx, lost connections, stalls) are retried, each
        retry announced by a ``Retry`` event. Closing the generator, or cancelling the task, closes
        the connection.

        Raises
        ------
        ModelError
            If the failure is permanent, or all attempts have failed.
        """


class ModelError(PrimeError):
    """The model's server refused the request, or could not be reached.

    ``code`` is one of ``no_credentials``, ``bad_credentials`` (401/403), ``model_not_found``,
    ``context_overflow``, ``request_too_large`` (413), ``bad_request`` (400), ``rate_limited``,
    ``overloaded``, ``server_error``, ``unreachable``, ``stalled``, ``not_installed`` (the
    provider's client needs a package that is missing).
    """

    def __init__(self, message: str, *, code: str, hint: str = "", status: int = 502) -> None:
        super().__init__(message, code=code, hint=hint, status=status)


class ContextOverflow(ModelError):
    """The prompt does not fit into the model's context window."""

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
    """One entry in the answer to ``GET models``."""

    id: str
    provider: str
    name: str
    default: bool = False
    remote: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
