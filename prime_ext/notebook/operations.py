"""Operations on the cells of a notebook, applied to its JSON. Pure: no I/O, no clock.

An operation is a dict as defined in ``src/api/frames.ts``. Operations are idempotent, so that one
can be sent again if it is unknown whether it arrived.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import CellConflict, CellNotFound, expect_unlocked, source_hash

_VALID_ID = re.compile(r"[a-zA-Z0-9\-_]{1,64}")


@dataclass(frozen=True)
class Applied:
    """The cell before and after an operation, as ``{source, cell_type, index, prev, next}``.

    ``prev`` and ``next`` are the ids of the neighbours. ``None`` means that the cell did not exist.
    For a deletion and for the result of a run, ``before`` also has ``cell``, the whole cell in
    nbformat. For late outputs, ``after`` also has ``outputs``, the number of outputs that the cell
    shows, and its ``execution_count``.
    """

    before: dict[str, Any] | None
    after: dict[str, Any] | None


def apply_operation(
    notebook: dict[str, Any], operation: dict[str, Any], *, repeated: bool = False
) -> Applied:
    """Apply ``operation`` to ``notebook`` in place.

    Parameters
    ----------
    repeated:
        Whether the operation was sent before and may already have been applied.

    Raises
    ------
    CellNotFound, CellConflict, CellLocked
        Nothing was changed.
    PrimeError
        With the code ``not_a_code_cell`` if the cell cannot have outputs, or ``run_superseded`` if
        it shows another run by now. Nothing was changed.
    """
    cells: list[dict[str, Any]] = notebook["cells"]
    kind = operation["op"]
    cell_id = operation["cell_id"]

    if kind == "insert_cell":
        index = _find(cells, cell_id)
        if index is None:
            index = _index_behind(cells, operation["after"])
            fresh = new_cell(cell_id, operation["cell_type"], operation["source"])
            # A cell that is brought back keeps its outputs, metadata and execution count.
            kept = operation.get("cell") or {}
            own = {key: fresh[key] for key in ("id", "cell_type", "source")}
            cells.insert(index, {**fresh, **kept, **own})
        return Applied(None, _state(cells, index))

    index = _find(cells, cell_id)
    if index is None:
        if kind == "delete_cell" and repeated:
            return Applied(None, None)
        raise CellNotFound(cell_id)
    cell = cells[index]
    before = _state(cells, index)

    if kind == "edit_cell":
        if source_hash(_source(cell)) == source_hash(operation["source"]):
            return Applied(before, before)
        expect_unlocked(operation, cell.get("metadata") or {})
        _expect(cell, operation, proposed=operation["source"])
        cell["source"] = operation["source"]
        if "outputs" in operation:
            _show(cell, operation, trusted=operation["trusted"])
    elif kind == "delete_cell":
        expect_unlocked(operation, cell.get("metadata") or {})
        _expect(cell, operation)
        del cells[index]
        return Applied({**before, "cell": cell}, None)
    elif kind == "move_cell":
        if operation["after"] != cell_id:
            # Check first: if `after` does not exist, the cell must stay where it is.
            _index_behind(cells, operation["after"])
            del cells[index]
            index = _index_behind(cells, operation["after"])
            cells.insert(index, cell)
    elif kind == "late_outputs":
        _expect_code(cell)
        _add_late(cell, operation, repeated=repeated)
        shown = {"outputs": len(cell["outputs"]), "execution_count": cell["execution_count"]}
        return Applied(before, {**_state(cells, index), **shown})
    elif kind == "run_result":
        _expect_code(cell)
        was = {**cell, "metadata": dict(cell.get("metadata") or {})}
        # Trusted like a run by the user: the outputs come from the user's own kernel.
        _show(cell, operation, trusted=True)
        _note_kernel(notebook, operation.get("kernel") or {})
        return Applied({**before, "cell": was}, _state(cells, index))
    else:
        raise ValueError(f"Unknown operation {kind!r}")
    return Applied(before, _state(cells, index))


def _show(cell: dict[str, Any], operation: dict[str, Any], *, trusted: bool) -> None:
    cell["outputs"] = operation["outputs"]
    cell["execution_count"] = operation["execution_count"]
    cell.setdefault("metadata", {})["trusted"] = trusted


def _note_kernel(notebook: dict[str, Any], kernel: dict[str, Any]) -> None:
    """Note the kernel that has run a cell; without ``language_info`` nbconvert knows no language.

    An open notebook gets the same from JupyterLab.
    """
    metadata: dict[str, Any] = notebook.setdefault("metadata", {})
    if "language_info" in kernel:
        metadata["language_info"] = kernel["language_info"]
    if "kernelspec" in kernel and not metadata.get("kernelspec"):
        metadata["kernelspec"] = kernel["kernelspec"]


def _expect_code(cell: dict[str, Any]) -> None:
    if cell["cell_type"] != "code":
        raise PrimeError(
            f"Cell {cell['id']} is a {cell['cell_type']} cell by now, which has no outputs.",
            code="not_a_code_cell",
            status=409,
        )


def superseded(cell_id: str) -> PrimeError:
    """Return the error for late outputs whose cell shows another run by now."""
    return PrimeError(
        f"Cell {cell_id} shows another run by now.", code="run_superseded", status=409
    )


def _add_late(cell: dict[str, Any], operation: dict[str, Any], *, repeated: bool) -> None:
    """Add late outputs of the run that the cell shows.

    The execution count identifies the run, since a kernel never uses a count twice. A cell without
    outputs and count was cleared by the user; it accepts further outputs nevertheless, as in
    JupyterLab.
    """
    outputs: list[dict[str, Any]] = list(cell.get("outputs") or [])
    count = cell.get("execution_count")
    if count != operation["execution_count"] and not (count is None and not outputs):
        raise superseded(operation["cell_id"])
    if repeated and len(outputs) > operation["base"]:
        return
    if operation["clear"]:
        outputs = []
    for update in operation["updates"]:
        index = update["index"]
        if index < len(outputs) and "data" in outputs[index]:
            shown = {"data": update["data"], "metadata": update["metadata"]}
            outputs[index] = {**outputs[index], **shown}
    fresh: list[dict[str, Any]] = list(operation["outputs"])
    ending = operation["ending"]
    if ending is not None and fresh:
        text = fresh[0]["text"]
        last = outputs[-1] if outputs else {}
        if last.get("name") == fresh[0]["name"] and last["text"].endswith(ending):
            kept = last["text"][: len(last["text"]) - len(ending)]
            outputs[-1] = {**last, "text": kept + text}
            del fresh[0]
        else:
            fresh[0] = {**fresh[0], "text": text.removeprefix(ending)}
    cell["outputs"] = outputs + fresh
    cell.setdefault("execution_count", None)


def new_cell(cell_id: str, cell_type: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": cell_type,
        "id": cell_id,
        "metadata": {},
        "source": source,
    }
    if cell_type == "code":
        cell.update(execution_count=None, outputs=[], metadata={"trusted": True})
    return cell


def upgrade_ids(notebook: dict[str, Any]) -> bool:
    """Upgrade an nbformat 4 notebook to 4.5 in place, adding missing cell ids.

    The ids are derived from position and content, so that reading an old notebook twice without
    writing it gives the same ids. Return whether anything changed.
    """
    cells: list[dict[str, Any]] = notebook["cells"]
    # A notebook of nbformat 3 has been converted on reading, with random ids.
    converted = int(notebook.get("metadata", {}).get("orig_nbformat", 4)) < 4
    changed = converted or int(notebook.get("nbformat_minor", 0)) < 5
    taken: set[str] = set()
    for index, cell in enumerate(cells):
        cell_id = cell.get("id")
        if (
            converted
            or not isinstance(cell_id, str)
            or not _VALID_ID.fullmatch(cell_id)
            or cell_id in taken
        ):
            cell_id = _derived_id(index, cell, taken)
            cell["id"] = cell_id
            changed = True
        taken.add(cell_id)
    if notebook.get("nbformat_minor", 0) < 5:
        notebook["nbformat_minor"] = 5
    return changed


def _derived_id(index: int, cell: dict[str, Any], taken: set[str]) -> str:
    salt = 0
    while True:
        text = f"{index}\0{cell['cell_type']}\0{source_hash(_source(cell))}\0{salt}"
        cell_id = hashlib.sha256(text.encode()).hexdigest()[:8]
        if cell_id not in taken:
            return cell_id
        salt += 1


def _find(cells: list[dict[str, Any]], cell_id: str) -> int | None:
    return next((i for i, cell in enumerate(cells) if cell.get("id") == cell_id), None)


def _index_behind(cells: list[dict[str, Any]], after: str | None) -> int:
    """Return the index after the cell ``after``: ``None`` is the end, ``""`` the top."""
    if after is None:
        return len(cells)
    if after == "":
        return 0
    index = _find(cells, after)
    if index is None:
        raise CellNotFound(after)
    return index + 1


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _state(cells: list[dict[str, Any]], index: int) -> dict[str, Any]:
    cell = cells[index]
    return {
        "source": _source(cell),
        "cell_type": cell["cell_type"],
        "index": index,
        "prev": cells[index - 1]["id"] if index > 0 else None,
        "next": cells[index + 1]["id"] if index + 1 < len(cells) else None,
    }


def _expect(
    cell: dict[str, Any], operation: dict[str, Any], *, proposed: str | None = None
) -> None:
    expected = operation.get("expected_hash")
    if expected and expected != source_hash(_source(cell)):
        raise CellConflict(operation["cell_id"], _source(cell), proposed)
