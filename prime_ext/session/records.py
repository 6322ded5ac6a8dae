"""The records of ``session.jsonl``: one typed, immutable record for each event of a session.

Records are the only source of truth: the model's context, the panel and the search are projections
of them. A record is written once and never changed; ``seq`` counts from 1 without gaps. Message
content is stored as the Messages API's JSON blocks, so that it can be sent again byte for byte.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

NO_KERNEL = "no kernel is running"
"""Reason given for a snapshot that was not taken, and in a ``kernel_state`` of status ``none``."""

FORMAT = 1
"""Of the logs that this version writes. It grows when an older version could no longer read a log,
or would spoil it by writing into it; new fields and kinds do neither."""

Block = dict[str, Any]
"""One Messages API content block (``text``, ``image``, ``thinking``, ``tool_use``, …)."""


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=""
):
    """Fields of every record. The log assigns ``seq``, ``id`` and ``ts`` on append."""

    kind: ClassVar[str] = ""

    seq: int = 0
    id: str = ""
    ts: str = ""
    """UTC, ISO 8601 with milliseconds and ``Z``."""
    user: str | None = None
    """Name of the Jupyter user whose action caused the record, if any."""
    turn: str | None = None
    """Id of the turn that the record belongs to."""

    @property
    def time(self) -> datetime:
        """``ts`` as a time."""
        # `fromisoformat` of Python 3.10 does not accept the suffix Z.
        return datetime.fromisoformat(self.ts.replace("Z", "+00:00"))


class SessionStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="session_start"):
    """First record of a session. System prompt and tools stay the same until a compaction."""

    kind: ClassVar[str] = "session_start"

    version: str
    """Version of prime_ext that started the session."""
    format: int = FORMAT
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
    """As in ``Settings``. ``None``: as configured on the server."""


class Settings(Record, frozen=True, kw_only=True, omit_defaults=True, tag="settings"):
    """A change of a session's settings. Omitted fields have not changed."""

    kind: ClassVar[str] = "settings"

    permission_mode: str | None = None
    model: str | None = None
    """Takes effect at the next compaction, or at once while the context is empty."""
    provider: str | None = None
    notebook: str | None = None
    """New path, if the notebook was renamed or the session attached to another notebook."""
    windows: dict[str, int] = {}
    """Model id → context window in tokens, as its server reported when it refused a request."""
    restore: str | None = None
    """When variables are restored automatically: ``auto``, ``always``, ``ask`` or ``never``."""
    snapshots: bool | None = None
    """Whether snapshots of the notebook's variables are taken."""
    server_side: bool | None = None
    """``False``: the model's server refused to edit or compact the context, or did not do so. From
    then on, its summary is sent as text, and previews replace the results that it had left out."""


class UserMessage(Record, frozen=True, kw_only=True, omit_defaults=True, tag="user_message"):
    kind: ClassVar[str] = "user_message"

    text: str
    """Text of the message as the user typed it."""
    attachments: list[dict[str, Any]] = []
    content: list[Block]
    """Content for the model: the text, and the attachments as data."""


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


class Prune(Record, frozen=True, kw_only=True, omit_defaults=True, tag="prune"):
    """A prune. The ``compaction_end`` with the same id and the path ``prune`` follows."""

    kind: ClassVar[str] = "prune"

    compaction_id: str
    pruned: list[int]
    """``seq`` of the tool results that previews replace in the context from here on."""
    tokens_before: int
    tokens_after: int
    by_server: bool = False
    """Whether the results are still sent, and the model's server leaves them out instead."""


class PrefireStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="prefire_start"):
    kind: ClassVar[str] = "prefire_start"

    prefire_id: str
    through_seq: int
    """``seq`` of the last record that the note covers."""
    fingerprint: str
    """See ``context.note.fingerprint``."""
    rolled: bool = False
    """Whether an earlier note is rolled forward."""


class PrefireEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="prefire_end"):
    kind: ClassVar[str] = "prefire_end"

    prefire_id: str
    outcome: str
    """``ok``, ``failed`` or ``cancelled``."""
    note: str = ""
    block: Block | None = None
    """Compaction block, if the model's server made the note; ``note`` is its text."""
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
    """Tokens sent to the model while somebody waited."""
    wait_ms: int = 0
    """Time that the agent waited, including the snapshot."""
    compaction_count: int = 0
    """Number of successful compactions of the session so far, including this one."""
    kernel_state: dict[str, Any] = {}
    """``{status: current|busy|stale|none, snapshot_seq, names: {status: count}, age_s}``."""
    summary: str | None = None
    """Text of the summary turn, exactly as it is sent to the model."""
    kept_from_seq: int | None = None
    """``seq`` of the first record kept verbatim after the summary; ``None`` if none is kept."""
    block: Block | None = None
    """Compaction block, if the model's server made the summary. The context then consists of the
    block, the kept messages, ``summary``, and later messages."""
    keeps_thinking: bool = False
    """Whether the kept messages after ``block`` keep their thinking."""
    run_seq: int | None = None
    """``seq`` of the last ``tool_result`` about a run that still continues, if there is one."""
    reason: str | None = None
    """Why the compaction was skipped, cancelled or failed, or why a digest had to be used."""
    usage: dict[str, Any] = {}
    """Usage of the request for the summary, if one was made while somebody waited."""
    cost_usd: float | None = None
    model: str | None = None
    provider: str | None = None
    """Model and provider after this compaction."""
    system: list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    """System prompt and tools after this compaction, each if it changed."""


class Snapshot(Record, frozen=True, kw_only=True, omit_defaults=True, tag="snapshot"):
    kind: ClassVar[str] = "snapshot"

    outcome: str
    """``ok``, ``unchanged``, ``skipped``, ``failed``, or ``removed`` if all earlier snapshots were
    deleted from the disk."""
    trigger: str
    """``compaction``, ``turn``, ``shutdown``, ``manual`` or ``import``. For ``removed``: ``limit``
    (size of all snapshots) or ``off`` (snapshots turned off for the notebook)."""
    snapshot_id: str | None = None
    generation: int = 0
    """Number of the snapshot, incremented with each save; 0 if unknown."""
    kernel_id: str | None = None
    names: dict[str, dict[str, Any]] = {}
    """Name → ``{status, reason, recipe, type, size}``."""
    bytes: int = 0
    duration_ms: int = 0
    pause_ms: int = 0
    """Time for which the kernel was blocked."""
    reason: str | None = None


class RestoreStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="restore_start"):
    """The beginning of an automatic restore.

    If neither a ``restore`` nor a later ``snapshot`` follows, the server ended during the restore,
    perhaps because of it.
    """

    kind: ClassVar[str] = "restore_start"

    trigger: str
    """As in `Restore`."""
    consecutive: int = 1
    """1, or higher if the automatic restores before it did not last: its number in their row."""


class Restore(Record, frozen=True, kw_only=True, omit_defaults=True, tag="restore"):
    kind: ClassVar[str] = "restore"

    outcome: str
    """``ok``, ``partial``, ``unchanged``, ``failed``, ``skipped`` (with ``reason``) or ``offered``.

    ``offered`` means that the kernel is fresh, that ``snapshot_id`` can be restored, and that the
    user has not decided yet. If a restore was stopped, ``reason`` says so, and some variables may
    be defined."""
    mode: str
    """``hot`` or ``cold``."""
    trigger: str
    """``compaction``, ``crash``, ``restart``, ``shutdown`` (of the kernel, by the user or by
    culling), ``manual`` or ``resume``."""
    snapshot_id: str | None = None
    kernel_id: str | None = None
    names: dict[str, dict[str, Any]] = {}
    """Name → ``{status, reason, recipe, type, size, action, left_out}``; empty if ``unchanged``.

    ``left_out`` is given for names that are in the snapshot but were not loaded for safety, because
    reading them back ``hung`` or ``ended`` the process, was ``slow``, or was ``interrupted`` by the
    user. They are loaded if requested by name. Names that cannot be loaded at all have no
    ``left_out``.
    """
    asked: list[str] = []
    """Names that the user requested; empty if all."""
    saved: str | None = None
    """Time at which the snapshot that was restored, or is offered, was taken (UTC, ISO 8601), if it
    is not the newest. An older one is offered if the newest contains no variables."""
    behind: dict[str, Any] = {}
    """Runs in the ended process that are newer than the snapshot: ``{as_of, runs, code, cut_off?}``
    with the time of the snapshot (UTC, ISO 8601), the number of runs, the first lines of the last
    ten, and whether the last one was still running when the process ended. Empty if no such run is
    known."""
    attempts: int = 1
    duration_ms: int = 0
    reason: str | None = None
    empty: bool = False
    """Whether the snapshot contains no variables, so that there was nothing to restore."""


