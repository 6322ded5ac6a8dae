"""Outputs as the record keeps them: enough to look at, not what a log would choke on."""

from __future__ import annotations

from typing import Any

SHOWN_CHARS = 200_000
"""Of one text; the panel draws no more, and a session is opened by reading it."""


def shorten(output: dict[str, Any]) -> dict[str, Any]:
    """A notebook output whose long texts are cut in the middle.

    The whole text of what the model was sent is in the session's ``outputs/``, where it was capped;
    the notebook has the outputs of its cells in full.
    """
    if output.get("output_type") == "stream":
        return {**output, "text": _cut(output.get("text", ""))}
    if "data" in output:
        data = {
            kind: _cut(value) if kind.startswith("text/") and kind != "text/html" else value
            for kind, value in output["data"].items()
        }
        return {**output, "data": data}
    return output


def _cut(text: Any) -> Any:
    if not isinstance(text, str) or len(text) <= SHOWN_CHARS:
        return text
    half = SHOWN_CHARS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"
