"""Tools for the session's notebook: read the notebook, change its cells and run them."""

from __future__ import annotations

from typing import Any

from prime_ext.agent.tools.run_outcome import run_outcome
from prime_ext.agent.tools.runs import Run, begin_run
from prime_ext.agent.tools.text_files import unified_diff
from prime_ext.agent.tools.tool import Preview, Question, Tool, ToolContext, ToolOutcome
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, clean_source, expect_unlocked, fence
from prime_ext.notebook.describe import describe_cell
from prime_ext.notebook.document import Change
from prime_ext.notebook.seen import Changes

FULL_CHARS = 24_000
"""Maximum number of characters of cells that one call shows in full. The other cells are listed
with one line each."""
LISTED = 150
"""Maximum number of cells that one call lists with one line each."""


async def _read_notebook(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    document = context.document
    cells = await document.cells()
    if not cells:
        document.seen.look(cells, [])
        return ToolOutcome.text(f"{document.path} has no cells.")
    wanted = _wanted(cells, arguments)
    full: list[tuple[Cell, str]] = []
    listed: list[Cell] = []
    left = FULL_CHARS
    for cell in wanted:
        text = describe_cell(cell, len(cells))
        # The first cell is always shown in full, so that a very long cell can be read at all.
        if left >= len(text) or not full:
            full.append((cell, text))
            left -= len(text)
        else:
            left = 0
            listed.append(cell)
    changes = document.seen.look(cells, [cell for cell, _ in full])
    parts = [_title(context, cells, wanted, arguments), *_changes(changes)]
    parts += [text for _, text in full]
    if listed:
        parts.append(listing(listed))
    return ToolOutcome.text("\n\n".join(parts))


def _wanted(cells: list[Cell], arguments: dict[str, Any]) -> list[Cell]:
    start = arguments.get("start", 1)
    end = arguments.get("end", len(cells))
    if start > len(cells) or end < start:
        raise PrimeError(
            f"There is no cell from {start} to {end}: the notebook has {len(cells)}.",
            code="bad_range",
            hint="start and end count from 1 and are both included.",
        )
    query = arguments.get("query", "").lower()
    return [
        cell
        for cell in cells[start - 1 : end]
        if not query or query in describe_cell(cell, len(cells)).lower()
    ]


def _title(
    context: ToolContext, cells: list[Cell], wanted: list[Cell], arguments: dict[str, Any]
) -> str:
    title = f"{context.document.path}: {len(cells)} cells"
    if arguments.get("query"):
        return f"{title}, {len(wanted)} with {arguments['query']!r}."
    if len(wanted) < len(cells):
        return f"{title}, {wanted[0].index + 1} to {wanted[-1].index + 1} of them here."
    return f"{title}."


def _changes(changes: Changes) -> list[str]:
    """Return the lines for the model about changes by others since it last read the notebook."""
    if not changes:
        return []
    lines = ["Changed since you last read it, not by you:"]
    lines += [f"- edited: [{c.id}] cell {c.index + 1}: {c.first_line}" for c in changes.edited]
    lines += [f"- inserted: [{c.id}] cell {c.index + 1}: {c.first_line}" for c in changes.inserted]
    lines += [f"- deleted: [{cell_id}], was: {line}" for cell_id, line in changes.deleted]
    if changes.moved:
        lines.append("- cells were moved")
    return ["\n".join(lines)]


def listing(cells: list[Cell]) -> str:
    """Return a listing of cells with one line each."""
    lines = ["Further cells, first lines only; read them with start and end:"]
    lines += [
        f"- [{c.id}] cell {c.index + 1}, {c.cell_type}: {c.first_line}" for c in cells[:LISTED]
    ]
    if len(cells) > LISTED:
        lines.append(f"… and {len(cells) - LISTED} more, to cell {cells[-1].index + 1}")
    return "\n".join(lines)


async def _insert_cell(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    change = await context.document.insert(
        arguments["source"], arguments.get("cell_type", "code"), arguments.get("after")
    )
    kind = change.cell.cell_type
    return _changed(
        change,
        f"Inserted cell id {change.cell.id}, {kind}, at position {change.cell.index + 1}."
        + (" Not run yet." if kind == "code" else ""),
    )


async def _edit_cell(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    change = await context.document.edit(
        arguments["cell_id"], arguments["source"], arguments.get("expected_hash")
    )
    before = change.op.before or {}
    if before.get("source") == change.cell.source:
        return _changed(change, f"Cell [{change.cell.id}] already has exactly this source.")
    return _changed(
        change,
        f"Edited cell [{change.cell.id}]"
        + (", not run since." if change.cell.cell_type == "code" else "."),
    )


async def _delete_cell(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    change = await context.document.delete(arguments["cell_id"])
    return _changed(change, f"Deleted cell [{change.cell.id}].")


async def _move_cell(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    change = await context.document.move(arguments["cell_id"], arguments["after"])
    return _changed(change, f"Cell [{change.cell.id}] is now cell {change.cell.index + 1}.")


async def _run_cell(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    cell_id = arguments["cell_id"]

    async def work(run: Run) -> ToolOutcome:
        ended = await context.document.run(
            cell_id,
            context.kernel,
            on_outputs=lambda outputs: run.show({"outputs": outputs}),
            on_busy=lambda: run.show(
                {"message": "The kernel is busy; the cell runs when it is free."}
            ),
            on_begun=run.begun,
        )
        return run_outcome(
            ended.execution,
            ended.unsaved or "",
            code=ended.cell.source,
            may_raise=ended.cell.may_raise,
        )

    return await begin_run(context, f"Cell [{cell_id}]", work)


def _changed(change: Change, text: str) -> ToolOutcome:
    if change.unsaved:
        text += f" The notebook is not saved: {change.unsaved}"
    return ToolOutcome.text(text)


async def _preview_edit(context: ToolContext, arguments: dict[str, Any]) -> Question:
    cell = await _present(context, arguments["cell_id"], "edit_cell")
    diff = unified_diff(cell.source, clean_source(arguments["source"]), f"cell {cell.id}")
    return Question(
        f"Edit {_named(cell)}",
        fence(diff, "diff") if diff else "The cell already has exactly this source.",
    )


def _preview_source(verb: str, op: str) -> Preview:
    async def preview(context: ToolContext, arguments: dict[str, Any]) -> Question:
        cell = await _present(context, arguments["cell_id"], op)
        language = _language(context) if cell.cell_type == "code" else "markdown"
        return Question(f"{verb} {_named(cell)}", fence(cell.source, language))

    return preview


async def _preview_move(context: ToolContext, arguments: dict[str, Any]) -> Question:
    cell = await _present(context, arguments["cell_id"], "move_cell")
    if arguments["after"] == "":
        return Question(f"Move {_named(cell)}", "It goes to the top.")
    after = await context.document.cell(arguments["after"])
    return Question(
        f"Move {_named(cell)}",
        f"It goes below cell {after.index + 1}:\n{fence(after.first_line)}",
    )


async def _preview_insert(context: ToolContext, arguments: dict[str, Any]) -> Question:
    kind = arguments.get("cell_type", "code")
    after = arguments.get("after")
    if after:
        after = _named(await context.document.cell(after))
    return Question(
        f"Insert a {kind} cell {_place(after)}",
        fence(arguments["source"], _language(context) if kind == "code" else kind),
    )


def _named(cell: Cell) -> str:
    """Return the position and the first line of a cell, by which a person knows it."""
    return f"cell {cell.index + 1}: {cell.first_line}"


async def _present(context: ToolContext, cell_id: str, op: str) -> Cell:
    """Return the cell for a preview of ``op``, and note that this state of it was shown.

    A change of the cell after that is a conflict.
    """
    cell = await context.document.cell(cell_id)
    expect_unlocked({"op": op, "cell_id": cell_id}, cell.metadata)
    if context.document.seen.hash(cell.id) is None:
        context.document.seen.shown(cell)
    return cell


def _place(after: str | None) -> str:
    if after:
        return f"below {after}"
    return "at the end" if after is None else "at the top"


def _language(context: ToolContext) -> str:
    return context.kernel.language or "python"


_CELL_ID = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "description": "Id of the cell, as read_notebook and insert_cell give it; not its position.",
}
_AFTER = {
    "type": "string",
    "maxLength": 64,
}
_SOURCE = {"type": "string", "maxLength": 1_000_000, "description": "All of the cell's source."}

TOOLS = [
    Tool(
        name="read_notebook",
        description=(
            "Read the session's notebook as it is in front of the user, unsaved edits included: "
            "ids, types, sources, whether and how cells were run, outputs in short. start and end "
            "are positions from 1, both included; query finds cells whose source or output "
            "contains a text. Says what the user changed since you last read it."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "start": {"type": "integer", "minimum": 1, "description": "First position."},
                "end": {"type": "integer", "minimum": 1, "description": "Last position."},
                "query": {"type": "string", "maxLength": 1000, "description": "Text to find."},
            },
            "additionalProperties": False,
        },
        approval="read",
        handler=_read_notebook,
        summary=lambda i: (
            f"Look for {i['query']} in the notebook" if i.get("query") else "Read the notebook"
        ),
    ),
    Tool(
        name="insert_cell",
        description=("Insert a cell into the session's notebook. It is not run. Returns its id."),
        input_schema={
            "type": "object",
            "properties": {
                "source": _SOURCE,
                "cell_type": {"enum": ["code", "markdown", "raw"], "description": "Default: code."},
                "after": {
                    **_AFTER,
                    "description": "Id of the cell it follows; the end if left out, the top if "
                    "empty.",
                },
            },
            "required": ["source"],
            "additionalProperties": False,
        },
        approval="edit",
        handler=_insert_cell,
        summary=lambda i: (
            f"Insert a {i.get('cell_type', 'code')} cell "
            + _place(i.get("after") and f"cell {i['after']}")
        ),
        detail=lambda i: fence(i["source"]),
        preview=_preview_insert,
    ),
    Tool(
        name="edit_cell",
        description=(
            "Replace the source of a cell. If it no longer holds what you last read, or what "
            "expected_hash says, nothing is written and you are told what it holds now."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "cell_id": _CELL_ID,
                "source": _SOURCE,
                "expected_hash": {
                    "type": "string",
                    "pattern": "^[0-9a-fA-F]{64}$",
                    "description": "SHA-256, in hex, of the source it has to hold. Default: what "
                    "you last read.",
                },
            },
            "required": ["cell_id", "source"],
            "additionalProperties": False,
        },
        approval="edit",
        handler=_edit_cell,
        summary=lambda i: f"Edit cell {i['cell_id']}",
        detail=lambda i: fence(i["source"]),
        preview=_preview_edit,
    ),
    Tool(
        name="delete_cell",
        description=(
            "Delete a cell of the session's notebook, if it still holds what you last read."
        ),
        input_schema={
            "type": "object",
            "properties": {"cell_id": _CELL_ID},
            "required": ["cell_id"],
            "additionalProperties": False,
        },
        approval="edit",
        handler=_delete_cell,
        summary=lambda i: f"Delete cell {i['cell_id']}",
        preview=_preview_source("Delete", "delete_cell"),
    ),
    Tool(
        name="move_cell",
        description="Move a cell of the session's notebook behind another one.",
        input_schema={
            "type": "object",
            "properties": {
                "cell_id": _CELL_ID,
                "after": {
                    **_AFTER,
                    "description": "Id of the cell it is to follow; the top if empty.",
                },
            },
            "required": ["cell_id", "after"],
            "additionalProperties": False,
        },
        approval="edit",
        handler=_move_cell,
        summary=lambda i: f"Move cell {i['cell_id']}",
        preview=_preview_move,
    ),
    Tool(
        name="run_cell",
        description=(
            "Run a code cell in the notebook's kernel, as the user does with Shift+Enter: its "
            "outputs go into the notebook and come back to you. There is no time limit: what takes "
            "minutes is answered as still running and goes on. If one of several runs in a reply "
            "fails, those behind it are not run."
        ),
        input_schema={
            "type": "object",
            "properties": {"cell_id": _CELL_ID},
            "required": ["cell_id"],
            "additionalProperties": False,
        },
        approval="run",
        handler=_run_cell,
        summary=lambda i: f"Run cell {i['cell_id']}",
        preview=_preview_source("Run", "run_cell"),
    ),
]
