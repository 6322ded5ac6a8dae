"""The result of a run, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.errors import PrimeError


class ExitStatus(IntEnum):
    """Exit status of the process. The numbers are documented in docs/headless.md and stable."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    APPROVAL_NEEDED = 3
    DECLINED = 4
    LIMIT = 5
    NO_NOTEBOOK = 6
    NO_MODEL = 7
    OPEN_ELSEWHERE = 8
    INTERRUPTED = 130


_OF_CODE = {
    "bad_trait": ExitStatus.USAGE,
    "empty_message": ExitStatus.USAGE,
    "permission_mode_forbidden": ExitStatus.USAGE,
    "approval_needed": ExitStatus.APPROVAL_NEEDED,
    "consent_declined": ExitStatus.DECLINED,
    "notebook_not_found": ExitStatus.NO_NOTEBOOK,
    "notebook_invalid": ExitStatus.NO_NOTEBOOK,
    "notebook_outside_root": ExitStatus.NO_NOTEBOOK,
    "output_exists": ExitStatus.NO_NOTEBOOK,
    "output_not_written": ExitStatus.NO_NOTEBOOK,
    "no_credentials": ExitStatus.NO_MODEL,
    "bad_credentials": ExitStatus.NO_MODEL,
    "model_not_found": ExitStatus.NO_MODEL,
    "not_messages_api": ExitStatus.NO_MODEL,
    "not_installed": ExitStatus.NO_MODEL,
    "unreachable": ExitStatus.NO_MODEL,
    "open_elsewhere": ExitStatus.OPEN_ELSEWHERE,
}
"""Error code → exit status, for errors that have one of their own."""

CUT_SHORT = ("max_tokens", "model_context_window_exceeded", "refusal")
"""Stop reasons of a model that leave its task unfinished."""

_OF_TURN = {
    "ok": ExitStatus.DONE,
    "interrupted": ExitStatus.INTERRUPTED,
    "limit": ExitStatus.LIMIT,
}


@dataclass
class Outcome:
    """The result of a run as ``--json`` prints it."""

    status: ExitStatus = ExitStatus.FAILED
    notebook: str = ""
    """Path of the notebook that was worked on, as given on the command line."""
    session: str | None = None
    """Id of the session, which the panel lists too."""
    model: str | None = None
    reply: str = ""
    """Text of the agent's last message."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """``{name, summary, is_error, duration_ms, text?}`` of each call, as they ended."""
    requests: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    cost_usd: float | None = None
    duration_ms: int = 0
    error: dict[str, Any] | None = None
    """``{code, message, hint}``."""

    def fail(self, failure: PrimeError) -> None:
        """Record an error, and the exit status that belongs to it."""
        self.error = failure.to_dict()
        self.status = _OF_CODE.get(failure.code, ExitStatus.FAILED)

    def end(self, turn_status: str, stop_reason: str, *, declined: bool) -> None:
        """Record how the turn ended. The status of an earlier error is kept.

        Parameters
        ----------
        stop_reason:
            Stop reason of the model's last message.
        declined:
            Whether the person declined a tool call.
        """
        if self.status is ExitStatus.APPROVAL_NEEDED or turn_status == "error":
            return
        self.status = _OF_TURN.get(turn_status, ExitStatus.FAILED)
        if self.status is ExitStatus.DONE and stop_reason in CUT_SHORT:
            self.status = ExitStatus.FAILED
        elif self.status is ExitStatus.DONE and declined:
            self.status = ExitStatus.DECLINED

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        values = {**vars(self), "status": self.status.name.lower()}
        return {**values, "exit_status": int(self.status)}
