"""Tools that read files: ``list_files`` and ``read_file``."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from prime_ext.agent.image_scaling import difference, scaled
from prime_ext.agent.tools import secret_files
from prime_ext.agent.tools.paths import FOLDER, PATH, Workspace
from prime_ext.agent.tools.text_files import facts, read_text, size_text, unreadable
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from prime_ext.context.image_limits import refusal
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell
from prime_ext.notebook.describe import describe_cell

MAX_ENTRIES = 500
READ_LINES = 2000
"""Maximum number of lines that one call returns if no range is given."""
IMAGE_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp",
}  # fmt: skip
MAX_IMAGE_BYTES = 50_000_000
"""Maximum size of an image file that is shown, scaled down if necessary."""


_HELD_BACK = "(not readable: may hold secrets)"


async def _list_files(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    workspace = context.workspace
    listing = await asyncio.to_thread(describe_folder, workspace, arguments.get("path", ""))
    return ToolOutcome.text(listing)


def describe_folder(workspace: Workspace, path: str) -> str:
    """Return a listing of a folder with one line per entry, or the facts about a file.

    Raises
    ------
    PrimeError
        As ``Workspace.find``, or ``file_unreadable`` (403).
    """
    folder = workspace.find(path)
    shown = workspace.relative(folder)
    if not folder.is_dir():
        return f"{shown}: {facts(folder)}"
    try:
        entries = [e for e in folder.iterdir() if not e.name.startswith(".")]
    except OSError as error:
        raise PrimeError(
            f"{path!r} could not be listed: {error.strerror}.", code="file_unreadable", status=403
        ) from error
    entries.sort(key=lambda entry: (not _is_folder(entry), entry.name.lower()))
    title = "the server's root" if shown == "." else shown
    if not entries:
        return f"{title} is empty."
    lines = [f"{title}, {len(entries)} entries:"]
    lines += [_entry(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"… and {len(entries) - MAX_ENTRIES} more; list a folder below, or search.")
    return "\n".join(lines)


def _is_folder(entry: Path) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to a place that the server cannot read
        return False


def _entry(entry: Path) -> str:
    try:
        status = entry.stat()
    except PermissionError:
        return f"{entry.name}  (not accessible)"
    except OSError:
        return f"{entry.name}  (broken link)"
    if stat.S_ISDIR(status.st_mode):
        return f"{entry.name}/" + (
            f"  {_HELD_BACK}" if entry.name.lower() in secret_files.FOLDERS else ""
        )
    modified = datetime.fromtimestamp(status.st_mtime, tz=timezone.utc)
    note = f"  {_HELD_BACK}" if secret_files.is_held_back(entry) else ""
    return f"{entry.name}  {size_text(status.st_size)}  {modified:%Y-%m-%d %H:%M}{note}"


async def _read_file(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    content = await asyncio.to_thread(
        read_file,
        context.workspace,
        arguments["path"],
        arguments.get("start"),
        arguments.get("end"),
    )
    return ToolOutcome(content)


def read_file(
    workspace: Workspace, path: str, start: int | None = None, end: int | None = None
) -> list[dict[str, Any]]:
    """Read a file and return content blocks for the model.

    These are numbered lines, the cells of a notebook, or an image.

    Parameters
    ----------
    start, end:
        First and last line or cell, counted from 1 and both included.

    Raises
    ------
    PrimeError
        As ``Workspace.find`` and ``read_text``, ``not_a_file``, ``bad_range`` or ``image_refused``.
    """
    file = workspace.find(path)
    shown = workspace.relative(file)
    if file.is_dir():
        raise PrimeError(f"{path!r} is a folder.", code="not_a_file", hint="Call list_files.")
    if file.suffix.lower() in IMAGE_TYPES and file.stat().st_size <= MAX_IMAGE_BYTES:
        return _image(file, shown)
    text = read_text(file, shown).text
    if file.suffix.lower() == ".ipynb":
        text = _notebook(text, shown, start, end)
    else:
        text = _numbered(text, shown, start, end) + _data_hint(file, shown)
    return [{"type": "text", "text": text}]


def _image(file: Path, shown: str) -> list[dict[str, Any]]:
    try:
        data = base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        raise unreadable(shown, error) from error
    media_type = IMAGE_TYPES[file.suffix.lower()]
    source = {"type": "base64", "media_type": media_type, "data": data}
    image = {"type": "image", "source": source}
    fit = scaled(image)
    reason = refusal(fit)
    if reason is not None:
        raise PrimeError(
            f"{shown!r} cannot be shown: {reason}. It is {facts(file)}.",
            code="image_refused",
            hint="Make a smaller copy in run_code and read that.",
            status=415,
        )
    note = "" if fit is image else f"; {difference(image, fit)}"
    return [{"type": "text", "text": f"{shown}: {facts(file)}{note}"}, fit]


def _numbered(text: str, shown: str, start: int | None, end: int | None) -> str:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return f"{shown} is empty."
    first, last = _range(len(lines), start, end, READ_LINES)
    body = "\n".join(
        f"{number}\t{line}" for number, line in enumerate(lines[first - 1 : last], first)
    )
    if (first, last) == (1, len(lines)):
        return body
    return f"{body}\n[Lines {first} to {last} of {len(lines)} of {shown}.]"


def _range(count: int, start: int | None, end: int | None, most: int) -> tuple[int, int]:
    """Clip an inclusive range, counted from 1, to ``count`` elements; return first and last."""
    first = max(1, start or 1)
    last = min(count, end if end is not None else first + most - 1)
    if first > count or last < first:
        raise PrimeError(
            f"There is nothing from {first} to {end or 'the end'}: there are {count} in all.",
            code="bad_range",
            hint="start and end count from 1 and are both included.",
        )
    return first, last


def _notebook(text: str, shown: str, start: int | None, end: int | None) -> str:
    try:
        raw_cells = json.loads(text)["cells"]
        cells = [
            Cell.from_nbformat({**raw, "id": raw.get("id", f"#{i + 1}")}, i)
            for i, raw in enumerate(raw_cells)
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return _numbered(text, shown, start, end)
    if not cells:
        return f"{shown} is a notebook without cells."
    first, last = _range(len(cells), start, end, len(cells))
    parts = [describe_cell(cell, len(cells)) for cell in cells[first - 1 : last]]
    note = "As saved on disk. For the notebook of this session use read_notebook."
    return "\n\n".join([f"{shown}: cells {first} to {last} of {len(cells)}. {note}", *parts])


def _data_hint(file: Path, shown: str) -> str:
    if file.suffix.lower() in (".csv", ".tsv"):
        return f"\n[A data file: to work with it, load {shown} with pandas in run_code.]"
    return ""


TOOLS = [
    Tool(
        name="list_files",
        description=(
            "List a folder below the Jupyter server's root: names, sizes, times of change. "
            "Without a path, the root itself. Hidden files are left out."
        ),
        input_schema={
            "type": "object",
            "properties": {"path": FOLDER},
            "additionalProperties": False,
        },
        approval="read",
        handler=_list_files,
        summary=lambda i: f"List {i.get('path') or 'the files'}",
    ),
    Tool(
        name="read_file",
        description=(
            "Read a text file, with line numbers; a range of lines with start and end (from 1, "
            "both included). Images are shown. A notebook other than the session's own is shown "
            "as its cells, start and end counting cells. Data files are better loaded in "
            "run_code. Also reads the session's own log and outputs by the path in a recovery "
            "hint."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": PATH,
                "start": {"type": "integer", "minimum": 1, "description": "First line."},
                "end": {"type": "integer", "minimum": 1, "description": "Last line."},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        approval="read",
        handler=_read_file,
        summary=lambda i: f"Read {i['path']}",
    ),
]
