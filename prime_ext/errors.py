"""The one exception that reaches people: what went wrong, and what to do about it."""

from __future__ import annotations

from typing import Any


class PrimeError(Exception):
    """A failure with a message for the person (or the model) who caused it.

    Parameters
    ----------
    message:
        One plain sentence: what happened.
    hint:
        One plain sentence: what to do now. Empty if there is nothing to do.
    code:
        Stable machine-readable name in ``snake_case``, e.g. ``"session_not_found"``.
    status:
        HTTP status a REST door answers with (4xx for bad input, 502/503 for a model or kernel
        that fails).
    """

    def __init__(self, message: str, *, code: str, hint: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.status = status

    def to_dict(self) -> dict[str, Any]:
        """The JSON body of a REST error and the payload of an ``error`` record."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


def sentences(*parts: str) -> str:
    """``parts`` as sentences, each with an end; a fence ends with its line."""
    return "".join(f"{part}{_end(part)}" for part in parts if part).rstrip()


def _end(part: str) -> str:
    if part.endswith("```"):
        return "\n\n"
    return " " if part.endswith((".", "!", "?", ":", "…")) else ". "
