"""Records of what keeps the context small."""

from __future__ import annotations

from typing import Any, ClassVar

from prime_ext.session.records.record import Block, Record


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
