"""Plans for code, cells, files and the session's record."""

from __future__ import annotations

import re

from prime_ext.models.offline import intents as i
from prime_ext.models.offline import observations
from prime_ext.models.offline.bench import Bench, quoted
from prime_ext.models.offline.names import listed
from prime_ext.models.offline.observations import CellSeen, RecordSeen
from prime_ext.models.offline.plans.errors import failed_run
from prime_ext.models.offline.steps import Asking, Plan, Stop


def run_code(intent: i.RunCode, bench: Bench) -> Plan:
    result = yield from bench.call("run_code", code=intent.code)
    bench.forget()
    if result.is_error:
        return (yield from failed_run(result, bench, "The code"))
    output = observations.output(result.text).strip()
    if output:
        return f"It ran:\n\n{quoted(output)}"
    return "It ran and shows a figure." if result.images else "It ran, without output."


def read_notebook(intent: i.ReadNotebook, bench: Bench) -> Plan:
    if intent.cell is not None:
        cell = yield from find(intent.cell, bench)
        return f"Cell {cell.position} (`{cell.id}`, {cell.cell_type}):\n\n{quoted(cell.source)}"
    read = yield from bench.must("read_notebook")
    cells = observations.cells(read.text)
    if not cells:
        return "The notebook has no cells yet."
    lines = [
        f"{cell.position}. {cell.cell_type}"
        f"{f' `In[{cell.execution_count}]`' if cell.execution_count is not None else ''}: "
        f"{_first_line(cell.source)}"
        for cell in cells[:60]
    ]
    total = observations.cell_count(read.text)
    more = f"\n\nand {total - 60} more." if total > 60 else ""
    count = "1 cell" if total == 1 else f"{total} cells"
    return f"The notebook has {count}:\n\n" + "\n".join(lines) + more


def _first_line(source: str) -> str:
    """Return the first line of a cell that is not an import."""
    lines = [line.strip() for line in source.splitlines() if line.strip()] or ["(empty)"]
    line = next((line for line in lines if not line.startswith(("import ", "from "))), lines[0])
    line = line if len(line) <= 70 else line[:69] + "…"
    return f"`{line.replace('`', chr(39))}`"


def insert_cell(intent: i.InsertCell, bench: Bench) -> Plan:
    after = None
    if intent.after == "top":
        after = ""
    elif intent.after is not None:
        after = (yield from find(intent.after, bench)).id
    inserted = yield from bench.must(
        "insert_cell",
        source=intent.source,
        cell_type=intent.cell_type if intent.cell_type != "code" else None,
        after=after,
    )
    cell_id = observations.inserted_id(inserted.text)
    if intent.cell_type == "code":
        bench.last_cell = cell_id
    if not intent.run:
        return f"I inserted the {intent.cell_type} cell."
    if cell_id is None:
        raise Stop("The cell is in the notebook, but I could not tell its id to run it.")
    return (yield from _run(cell_id, "I inserted the cell and ran it", bench))


def edit_cell(intent: i.EditCell, bench: Bench) -> Plan:
    cell = yield from find(intent.cell, bench)
    yield from bench.must("edit_cell", cell_id=cell.id, source=intent.source)
    return f"Cell {cell.position} holds the new source. `run cell {cell.position}` runs it."


def replace_in_cell(intent: i.ReplaceInCell, bench: Bench) -> Plan:
    cell = yield from find(intent.cell, bench)
    count = cell.source.count(intent.old)
    if not count:
        return f"Cell {cell.position} does not contain `{intent.old}`."
    yield from bench.must(
        "edit_cell", cell_id=cell.id, source=cell.source.replace(intent.old, intent.new)
    )
    times = "once" if count == 1 else f"{count} times"
    return f"I replaced `{intent.old}` by `{intent.new}` {times} in cell {cell.position}."


def delete_cell(intent: i.DeleteCell, bench: Bench) -> Plan:
    cell = yield from find(intent.cell, bench)
    yield from bench.must("delete_cell", cell_id=cell.id)
    return f"I deleted cell {cell.position}, which began {_first_line(cell.source)}."


def move_cell(intent: i.MoveCell, bench: Bench) -> Plan:
    cell = yield from find(intent.cell, bench)
    if intent.after == "top":
        after = ""
    else:
        target = yield from find("last" if intent.after == "end" else intent.after, bench)
        if target.id == cell.id:
            return f"Cell {cell.position} is there already."
        after = target.id
    yield from bench.must("move_cell", cell_id=cell.id, after=after)
    return f"I moved the cell that was number {cell.position}."


def run_cell(intent: i.RunCell, bench: Bench) -> Plan:
    if intent.cell == "all":
        return (yield from _run_all(bench))
    if intent.cell == "last" and bench.last_cell is not None:
        return (yield from _run(bench.last_cell, "I ran it", bench))
    cell = yield from find(intent.cell, bench, code_only=intent.cell in ("last", "first"))
    if cell.cell_type != "code":
        return f"Cell {cell.position} is a {cell.cell_type} cell; there is nothing to run."
    return (yield from _run(cell.id, f"I ran cell {cell.position}", bench))


def _run(cell_id: str, lead: str, bench: Bench) -> Plan:
    result = yield from bench.call("run_cell", cell_id=cell_id)
    bench.forget()
    bench.last_cell = cell_id
    if result.is_error:
        return (yield from failed_run(result, bench))
    output = observations.output(result.text).strip()
    return f"{lead}:\n\n{quoted(output)}" if output else f"{lead}."


