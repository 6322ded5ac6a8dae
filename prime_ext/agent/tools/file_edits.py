"""Tools that change files other than notebooks: ``edit_file`` and ``write_file``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prime_ext.agent.tools import secret_files
from prime_ext.agent.tools.file_writing import FileWriting, content_hash
from prime_ext.agent.tools.paths import PATH, Workspace
from prime_ext.agent.tools.text_files import TextFile, read_text, size_text, unified_diff
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import clean_source, fence


async def _edit_file(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    def edit(writing: FileWriting) -> str:
        workspace = context.workspace
        existing, after, target = _edited(workspace, arguments)
        shown = workspace.relative(target)
        writing.write(target, after, shown, existing)
        return f"Edited {shown}:\n{unified_diff(existing.text, after, shown)}"

    return ToolOutcome.text(await FileWriting(context).carry_out(edit))


def _edited(workspace: Workspace, arguments: dict[str, Any]) -> tuple[TextFile, str, Path]:
    """Return the file as read, its text after the edit, and its path."""
    path = arguments["path"]
    target = workspace.target(workspace.relative(workspace.find(path)))
    _no_notebook(target)
    shown = workspace.relative(target)
    existing = read_text(target, shown)
    before = existing.text
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
    after = before.replace(old, new)
    _no_secret(target, after, shown)
    return existing, after, target


async def _write_file(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    def write(writing: FileWriting) -> str:
        workspace = context.workspace
        target = workspace.target(arguments["path"])
        _no_notebook(target)
        shown = workspace.relative(target)
        content = clean_source(arguments["content"])
        _no_secret(target, content, shown)
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
            return f"{shown} already has exactly this content."
        writing.write(target, content, shown, existing)
        return f"Replaced {shown}:\n{unified_diff(existing.text, content, shown)}"

    return ToolOutcome.text(await FileWriting(context).carry_out(write))


async def _preview_edit(context: ToolContext, arguments: dict[str, Any]) -> str:
    def preview() -> str:
        workspace = context.workspace
        existing, after, target = _edited(workspace, arguments)
        return fence(unified_diff(existing.text, after, workspace.relative(target)), "diff")

    return await asyncio.to_thread(preview)


async def _preview_write(context: ToolContext, arguments: dict[str, Any]) -> str:
    def preview() -> str:
        workspace = context.workspace
        target = workspace.target(arguments["path"])
        _no_notebook(target)
        shown = workspace.relative(target)
        context.previewed["content"] = _present(target)
        content = clean_source(arguments["content"])
        _no_secret(target, content, shown)
        before = read_text(target, shown).text if target.exists() else ""
        return fence(unified_diff(before, content, shown), "diff")

    return await asyncio.to_thread(preview)


def _present(target: Path) -> str | None:
    """Return the hash of the file's content; ``None`` if there is no readable file."""
    try:
        return content_hash(target.read_bytes()) if target.exists() else None
    except OSError:  # reported when the file is read
        return None


def _no_notebook(target: Path) -> None:
    if target.suffix.lower() == ".ipynb":
        raise PrimeError(
            "Notebooks are not written as text.",
            code="is_notebook",
            hint="Use insert_cell, edit_cell and the other cell tools for the notebook of this "
            "session; for another one use nbformat in run_code.",
        )


def _no_secret(target: Path, text: str, shown: str) -> None:
    """Refuse to write a secret, because the agent could not read or change that file again."""
    inside = secret_files.secret_inside(target.name, text.encode()[: secret_files.LOOKED_AT_BYTES])
    if inside is not None:
        raise PrimeError(
            f"{shown!r} would hold {inside}. The agent writes no secrets into files: it could not "
            "read or change them again.",
            code="secret_file",
            hint="Have the code take it from the environment (os.environ), or leave a placeholder "
            "such as <your key> and ask the user to fill it in.",
            status=403,
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


TOOLS = [
    Tool(
        name="edit_file",
        description=(
            "Replace one piece of a text file. `old` must be in the file exactly once, with its "
            "indentation and without line numbers. Not for notebooks."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": PATH,
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
                "path": PATH,
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
