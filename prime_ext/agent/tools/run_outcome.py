"""The outcome of a run in the kernel, in the forms that the model and the panel get."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from prime_ext.agent.tools.tool import ToolOutcome
from prime_ext.clean_text import without_escapes

if TYPE_CHECKING:
    from prime_ext.kernel.execution import Execution

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image types that the Messages API accepts, in order of preference."""
MAX_IMAGES = 20
SO_FAR_CHARS = 4_000
"""Maximum text of a run that goes on, in characters; the full text follows when it ends."""
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")

DIED = (
    "The kernel died during this run, and the server starts a fresh one. Its variables are gone, "
    "unless it is said here that they were restored; what was defined since the last snapshot has "
    "to be run again. The code itself may be the cause (memory, a crashing library): do not simply "
    "repeat it."
)
ENDED_BY_USER = (
    "The user ended the kernel's process during this run. Its variables are gone, unless it is "
    "said here that they were restored. There may be a reason to stop this code: ask before you "
    "run it again."
)
ABORTED = (
    "The kernel did not begin this run: it was withdrawn from the queue. Run it again if it is "
    "still wanted."
)
NOT_BEGUN = (
    "{cause} None of it has run, and nothing in it is the cause. The kernel's variables are gone, "
    "unless it is said here that they were restored. Run it again if it is still wanted."
)
NO_INPUT = (
    "input(), getpass() and debuggers need a person's input, and cannot be answered here. Put the "
    "value into the code, or ask the user for it in your reply. Look at variables with "
    "inspect_variable, or print them."
)
NO_STOP = (
    "breakpoint() stops the code only where a person debugs it in JupyterLab; otherwise it does "
    "nothing. Look at variables with inspect_variable, or print them."
)
_BREAKPOINT = re.compile(r"^[ \t]*breakpoint\(", re.MULTILINE)

EXPECTED = (
    "The cell is tagged raises-exception: its author expects it to raise. Runs behind it in the "
    "same reply go on."
)
_NOT_RAISED_BY_CODE = frozenset({"ConnectionLost", "KeyboardInterrupt", "StdinNotImplementedError"})


def run_outcome(
    execution: Execution, *notes: str, code: str = "", may_raise: bool = False
) -> ToolOutcome:
    """Return the outcome of an execution: one text block, its images, and outputs for the panel.

    The text contains ``[image n]`` where an image belongs. In ``outputs`` the data of an image is
    replaced by ``{"content_index": n}``, its index in the content. The text comes first, so cutting
    it does not change these indices.

    Parameters
    ----------
    notes:
        Further text for the model, e.g. that the notebook could not be saved.
    code:
        The code that was run, if the model should be told of what it cannot do here.
    may_raise:
        Whether an exception raised by the code is no error.
    """
    texts, images, outputs = _taken_apart(execution.outputs)
    expected = may_raise and _has_raised(execution)
    parts = [_status(execution, bool(texts)), EXPECTED if expected else "", *notes]
    if execution.status == "ok" and _BREAKPOINT.search(code):
        parts.append(NO_STOP)
    text = "\n".join([*texts, *(part for part in parts if part)])
    return ToolOutcome(
        [{"type": "text", "text": text}, *images],
        outputs,
        is_error=execution.status != "ok" and not expected,
        left_out=execution.left_out,
    )


def outcome_so_far(outputs: list[dict[str, Any]], notice: str, *, is_error: bool) -> ToolOutcome:
    """Return the end of the text that a run has put out so far, followed by ``notice``."""
    texts, images, _ = _taken_apart(outputs)
    text = "\n".join(texts)
    if len(text) > SO_FAR_CHARS:
        text = f"[{len(text) - SO_FAR_CHARS:,} characters before]\n{text[-SO_FAR_CHARS:]}"
    figures = f"[{len(images)} images, which come with the run's end]" if images else ""
    parts = [part for part in (text, figures, notice) if part]
    return ToolOutcome([{"type": "text", "text": "\n".join(parts)}], outputs, is_error=is_error)


def outcome_by_then(outputs: list[dict[str, Any]], notice: str) -> ToolOutcome:
    """Return ``notice`` and all outputs so far of a run that is no longer tracked."""
    texts, images, kept = _taken_apart(outputs)
    text = "\n".join([notice, *texts])
    return ToolOutcome([{"type": "text", "text": text}, *images], kept, is_error=True)


def render_outputs(outputs: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the texts of outputs, and their images as content blocks.

    A text contains ``[image n]`` where an image belongs.
    """
    texts, images, _ = _taken_apart(outputs)
    return texts, images


def _taken_apart(
    outputs: list[dict[str, Any]],
) -> tuple[list[str], list[dict[str, Any]], list[dict[str, Any]]]:
    """Split outputs into texts, image blocks, and outputs that refer to the images by index."""
    texts: list[str] = []
    images: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    left_out = 0
    for output in outputs:
        left = output
        if output["output_type"] == "stream":
            texts.append(output["text"])
        elif output["output_type"] == "error":
            texts.append(_traceback(output))
        else:
            data = output["data"]
            kind = _image(data)
            if kind is not None and len(images) == MAX_IMAGES:
                left_out += 1
                kind = None
            if kind is None:
                texts.append(_text(data))
            else:
                encoded = "".join(_join(data[kind]).split())
                source = {"type": "base64", "media_type": kind, "data": encoded}
                images.append({"type": "image", "source": source})
                label = _join(data.get("text/plain", ""))
                texts.append(f"{label} [image {len(images)}]".strip())
                left = {**output, "data": {**data, kind: {"content_index": len(images)}}}
        kept.append(left)
    if left_out:
        texts.append(f"[{left_out} more images, which you are not shown: {MAX_IMAGES} at most]")
    texts = [text for text in (without_escapes(t).rstrip() for t in texts) if text]
    return texts, images, kept


def _status(execution: Execution, has_output: bool) -> str:
    error = execution.error or {}
    if execution.status == "died":
        return DIED if error.get("ename") == "KernelDied" else ENDED_BY_USER
    if execution.status == "aborted":
        return NOT_BEGUN.format(cause=error["evalue"]) if error else ABORTED
    if error.get("ename") == "StdinNotImplementedError":
        return NO_INPUT
    if execution.status == "error" and not any(
        output["output_type"] == "error" for output in execution.outputs
    ):
        return f"{error.get('ename', 'Error')}: {error.get('evalue', '')}"
    return "" if has_output else "Ran without output."


def _has_raised(execution: Execution) -> bool:
    name = (execution.error or {}).get("ename")
    return execution.status == "error" and name not in _NOT_RAISED_BY_CODE


def _image(data: dict[str, Any]) -> str | None:
    return next((kind for kind in IMAGE_TYPES if data.get(kind)), None)


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
