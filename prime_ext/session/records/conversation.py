"""Records of what the user, the model and its tools say."""

from __future__ import annotations

from typing import Any, ClassVar

from prime_ext.session.records.record import Block, Record


class UserMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="user_message"):
    kind: ClassVar[str] = "user_message"

    text: str
    """Text of the message as the user typed it; may be blank if something is attached."""
    attachments: list[dict[str, Any]] = []
    content: list[Block]
    """Content for the model: the text, and the attachments as data."""

    @property
    def words(self) -> str:
        """The text for a summary; of a message without text, what was attached to it."""
        if self.text.strip() or not self.attachments:
            return self.text
        named = (f"{attached['type']} {attached['value']}" for attached in self.attachments)
        return f"(without text) attached: {', '.join(named)}"


class Queued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="queued"):
    kind: ClassVar[str] = "queued"

    text: str
    attachments: list[dict[str, Any]] = []


class Unqueued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="unqueued"):
    kind: ClassVar[str] = "unqueued"

    queued_seq: int
    reason: str
    """``sent`` (the ``user_message`` follows) or ``deleted``."""


class AssistantMessage(
    Record, frozen=True, kw_only=True, omit_defaults=True, tag="assistant_message"
):
    kind: ClassVar[str] = "assistant_message"

    content: list[Block]
    model: str
    stop_reason: str | None = None
    """Stop reason of the API, or ``interrupted`` or ``error`` for a message that was cut off."""
    usage: dict[str, Any] = {}
    """Usage as reported: ``input_tokens``, ``cache_read_input_tokens``,
    ``cache_creation_input_tokens``, ``output_tokens``. Empty if unknown."""
    message_id: str | None = None
    """Id of the message in the API."""
    duration_ms: int = 0
    first_token_ms: int | None = None
    """Time to the first token."""
    cost_usd: float | None = None
    applied_edits: list[dict[str, Any]] = []
    """Context edits that the model's server reports to have applied to the request."""

    @property
    def is_whole(self) -> bool:
        """Whether the request was answered: the message was not cut off on its way."""
        return self.stop_reason not in ("interrupted", "error")


class ToolResult(Record, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    kind: ClassVar[str] = "tool_result"

    tool_use_id: str
    name: str
    content: list[Block]
    """Content for the model, already capped."""
    is_error: bool = False
    outputs: list[dict[str, Any]] = []
    """Notebook outputs (nbformat 4) for the panel. An image that is also in ``content`` is
    replaced by a reference ``{"image/png": {"content_index": i}}``, so that it is stored once."""
    output_file: str | None = None
    """Name of the file with the full text in ``outputs/``, if ``content`` was capped."""
    left_out: int = 0
    """Number of characters that even ``output_file`` lacks, because the output was too long."""
    duration_ms: int = 0
    synthetic: bool = False
    """Whether the server made the result because the call never ended (crash, stop)."""
    run: str | None = None
    """Id of the call that started a run that outlasted its call, if this result is about one."""
    goes_on: bool = False
    """Whether ``run`` continues after this result. It ends with a later result about it, or with a
    ``run_end``."""
    tells: list[int] = []
    """``seq`` of the ``run_end`` records that the end of ``content`` reports to the model."""


class RunEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="run_end"):
    """End of a run that outlasted its call, while no call waited for it.

    It is reported to the model with the next ``user_message``, or with a tool result that lists it
    in ``tells``.
    """

    kind: ClassVar[str] = "run_end"

    tool_use_id: str
    """Id of the call that started the run. ``turn`` is the turn of that call."""
    content: list[Block]
    """Content for the model, already capped: one text, then images."""
    is_error: bool = False
    outputs: list[dict[str, Any]] = []
    """All outputs of the run, as in ``ToolResult``."""
    output_file: str | None = None
    """As in ``ToolResult``."""
    left_out: int = 0
    """As in ``ToolResult``."""
    duration_ms: int = 0
    synthetic: bool = False
    """Whether the run's end is unknown, because the session was closed or the server stopped."""


class ApprovalRequest(
    Record, frozen=True, kw_only=True, omit_defaults=True, tag="approval_request"
):
    """Request for the user's approval.

    The turn waits without a time limit for an ``approval`` with the same ``call_id``.
    """

    kind: ClassVar[str] = "approval_request"

    call_id: str
    what: str
    """``tool``, ``consent`` (first use of a remote model) or ``limit`` (of a turn, reached)."""
    tool: str | None = None
    input: dict[str, Any] = {}
    summary: str
    """One line for the user."""
    detail: str | None = None
    """Code, diff or explanation, Markdown."""


class Approval(Record, frozen=True, kw_only=True, omit_defaults=True, tag="approval"):
    kind: ClassVar[str] = "approval"

    call_id: str
    decision: str
    """``allow`` or ``deny``."""
    scope: str = "once"
    """``once`` or ``session``."""


class Interrupt(Record, frozen=True, kw_only=True, omit_defaults=True, tag="interrupt"):
    kind: ClassVar[str] = "interrupt"

    phase: str
    """What was interrupted: ``model``, ``tool``, ``approval``, ``compaction`` or ``retry``."""


class TurnEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="turn_end"):
    kind: ClassVar[str] = "turn_end"

    status: str
    """``ok``, ``interrupted``, ``error``, ``limit`` or ``crashed``."""
    requests: int = 0
    duration_ms: int = 0
    usage: dict[str, int] = {}
    """Sums over the requests of the turn."""
    cost_usd: float | None = None
    context_tokens: int | None = None
    """Size of the context at the end; ``None`` if unknown, as right after a compaction."""