def _run_all(bench: Bench) -> Plan:
    read = yield from bench.must("read_notebook")
    cells = observations.cells(read.text)
    while cells and cells[-1].position < observations.cell_count(read.text):
        read = yield from bench.must("read_notebook", start=cells[-1].position + 1)
        cells += observations.cells(read.text)
    code = [c for c in cells if c.cell_type == "code" and c.source.strip()]
    if not code:
        return "The notebook has no code cells."
    for done, cell in enumerate(code):
        result = yield from bench.call("run_cell", cell_id=cell.id)
        bench.forget()
        if result.is_error:
            words = yield from failed_run(result, bench, f"Cell {cell.position}")
            return f"{words}\n\n{done} cells ran before it; I stopped there."
    return f"All {len(code)} code cells ran."


def find(reference: str, bench: Bench, *, code_only: bool = False) -> Asking[CellSeen]:
    """Read the notebook and return the cell that ``reference`` means."""
    read = yield from bench.must("read_notebook")
    cells = observations.cells(read.text)
    total = observations.cell_count(read.text)
    if cells and cells[-1].position < total and not _among(cells, reference):
        part = yield from bench.must("read_notebook", **_part(reference, total))
        cells = observations.cells(part.text) or cells
    if code_only:
        cells = [cell for cell in cells if cell.cell_type == "code"] or cells
    cell = pick(cells, reference)
    if not cell.complete:
        part = yield from bench.must("read_notebook", start=cell.position, end=cell.position)
        cell = next((c for c in observations.cells(part.text) if c.id == cell.id), cell)
    return cell


_LAST = 20
"""Number of cells at the end of a long notebook to read when looking for the last one."""


def _among(cells: list[CellSeen], reference: str) -> bool:
    """Whether the cell that ``reference`` means is in ``cells``, the start of a long notebook."""
    return reference == "first" or any(_is(cell, reference) for cell in cells)


def _part(reference: str, total: int) -> dict[str, int | str]:
    """Return ``read_notebook`` arguments for the part of a long notebook with that cell."""
    if reference == "last":
        return {"start": max(1, total - _LAST + 1)}
    if reference.isdigit():
        position = max(1, min(int(reference), total))
        return {"start": position, "end": position}
    count = re.fullmatch(r"In\[(\d+)\]", reference)
    return {"query": f"run as [{count[1]}]" if count is not None else f"[{reference}]"}


def _is(cell: CellSeen, reference: str) -> bool:
    return reference in (cell.id, str(cell.position), f"In[{cell.execution_count}]")


def pick(cells: list[CellSeen], reference: str) -> CellSeen:
    """Return one of ``cells`` by position, ``In[n]``, ``first``, ``last`` or id.

    Raises
    ------
    Stop
        If no cell matches.
    """
    if not cells:
        raise Stop("The notebook has no cells yet.")
    if reference in ("first", "last"):
        return cells[0 if reference == "first" else -1]
    for cell in cells:
        if _is(cell, reference):
            return cell
    if reference.startswith("In["):
        counts = [f"In[{c.execution_count}]" for c in cells if c.execution_count is not None]
        raise Stop(f"No cell is `{reference}`. There are {listed(counts) or 'none that ran'}.")
    raise Stop(f"There is no cell {reference}: the notebook has cells 1 to {cells[-1].position}.")


def list_files(intent: i.ListFiles, bench: Bench) -> Plan:
    path = intent.path or bench.folder
    result = yield from bench.must("list_files", path=path or None)
    return quoted(result.text, 60)


def read_file(intent: i.ReadFile, bench: Bench) -> Plan:
    path = intent.path
    if bench.folder and not path.startswith(("/", "~", bench.folder + "/")):
        beside = yield from bench.call("read_file", path=f"{bench.folder}/{path}")
        if not beside.is_error:
            return f"`{path}`:\n\n{quoted(beside.text, 60)}"
    result = yield from bench.must("read_file", path=path)
    return f"`{path}`:\n\n{quoted(result.text, 60)}"


def search_files(intent: i.SearchFiles, bench: Bench) -> Plan:
    result = yield from bench.must("search_files", pattern=intent.pattern)
    return f"Search for `{intent.pattern}`:\n\n{quoted(result.text)}"


RECALLED = "From the session's record"


def recall(intent: i.Recall, bench: Bench) -> Asking[str | None]:
    """Search the record for the query, else for its longest words; ``None`` without any hit."""
    found = yield from _search_record(intent.query, bench)
    words = intent.query.split()
    for word in sorted(words, key=len, reverse=True)[:3] if len(words) > 1 else ():
        if not found:
            found = yield from _search_record(word, bench)
    if not found:
        return None
    read = yield from bench.must("session_read", seqs=[record.seq for record in found[:3]])
    shown = [
        f"Record {record.seq}, {_KINDS.get(record.kind, record.kind)}:\n\n{quoted(record.text, 20)}"
        for record in observations.records(read.text)
    ]
    more = f"\n\n{len(found) - 3} more records mention it." if len(found) > 3 else ""
    return "\n\n".join([f"{RECALLED}:", *shown]) + more


_KINDS = {
    "user_message": "you wrote",
    "assistant_message": "I said or called",
    "tool_result": "a result",
    "notebook_op": "a change of the notebook",
    "error": "an error",
}


def _search_record(query: str, bench: Bench) -> Asking[list[RecordSeen]]:
    """Return the hits, except the question itself and earlier answers from the record."""
    result = yield from bench.must("session_search", query=query)
    question = " ".join(bench.conversation.question.split())
    return [
        record
        for record in observations.records(result.text)
        if not (record.kind == "user_message" and question.startswith(record.text.strip("…")))
        and not record.text.startswith(RECALLED)
    ]
