"""What a run in the kernel came to, as the model and the panel are told it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from prime_ext.agent.tools.tool import ToolOutcome

if TYPE_CHECKING:
    from prime_ext.kernel.execution import Execution

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What the Messages API takes, in the order of preference."""
MAX_IMAGE_CHARS = 5_000_000
"""Base64 characters of one image at most."""
MAX_IMAGES = 20
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def run_outcome(execution: Execution, *notes: str) -> ToolOutcome:
    """Text and images of a run in their order, and the outputs for the panel.

    Parameters
    ----------
    notes:
        What else the model has to know, e.g. that the notebook could not be saved.

    An image in ``content`` stands in ``outputs`` as ``{"content_index": i}``.
    """
    content: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
    images = 0
    for output in execution.outputs:
        if output["output_type"] == "stream":
            _add_text(content, output["text"])
        elif output["output_type"] == "error":
            _add_text(content, _traceback(output))
        else:
            image = _image(output["data"]) if images < MAX_IMAGES else None
            if image is not None:
                images += 1
                _add_image(content, image, output["data"])
                data = {**output["data"], image: {"content_index": len(content) - 1}}
                outputs.append({**output, "data": data})
                continue
            _add_text(content, _text(output["data"]))
        outputs.append(output)
    _end_text(content)
    status = _status(execution, bool(content))
    if status:
        content.append({"type": "text", "text": status})
    content += [{"type": "text", "text": note} for note in notes if note]
    return ToolOutcome(content, outputs, is_error=execution.status != "ok")


def _status(execution: Execution, has_output: bool) -> str:
    if execution.status == "died":
        return "The kernel died during this run."
    if execution.status == "aborted":
        return "The kernel did not begin this run: it was withdrawn from the queue."
    if execution.status == "error" and not any(
        output["output_type"] == "error" for output in execution.outputs
    ):
        error = execution.error or {}
        return f"{error.get('ename', 'Error')}: {error.get('evalue', '')}"
    return "" if has_output else "Ran without output."


def _add_text(content: list[dict[str, Any]], text: str) -> None:
    """Add text behind the text before it, each output on a line of its own."""
    text = _ANSI.sub("", text)
    if not text.strip():
        return
    last = content[-1] if content else None
    if last is not None and last["type"] == "text":
        gap = "" if last["text"].endswith("\n") else "\n"
        last["text"] += gap + text
    else:
        content.append({"type": "text", "text": text})


def _end_text(content: list[dict[str, Any]]) -> None:
    for block in content:
        if block["type"] == "text":
            block["text"] = block["text"].rstrip("\n")


def _add_image(content: list[dict[str, Any]], media_type: str, data: dict[str, Any]) -> None:
    _add_text(content, _text({"text/plain": data.get("text/plain", "")}))
    encoded = "".join(_join(data[media_type]).split())
    source = {"type": "base64", "media_type": media_type, "data": encoded}
    content.append({"type": "image", "source": source})


def _image(data: dict[str, Any]) -> str | None:
    return next(
        (kind for kind in IMAGE_TYPES if data.get(kind) and len(data[kind]) <= MAX_IMAGE_CHARS),
        None,
    )


def _text(data: dict[str, Any]) -> str:
    for kind in TEXT_TYPES:
        value = data.get(kind)
        if value:
            return _join(value) if kind != "application/json" else json.dumps(value)
    kinds = ", ".join(data)
    return f"[{kinds}]" if kinds else ""


def _traceback(output: dict[str, Any]) -> str:
    lines = output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"]
    return "\n".join(lines)


def _join(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
