"""The records of ``session.jsonl``: one typed, immutable line for each thing that happened.

Records are the only truth of a session: the model's context, the panel and the search are
projections of them. A record is written once and never changed; ``seq`` counts from 1 without
gaps. Message content is kept as the Messages API's own JSON blocks, so that what was sent can be
sent again byte for byte.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

NO_KERNEL = "no kernel is running"
"""Reason of a snapshot that was not taken, and of a ``kernel_state`` with the status ``none``."""

Block = dict[str, Any]
"""One Messages API content block (``text``, ``image``, ``thinking``, ``tool_use``, …)."""


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=""
):
    """What every record has. ``seq``, ``id`` and ``ts`` are given by the log on append."""

    kind: ClassVar[str] = ""

    seq: int = 0
    id: str = ""
    ts: str = ""
    """UTC, ISO 8601 with milliseconds and ``Z``."""
    user: str | None = None
    """The Jupyter user who acted, where a person did."""
    turn: str | None = None
    """Id of the turn the record belongs to."""


class SessionStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="session_start"):
    """First record of a session. System prompt and tools stay frozen until a compaction."""

    kind: ClassVar[str] = "session_start"

    version: str
    """Version of prime_ext that started the session."""
    format: int = 1
    notebook: str
    """Path of the notebook, relative to the server's root, with forward slashes."""
    provider: str
    """``offline``, ``anthropic``, ``bedrock``, ``vertex`` or ``foundry``."""
    model: str
    permission_mode: str
    system: list[Block]
    tools: list[dict[str, Any]]
    title: str | None = None
    restore: str | None = None
    """As in ``Settings``; ``None``: as the server is configured."""


class Settings(Record, frozen=True, kw_only=True, omit_defaults=True, tag="settings"):
    """A change made to a live session. Fields left out did not change."""

    kind: ClassVar[str] = "settings"

    permission_mode: str | None = None
    model: str | None = None
    """Takes effect at the next compaction, or at once while the context is empty."""
    provider: str | None = None
    notebook: str | None = None
    """The notebook was renamed, or the session attached to another path."""
    windows: dict[str, int] = {}
    """Model id → tokens it takes at most, as its server said when it refused a request."""
    restore: str | None = None
    """When variables come back by themselves: ``auto``, ``always``, ``ask`` or ``never``."""
    snapshots: bool | None = None
    """Whether the notebook's variables are saved."""
    server_side: bool | None = None
    """``False``: the model's server refused to edit or compact the context, or did not do it. What
    it had done is done here from then on: its summary is sent as text, and previews stand for the
    results that it left out."""


class UserMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="user_message"):
    kind: ClassVar[str] = "user_message"

    text: str
    """What the person typed, verbatim."""
    attachments: list[dict[str, Any]] = []
    content: list[Block]
    """What the model is sent for it: the text and the attachments as data."""


class AssistantMessage(
    Record, frozen=True, kw_only=True, omit_defaults=True, tag="assistant_message"
):
    kind: ClassVar[str] = "assistant_message"

    content: list[Block]
    model: str
    stop_reason: str | None = None
    """The API's stop reason, or ``interrupted`` / ``error`` for a message that was cut off."""
    usage: dict[str, Any] = {}
    """As reported: ``input_tokens``, ``cache_read_input_tokens``, ``cache_creation_input_tokens``,
    ``output_tokens``. Empty if unknown."""
    message_id: str | None = None
    """The API's id of the message."""
    duration_ms: int = 0
    first_token_ms: int | None = None
    cost_usd: float | None = None
    applied_edits: list[dict[str, Any]] = []
    """What the model's server left out of the request, with its own figures."""


