"""Formats a cell as text for the model: source, state and shortened outputs."""

from __future__ import annotations

from typing import Any

from prime_ext.clean_text import without_escapes
from prime_ext.notebook.cell import Cell, fence

OUTPUT_CHARS = 1000
"""Maximum number of characters shown of one output, half of them from each end."""
OUTPUTS_SHOWN = 10
_LOCKED = {"edit_cell": "editing", "delete_cell": "deletion"}
END_CHARS = 2000
"""Number of characters kept at either end of a long output; same as in
``src/notebook/outputs.ts``."""


def describe_cell(cell: Cell, total: int | None = None, *, outputs: bool = True) -> str:
    """Return a heading line, the full source of the cell and its shortened outputs.

    Parameters
    ----------
    total:
        Number of cells in the notebook, if known.
    """
    place = f"cell {cell.index + 1}" if cell.index >= 0 else "a cell"
    if total is not None:
        place += f" of {total}"
    heading = f"[{cell.id}] {place}, {cell.cell_type}"
    if cell.cell_type == "code":
        heading += f", {_state(cell)}"
    if cell.locks:
        heading += f", locked against {' and '.join(_LOCKED[kind] for kind in cell.locks)}"
    parts = [heading, fence(cell.source)]
    if outputs and cell.outputs:
        parts += [f"→ {_output(output)}" for output in cell.outputs[:OUTPUTS_SHOWN]]
        if len(cell.outputs) > OUTPUTS_SHOWN:
            parts.append(f"→ … and {len(cell.outputs) - OUTPUTS_SHOWN} more outputs")
    return "\n".join(parts)


def _state(cell: Cell) -> str:
    if cell.running:
        return "running"
    if cell.execution_count is None:
        return "run before (not counted)" if cell.outputs else "not run"
    failed = any(output.get("output_type") == "error" for output in cell.outputs)
    return f"run as [{cell.execution_count}]{', failed' if failed else ''}"


def _output(output: dict[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return f"{output.get('name', 'stdout')}: {short(_join(output.get('text', '')))}"
    if kind == "error":
        traceback = "\n".join(output.get("traceback") or [])
        what = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
        # Shown with its end, which says what went wrong and where.
        return f"error: {short(what)}\n{short(traceback)}".rstrip()
    data = output.get("data") or {}
    rich = [_rich(mime, value) for mime, value in data.items() if mime != "text/plain"]
    text = short(_join(data.get("text/plain", "")))
    return "; ".join([*rich, text] if text else rich) or "(empty)"


def _rich(mime: str, value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"chars"}:
        return f"{mime} ({value['chars']:,} characters)"
    return f"{mime} ({len(value) if isinstance(value, str) else len(str(value)):,} characters)"


def short(text: str, limit: int = OUTPUT_CHARS) -> str:
    """Remove terminal escapes from ``text``, and its middle if it exceeds ``limit`` characters."""
    text = without_escapes(text).rstrip()
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"


def shorten_outputs(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shorten outputs as a browser does: truncate long text, replace rich data by its size.

    The counterpart of ``shortenOutputs`` in ``src/notebook/outputs.ts``.
    """
    return [_shortened(output) for output in outputs]


def _shortened(output: dict[str, Any]) -> dict[str, Any]:
    kind = output.get("output_type")
    if kind == "stream":
        return {**output, "text": _cut(_join(output.get("text", "")))}
    if kind == "error":
        traceback = _cut("\n".join(output.get("traceback") or []))
        return {**output, "evalue": _cut(str(output.get("evalue", ""))), "traceback": [traceback]}
    data = {
        mime: _cut(_join(value)) if mime == "text/plain" else {"chars": _size(value)}
        for mime, value in (output.get("data") or {}).items()
    }
    return {**output, "data": data, "metadata": {}}


def _cut(text: str) -> str:
    if len(text) <= 2 * END_CHARS:
        return text
    left = len(text) - 2 * END_CHARS
    return f"{text[:END_CHARS]}\n[… {left} characters …]\n{text[-END_CHARS:]}"


def _join(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text or "")


def _size(value: Any) -> int:
    return len(_join(value)) if isinstance(value, str | list) else len(str(value))