class Checkpoint(Record, frozen=True, kw_only=True, omit_defaults=True, tag="checkpoint"):
    kind: ClassVar[str] = "checkpoint"

    snapshot_id: str | None = None
    notebook_hash: str | None = None


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


class Queued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="queued"):
    kind: ClassVar[str] = "queued"

    text: str
    attachments: list[dict[str, Any]] = []


class Unqueued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="unqueued"):
    kind: ClassVar[str] = "unqueued"

    queued_seq: int
    reason: str
    """``sent`` (the ``user_message`` follows) or ``deleted``."""


class Interrupt(Record, frozen=True, kw_only=True, omit_defaults=True, tag="interrupt"):
    kind: ClassVar[str] = "interrupt"

    phase: str
    """What was interrupted: ``model``, ``tool``, ``approval``, ``compaction`` or ``retry``."""


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
    """``{source, hash, cell_type, index, prev, next}`` of the cell before and after the operation,
    for an undo. ``prev`` and ``next`` are the ids of its neighbours, ``hash`` is the hash of the
    source before redaction. For a conflict only the two sources are given."""
    reason: str | None = None
    """Why the operation failed or, if it was applied, why it is not on disk."""
    code: str | None = None
    """Stable name of the error that ``reason`` describes, if it is an error."""
    kept: str | None = None
    """Name of the file in ``outputs/`` with the cell (nbformat) as it was before it was deleted, or
    before the turn ran it for the first time."""
    reverts: str | None = None
    """Id of the turn whose operation this one undoes or, for a conflict, was to undo."""


class FileChange(Record, frozen=True, kw_only=True, omit_defaults=True, tag="file_change"):
    """A change of a file by ``edit_file`` or ``write_file``."""

    kind: ClassVar[str] = "file_change"

    path: str
    """Path of the file, relative to the server's root."""
    before_hash: str | None = None
    """SHA-256 of the content before; ``None`` if the file did not exist."""
    after_hash: str
    """SHA-256 of the content after."""
    kept: str | None = None
    """Name of the file in ``outputs/`` with the content before. ``None`` if the file did not exist
    or its content could not be kept, e.g. because it holds a secret."""


class Revert(Record, frozen=True, kw_only=True, omit_defaults=True, tag="revert"):
    """The user's undo of the changes that the agent made in ``turn``."""

    kind: ClassVar[str] = "revert"

    cells: list[dict[str, Any]] = []
    """``{cell_id, outcome, current?, earlier?, code?, reason?, outputs?}``.

    ``outcome`` is ``restored``, ``removed``, ``inserted``, ``moved``, or, if the cell was left
    unchanged, ``conflict`` or ``failed``. ``current`` is then its source now and ``earlier`` the
    source before the turn. ``reason`` is a sentence and ``code`` its stable name. ``outputs`` is
    ``restored`` or ``cleared`` if the cell showed outputs of the reverted source."""
    files: list[dict[str, Any]] = []
    """``{path, outcome, code?, reason?}``, where ``outcome`` is ``restored``, ``removed``,
    ``conflict`` or ``failed``."""
    unsaved: str | None = None
    """Why the notebook is not on disk yet, although it was reverted in the browser."""


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
    | RestoreStart
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