class ToolResult(Record, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    kind: ClassVar[str] = "tool_result"

    tool_use_id: str
    name: str
    content: list[Block]
    """What the model is sent, already capped."""
    is_error: bool = False
    outputs: list[dict[str, Any]] = []
    """Notebook outputs (nbformat 4) for the panel. An image that is also in ``content`` stands
    here as ``{"image/png": {"content_index": i}}``, so that it is stored once."""
    output_file: str | None = None
    """Name in ``outputs/`` of the full text, if ``content`` was capped."""
    left_out: int = 0
    """Characters that the text in ``output_file`` lacks, since nobody keeps so many."""
    duration_ms: int = 0
    synthetic: bool = False
    """Made by the server because the call never ended (crash, stop)."""
    run: str | None = None
    """Id of the call that began the run this is about, where that outlasted its call."""
    goes_on: bool = False
    """``run`` goes on behind this answer. It ends with a later result about it, or a ``run_end``.
    """
    tells: list[int] = []
    """``seq`` of the ``run_end`` records that the end of ``content`` tells the model of."""


class RunEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="run_end"):
    """A run that outlasted its call has ended, and no call waited for it.

    The model is told with the next ``user_message``, or with a result that says so in ``tells``.
    """

    kind: ClassVar[str] = "run_end"

    tool_use_id: str
    """The call that began it; ``turn`` is that call's."""
    content: list[Block]
    """What the model is told, already capped: a text, then images."""
    is_error: bool = False
    outputs: list[dict[str, Any]] = []
    """All outputs of the run, as in ``ToolResult``."""
    output_file: str | None = None
    """As in ``ToolResult``."""
    left_out: int = 0
    """As in ``ToolResult``."""
    duration_ms: int = 0
    synthetic: bool = False
    """It did not end: its session was closed, or the server stopped, while it went on."""


class TurnEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="turn_end"):
    kind: ClassVar[str] = "turn_end"

    status: str
    """``ok``, ``interrupted``, ``error``, ``limit`` or ``crashed``."""
    requests: int = 0
    duration_ms: int = 0
    usage: dict[str, int] = {}
    """Sums over the turn's requests."""
    cost_usd: float | None = None
    context_tokens: int | None = None
    """Size of the context at the end; ``None`` if unknown (right after a compaction)."""


class Prune(Record, frozen=True, kw_only=True, omit_defaults=True, tag="prune"):
    """Belongs to the ``compaction_end`` of the same id, whose path is ``prune``."""

    kind: ClassVar[str] = "prune"

    compaction_id: str
    pruned: list[int]
    """``seq`` of the tool results that the context shows as previews from here on."""
    tokens_before: int
    tokens_after: int
    by_server: bool = False
    """They are sent whole, and the model's server leaves them out instead of the previews."""


class PrefireStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="prefire_start"):
    kind: ClassVar[str] = "prefire_start"

    prefire_id: str
    through_seq: int
    fingerprint: str
    rolled: bool = False
    """A note that was there is rolled forward by what came since."""


class PrefireEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="prefire_end"):
    kind: ClassVar[str] = "prefire_end"

    prefire_id: str
    outcome: str
    note: str = ""
    block: Block | None = None
    """The note as the model's server made and signed it, if it did; ``note`` is its text."""
    usage: dict[str, Any] = {}
    cost_usd: float | None = None
    duration_ms: int = 0


class CompactionStart(
    Record, frozen=True, kw_only=True, omit_defaults=True, tag="compaction_start"
):
    kind: ClassVar[str] = "compaction_start"

    compaction_id: str
    trigger: str
    """``threshold``, ``turn_end``, ``manual``, ``model`` or ``overflow``."""
    tokens_before: int
    instructions: str | None = None


class CompactionEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="compaction_end"):
    kind: ClassVar[str] = "compaction_end"

    compaction_id: str
    outcome: str
    """``ok``, ``skipped``, ``cancelled`` or ``failed``."""
    trigger: str
    path: str | None = None
    """``prune``, ``swap``, ``merge``, ``single_pass`` or ``digest``."""
    tokens_before: int
    tokens_after: int
    request_tokens: int = 0
    """Tokens sent to the model while anyone waited."""
    wait_ms: int = 0
    """How long the loop stood still, the snapshot included."""
    compaction_count: int = 0
    """Successful compactions of the session so far, this one included."""
    kernel_state: dict[str, Any] = {}
    """``{status: current|busy|stale|none, snapshot_seq, names: {status: count}, age_s}``."""
    summary: str | None = None
    """Text of the summary turn, exactly as the model is sent it."""
    kept_from_seq: int | None = None
    """First record kept verbatim behind the summary; ``None`` if nothing is kept."""
    block: Block | None = None
    """The summary as the model's server made and signed it, if it did. It begins the context, what
    is kept follows, and ``summary`` stands behind that."""
    keeps_thinking: bool = False
    """What is kept behind ``block`` has its thinking still."""
    run_seq: int | None = None
    """``seq`` of the last ``tool_result`` that says of a run that it goes on, if it does."""
    reason: str | None = None
    """Why it was skipped or failed."""
    usage: dict[str, Any] = {}
    """Of the request for the summary, if one was made while anyone waited."""
    cost_usd: float | None = None
    model: str | None = None
    provider: str | None = None
    system: list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    """System prompt and tools from here on, if this compaction changed them."""


