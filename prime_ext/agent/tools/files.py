"""Tools for the files beside the notebook: list, read, search, edit and write."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from prime_ext.agent.image_scaling import difference, scaled
from prime_ext.agent.tools import search_worker, secret_files
from prime_ext.agent.tools.file_writing import FileWriting, content_hash
from prime_ext.agent.tools.paths import Workspace
from prime_ext.agent.tools.text_files import (
    facts,
    read_text,
    size_text,
    unified_diff,
)
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from prime_ext.clean_text import well_formed
from prime_ext.context.image_limits import refusal
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, clean_source, fence
from prime_ext.notebook.describe import describe_cell

MAX_ENTRIES = 500
MAX_HITS = 200
SEARCH_SECONDS = 20.0
READ_LINES = 2000
"""Lines of one reading where no range is given."""
IMAGE_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp",
}  # fmt: skip
MAX_IMAGE_BYTES = 50_000_000
"""Of an image that is shown, if need be smaller."""


_HELD_BACK = "(not readable: may hold secrets)"


def _workspace(context: ToolContext) -> Workspace:
    return Workspace(context.root, context.session.folder)


async def _list_files(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    workspace = _workspace(context)
    listing = await asyncio.to_thread(describe_folder, workspace, arguments.get("path", ""))
    return ToolOutcome.text(listing)


def describe_folder(workspace: Workspace, path: str) -> str:
    """What a folder holds, a line for each entry; of a file, the facts.

    Raises
    ------
    PrimeError
        As ``Workspace.find``, or ``file_unreadable``.
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
    entries.sort(key=lambda entry: (not entry.is_dir(), entry.name.lower()))
    title = "the server's root" if shown == "." else shown
    if not entries:
        return f"{title} is empty."
    lines = [f"{title}, {len(entries)} entries:"]
    lines += [_entry(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"… and {len(entries) - MAX_ENTRIES} more; list a folder below, or search.")
    return "\n".join(lines)


def _entry(entry: Path) -> str:
    try:
        status = entry.stat()
    except OSError:
        return f"{entry.name}  (broken link)"
    if stat.S_ISDIR(status.st_mode):
        return f"{entry.name}/" + (
            f"  {_HELD_BACK}" if entry.name.lower() in secret_files.FOLDERS else ""
        )
    modified = datetime.fromtimestamp(status.st_mtime, tz=timezone.utc)
    note = f"  {_HELD_BACK}" if secret_files.is_secret(entry.name) else ""
    return f"{entry.name}  {size_text(status.st_size)}  {modified:%Y-%m-%d %H:%M}{note}"


async def _read_file(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    content = await asyncio.to_thread(
        read_file,
        _workspace(context),
        arguments["path"],
        arguments.get("start"),
        arguments.get("end"),
    )
    return ToolOutcome(content)


def read_file(
    workspace: Workspace, path: str, start: int | None = None, end: int | None = None
) -> list[dict[str, Any]]:
    """A file as blocks for the model: numbered lines, the cells of a notebook, or an image.

    Parameters
    ----------
    start, end:
        First and last line or cell, from 1.

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
    data = base64.b64encode(file.read_bytes()).decode()
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
    """First and last of a 1-based, inclusive range, within ``count``."""
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


async def _search_files(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    workspace = _workspace(context)
    base = await asyncio.to_thread(workspace.find, arguments.get("path", ""))
    job = {
        "pattern": well_formed(arguments["pattern"]),
        "base": str(base),
        "own": workspace.is_own(base),
        "max_hits": MAX_HITS,
    }
    hits, complete = await _run_search(job)
    where = workspace.relative(base)
    place = "the server's root" if where == "." else where
    if not hits:
        text = f"No match for {arguments['pattern']!r} in {place}."
        if not complete:
            text += f" The search was stopped after {SEARCH_SECONDS:.0f} s; try a smaller folder."
        return ToolOutcome.text(text)
    lines: list[str] = []
    last_path = None
    for hit in hits:
        if hit["path"] != last_path:
            last_path = hit["path"]
            lines.append(workspace.relative(Path(hit["path"])))
        lines.append(f"  {hit['where']}: {hit['line']}")
    if len(hits) == MAX_HITS:
        lines.append(f"[Only the first {MAX_HITS} matches; search for something rarer.]")
    elif not complete:
        lines.append(f"[Stopped after {SEARCH_SECONDS:.0f} s: there may be more.]")
    return ToolOutcome.text("\n".join(lines))


async def _run_search(job: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """Hits of the search process, and whether it came to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        search_worker.__file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hits: list[dict[str, Any]] = []
    complete = False

    async def collect(stdout: asyncio.StreamReader) -> bool:
        async for line in stdout:
            hit = json.loads(line)
            if "done" in hit:
                return True
            hits.append(hit)
        return False

    try:
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        complete = await asyncio.wait_for(collect(process.stdout), SEARCH_SECONDS)
    except asyncio.TimeoutError:
        pass
    finally:
        if process.returncode is None:
            if not complete:
                process.kill()
            await process.wait()
    return hits, complete


async def _edit_file(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    def edit(writing: FileWriting) -> str:
        workspace = _workspace(context)
        before, after, target = _edited(workspace, arguments)
        shown = workspace.relative(target)
        writing.write(target, after, shown, read_text(target, shown))
        return f"Edited {shown}:\n{unified_diff(before, after, shown)}"

    return ToolOutcome.text(await FileWriting(context).carry_out(edit))


def _edited(workspace: Workspace, arguments: dict[str, Any]) -> tuple[str, str, Path]:
    """Text before and after an edit, and the file."""
    path = arguments["path"]
    target = workspace.target(workspace.relative(workspace.find(path)))
    _no_notebook(target)
    shown = workspace.relative(target)
    before = read_text(target, shown).text
    old, new = clean_source(arguments["old"]), clean_source(arguments["new"])
    if old == new:
        raise PrimeError("old and new are the same: nothing to change.", code="no_change")
    count = before.count(old)
    if count != 1:
        raise PrimeError(
            f"The text to replace is in {shown!r} {_times(count)}; it has to be there once.",
            code="text_not_unique" if count else "text_not_found",
            hint=f"It begins on lines {_line_numbers(before, old)}. Include more of the lines "
            "around the one you mean."
            if count
            else "Read the file and copy the text exactly, without the line numbers.",
        )
    return before, before.replace(old, new), target


async def _write_file(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    def write(writing: FileWriting) -> str:
        workspace = _workspace(context)
        target = workspace.target(arguments["path"])
        _no_notebook(target)
        shown = workspace.relative(target)
        content = clean_source(arguments["content"])
        if context.previewed and context.previewed["content"] != _present(target):
            raise PrimeError(
                f"{shown!r} was changed while the call waited for its approval. Nothing was done.",
                code="file_changed",
                hint="Read it, and make the call again if it still fits.",
                status=409,
            )
        if not target.exists():
            writing.write(target, content, shown, None)
            lines = content.count("\n") + (not content.endswith("\n") and content != "")
            return f"Wrote {shown}: {lines} lines, {size_text(len(content.encode()))}."
        existing = read_text(target, shown)
        if existing.text == content:
            return f"{shown} holds exactly this already."
        writing.write(target, content, shown, existing)
        return f"Replaced {shown}:\n{unified_diff(existing.text, content, shown)}"

    return ToolOutcome.text(await FileWriting(context).carry_out(write))


async def _preview_edit(context: ToolContext, arguments: dict[str, Any]) -> str | None:
    def preview() -> str | None:
        try:
            workspace = _workspace(context)
            before, after, target = _edited(workspace, arguments)
            return fence(unified_diff(before, after, workspace.relative(target)), "diff")
        except PrimeError as error:
            return f"This will fail: {error.message}"

    return await asyncio.to_thread(preview)


async def _preview_write(context: ToolContext, arguments: dict[str, Any]) -> str | None:
    def preview() -> str | None:
        try:
            workspace = _workspace(context)
            target = workspace.target(arguments["path"])
            _no_notebook(target)
            shown = workspace.relative(target)
            context.previewed["content"] = _present(target)
            before = read_text(target, shown).text if target.exists() else ""
        except PrimeError as error:
            return f"This will fail: {error.message}"
        return fence(unified_diff(before, clean_source(arguments["content"]), shown), "diff")

    return await asyncio.to_thread(preview)


def _present(target: Path) -> str | None:
    """Hash of what the file holds; ``None`` if it is not there."""
    try:
        return content_hash(target.read_bytes()) if target.exists() else None
    except OSError:  # said by whoever reads it
        return None


def _no_notebook(target: Path) -> None:
    if target.suffix.lower() == ".ipynb":
        raise PrimeError(
            "Notebooks are not written as text.",
            code="is_notebook",
            hint="Use insert_cell, edit_cell and the other cell tools for the notebook of this "
            "session; for another one use nbformat in run_code.",
        )


def _times(count: int) -> str:
    return "not at all" if count == 0 else f"{count} times"


def _line_numbers(text: str, part: str) -> str:
    numbers: list[str] = []
    at = text.find(part)
    while at != -1 and len(numbers) < 10:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(part, at + 1)
    return ", ".join(numbers)


_PATH = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "Path relative to the Jupyter server's root folder.",
}
_FOLDER = {**_PATH, "minLength": 0}

TOOLS = [
    Tool(
        name="list_files",
        description=(
            "List a folder below the Jupyter server's root: names, sizes, times of change. "
            "Without a path, the root itself. Hidden files are left out."
        ),
        input_schema={
            "type": "object",
            "properties": {"path": _FOLDER},
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
                "path": _PATH,
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
    Tool(
        name="search_files",
        description=(
            "Search text files and notebooks below a folder for a regular expression (Python's "
            "syntax; taken literally if it is not a valid one), line by line. Hidden, binary and "
            "very large files are left out. Gives file, line and text of each match."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": 1000},
                "path": {**_FOLDER, "description": "Folder or file to search. Default: all."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        approval="read",
        handler=_search_files,
        summary=lambda i: f"Search for {i['pattern']} in {i.get('path') or 'all files'}",
    ),
    Tool(
        name="edit_file",
        description=(
            "Replace one piece of a text file. `old` must be in the file exactly once, with its "
            "indentation and without line numbers. Not for notebooks."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": _PATH,
                "old": {"type": "string", "minLength": 1, "description": "Text to replace."},
                "new": {"type": "string", "description": "Text to put in its place."},
            },
            "required": ["path", "old", "new"],
            "additionalProperties": False,
        },
        approval="write",
        handler=_edit_file,
        summary=lambda i: f"Edit {i['path']}",
        detail=lambda i: fence(unified_diff(i["old"], i["new"], i["path"]), "diff"),
        preview=_preview_edit,
    ),
    Tool(
        name="write_file",
        description=(
            "Create a text file, or replace all of its content; folders are made as needed. To "
            "change part of a file use edit_file. Not for notebooks."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": _PATH,
                "content": {
                    "type": "string",
                    "maxLength": 5_000_000,
                    "description": "All of the file's text.",
                },
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        approval="write",
        handler=_write_file,
        summary=lambda i: f"Write {i['path']}",
        detail=lambda i: fence(i["content"]),
        preview=_preview_write,
    ),
]
