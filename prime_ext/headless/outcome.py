"""How a run ended, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.errors import PrimeError


class ExitStatus(IntEnum):
    """What the process ends with. Listed in docs/headless.md; the numbers stay."""

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
    "not_installed": ExitStatus.NO_MODEL,
    "unreachable": ExitStatus.NO_MODEL,
    "open_elsewhere": ExitStatus.OPEN_ELSEWHERE,
}
"""Codes of errors that have a status of their own."""

CUT_SHORT = ("max_tokens", "model_context_window_exceeded", "refusal")
"""Reasons for which a model stops that leave its task undone."""

_OF_TURN = {
    "ok": ExitStatus.DONE,
    "interrupted": ExitStatus.INTERRUPTED,
    "limit": ExitStatus.LIMIT,
}


@dataclass
class Outcome:
    """Everything a script may want to know; ``--json`` prints it."""

    status: ExitStatus = ExitStatus.FAILED
    notebook: str = ""
    """Path of the notebook that was worked on, as the shell knows it."""
    session: str | None = None
    """Id of the conversation, which the panel lists as well."""
    model: str | None = None
    reply: str = ""
    """Text of the last message."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """``{name, summary, is_error, duration_ms}`` of each call, as they ended."""
    requests: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    cost_usd: float | None = None
    duration_ms: int = 0
    error: dict[str, Any] | None = None
    """``{code, message, hint}``."""

    def fail(self, failure: PrimeError) -> None:
        """Take over what went wrong."""
        self.error = failure.to_dict()
        self.status = _OF_CODE.get(failure.code, ExitStatus.FAILED)

    def end(self, turn_status: str, stop_reason: str, *, declined: bool) -> None:
        """Take over how the turn ended. What was found to be wrong in it stays.

        Parameters
        ----------
        stop_reason:
            Why the model's last message ended.
        declined:
            The person said no to a call.
        """
        if self.status is ExitStatus.APPROVAL_NEEDED or turn_status == "error":
            return
        self.status = _OF_TURN.get(turn_status, ExitStatus.FAILED)
        if self.status is ExitStatus.DONE and stop_reason in CUT_SHORT:
            self.status = ExitStatus.FAILED
        elif self.status is ExitStatus.DONE and declined:
            self.status = ExitStatus.DECLINED

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        values = {**vars(self), "status": self.status.name.lower()}
        return {**values, "exit_status": int(self.status)}