class Snapshot(Record, frozen=True, kw_only=True, omit_defaults=True, tag="snapshot"):
    kind: ClassVar[str] = "snapshot"

    outcome: str
    """``ok``, ``unchanged``, ``skipped``, ``failed``, or ``removed``: all that was saved before is
    gone from the disk."""
    trigger: str
    """``compaction``, ``turn``, ``shutdown``, ``manual`` or ``import``; for ``removed``: ``limit``
    (of all snapshots) or ``off`` (switched off for the notebook)."""
    snapshot_id: str | None = None
    generation: int = 0
    """The snapshot's number, which goes up with each save; 0 if it is not known."""
    kernel_id: str | None = None
    names: dict[str, dict[str, Any]] = {}
    """Name → ``{status, reason, recipe, type, size}``."""
    bytes: int = 0
    duration_ms: int = 0
    pause_ms: int = 0
    """How long the kernel stood still."""
    reason: str | None = None


class Restore(Record, frozen=True, kw_only=True, omit_defaults=True, tag="restore"):
    kind: ClassVar[str] = "restore"

    outcome: str
    """``ok``, ``partial``, ``unchanged``, ``failed``, ``skipped`` with the reason, or ``offered``:
    the kernel is a fresh one, ``snapshot_id`` can be restored, and the person has not decided yet.
    """
    mode: str
    """``hot`` or ``cold``."""
    trigger: str
    """``compaction``, ``crash``, ``restart``, ``shutdown`` (of the kernel, by a person or because
    it was idle), ``manual`` or ``resume``."""
    snapshot_id: str | None = None
    kernel_id: str | None = None
    names: dict[str, dict[str, Any]] = {}
    """Name → ``{status, reason, recipe, type, size, action, left_out}``; empty if ``unchanged``.

    ``left_out`` says that the snapshot ``snapshot_id`` holds a name that was not loaded because of
    what that may do, and that it is loaded if it is asked for by name: reading it back ``hung`` or
    ``ended`` the process, it was ``slow``, or a person ``interrupted`` it. It is left out for names
    that could not be loaded at all.
    """
    asked: list[str] = []
    """The only names that a person wanted; empty if all."""
    saved: str | None = None
    """When what was restored had been saved, if there was a newer snapshot (UTC, ISO 8601)."""
    behind: dict[str, Any] = {}
    """What ran in a process that is gone after the snapshot had been made, and is not in it:
    ``{as_of, runs, code, cut_off?}``: when it was made (UTC, ISO 8601), how many runs, the first
    lines of the last ten, and whether the last one ran when the process ended. Empty if all that
    is known to have run is in the snapshot."""
    attempts: int = 1
    duration_ms: int = 0
    reason: str | None = None


class Checkpoint(Record, frozen=True, kw_only=True, omit_defaults=True, tag="checkpoint"):
    kind: ClassVar[str] = "checkpoint"

    snapshot_id: str | None = None
    notebook_hash: str | None = None


class ApprovalRequest(
    Record, frozen=True, kw_only=True, omit_defaults=True, tag="approval_request"
):
    """The turn waits, as long as the person needs, for an ``approval`` with this ``call_id``."""

    kind: ClassVar[str] = "approval_request"

    call_id: str
    what: str
    """``tool``, ``consent`` (first use of a remote model) or ``limit`` (turn cap reached)."""
    tool: str | None = None
    input: dict[str, Any] = {}
    summary: str
    """One line for the person."""
    detail: str | None = None
    """Code, diff or explanation, Markdown."""


