"""The exception whose message is shown to users and to the model."""

from __future__ import annotations

from typing import Any


class PrimeError(Exception):
    """An error with a message for the user (or the model) who caused it.

    Parameters
    ----------
    message:
        What happened, in one sentence.
    hint:
        What to do about it, in one sentence. Empty if there is nothing to do.
    code:
        Stable machine-readable name in ``snake_case``, e.g. ``"session_not_found"``.
    status:
        HTTP status of a REST response with this error: 4xx for bad input, 502 or 503 if the
        model or the kernel failed.
    """

    def __init__(self, message: str, *, code: str, hint: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.status = status

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON values, as REST responses and ``error`` frames carry it."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


def sentences(*parts: str) -> str:
    """Join the non-empty ``parts`` to one text, adding a full stop where a part lacks one.

    A part that ends with a code fence is followed by a blank line instead.
    """
    return "".join(f"{part}{_end(part)}" for part in parts if part).rstrip()


def _end(part: str) -> str:
    if part.endswith("```"):
        return "\n\n"
    return " " if part.endswith((".", "!", "?", ":", "…")) else ". "
