"""Notebook outputs shortened for the record and for the panel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Output = dict[str, Any]

RECORD_TEXT_CHARS = 200_000
"""Maximum length of one text. The panel renders no more, and opening a session reads all of it."""
RECORD_RICH_CHARS = 8_000_000
"""Maximum size of all rich data (figures, HTML tables) of one call, in characters.

Images that the model is sent do not count: they are in the content of the result.
"""
LIVE_TEXT_CHARS = 20_000
LIVE_RICH_CHARS = 1_000_000
"""Limits while code runs, because then all outputs so far are sent several times a second."""


def for_record(outputs: Sequence[Output]) -> list[Output]:
    """Return outputs with long texts cut in the middle, and excess rich data replaced by a text.

    The full text of a capped result is in the session's ``outputs/``, and the notebook has the full
    outputs of its cells.
    """
    return _shortened(outputs, RECORD_TEXT_CHARS, RECORD_RICH_CHARS)


def for_panel(outputs: Sequence[Output]) -> list[Output]:
    """Return outputs of code that still runs, shortened to much smaller limits."""
    return _shortened(outputs, LIVE_TEXT_CHARS, LIVE_RICH_CHARS)


def _shortened(outputs: Sequence[Output], text_chars: int, rich_chars: int) -> list[Output]:
    shortened = []
    for output in outputs:
        if output.get("output_type") == "stream":
            shortened.append({**output, "text": _cut(output.get("text", ""), text_chars)})
        elif "data" in output:
            data = {
                kind: _cut(value, text_chars) if _is_text(kind) else value
                for kind, value in output["data"].items()
            }
            size = sum(_size(value) for kind, value in data.items() if not _is_text(kind))
            if size > rich_chars:
                data = _left_out(data, size)
            else:
                rich_chars -= size
            shortened.append({**output, "data": data})
        else:
            shortened.append(output)
    return shortened


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") and kind != "text/html"


def _size(value: Any) -> int:
    return len(value if isinstance(value, str) else json.dumps(value, default=str))


def _left_out(data: dict[str, Any], size: int) -> dict[str, Any]:
    kinds = ", ".join(kind for kind in data if not _is_text(kind))
    text = {kind: value for kind, value in data.items() if _is_text(kind)}
    label = text.get("text/plain", "")
    return {**text, "text/plain": f"{label} [{kinds}, {size:,} characters, left out here]".strip()}


def _cut(text: Any, limit: int) -> Any:
    if not isinstance(text, str) or len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"