class Approval(Record, frozen=True, kw_only=True, omit_defaults=True, tag="approval"):
    kind: ClassVar[str] = "approval"

    call_id: str
    decision: str
    """``allow`` or ``deny``."""
    scope: str = "once"
    """``once`` or ``session``."""


class Queued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="queued"):
    kind: ClassVar[str] = "queued"

    text: str
    attachments: list[dict[str, Any]] = []


class Unqueued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="unqueued"):
    kind: ClassVar[str] = "unqueued"

    queued_seq: int
    reason: str
    """``sent`` (a ``user_message`` follows) or ``deleted``."""


class Interrupt(Record, frozen=True, kw_only=True, omit_defaults=True, tag="interrupt"):
    kind: ClassVar[str] = "interrupt"

    phase: str
    """What was going on: ``model``, ``tool``, ``approval``, ``compaction`` or ``retry``."""


class Error(Record, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    kind: ClassVar[str] = "error"

    code: str
    message: str
    hint: str = ""
    where: str = ""
    """``model``, ``kernel``, ``notebook``, ``session`` or ``compaction``."""


class NotebookOp(Record, frozen=True, kw_only=True, omit_defaults=True, tag="notebook_op"):
    kind: ClassVar[str] = "notebook_op"

    op_id: str
    op: str
    """``insert_cell``, ``edit_cell``, ``delete_cell``, ``move_cell`` or ``run_cell``."""
    cell_id: str
    status: str
    """``applied``, ``conflict`` or ``failed``."""
    writer: str
    """``browser`` or ``server``."""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    """``{source, hash, cell_type, index, prev, next}`` of the cell before and after, what an undo
    needs. ``prev`` and ``next`` are the ids of its neighbours, ``hash`` is that of the source as
    it was; of a conflict only the two sources."""
    reason: str | None = None
    """Why it failed; of one that was applied, why it is not on disk."""
    code: str | None = None
    """Stable name of the error in ``reason``, if that is one."""
    kept: str | None = None
    """Name in ``outputs/`` of the cell, in nbformat, as it was before it was deleted, or before the
    turn ran it for the first time."""
    reverts: str | None = None
    """The operation undoes one of this turn, or, as a conflict, would have."""


class FileChange(Record, frozen=True, kw_only=True, omit_defaults=True, tag="file_change"):
    """A file was written by ``edit_file`` or ``write_file``."""

    kind: ClassVar[str] = "file_change"

    path: str
    """Relative to the server's root."""
    before_hash: str | None = None
    """SHA-256 of the content before; ``None``: there was no file."""
    after_hash: str
    kept: str | None = None
    """Name in ``outputs/`` of the content before; ``None`` if there was no file, or if it holds a
    key."""


class Revert(Record, frozen=True, kw_only=True, omit_defaults=True, tag="revert"):
    """The user has reverted what the agent changed in ``turn``."""

    kind: ClassVar[str] = "revert"

    cells: list[dict[str, Any]] = []
    """``{cell_id, outcome, current?, earlier?, code?, reason?}``: ``restored``, ``removed``,
    ``inserted``, ``moved``; ``conflict`` or ``failed`` if it is left as it is, with the source it
    has now and the one it had before the turn. ``code`` names the reason, which is a sentence.
    ``outputs``: ``restored`` or ``cleared``, where the cell showed a run of what was reverted."""
    files: list[dict[str, Any]] = []
    """``{path, outcome, code?, reason?}``: ``restored``, ``removed``, ``conflict``, ``failed``."""
    unsaved: str | None = None
    """Why the notebook, though reverted in the browser, is not on disk yet."""


class Title(Record, frozen=True, kw_only=True, omit_defaults=True, tag="title"):
    kind: ClassVar[str] = "title"

    title: str


AnyRecord = (
    SessionStart
    | Settings
    | UserMessage
    | AssistantMessage
    | ToolResult
    | RunEnd
    | TurnEnd
    | Prune
    | PrefireStart
    | PrefireEnd
    | CompactionStart
    | CompactionEnd
    | Snapshot
    | Restore
    | Checkpoint
    | ApprovalRequest
    | Approval
    | Queued
    | Unqueued
    | Interrupt
    | Error
    | NotebookOp
    | FileChange
    | Revert
    | Title
)
