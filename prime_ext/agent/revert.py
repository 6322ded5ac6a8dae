"""Reverts the agent's changes to cells and files in one turn, and nothing else."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_ext.agent.tools.file_writing import content_hash
from prime_ext.agent.tools.paths import Workspace
from prime_ext.agent.tools.text_files import replace_file
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import CellConflict
from prime_ext.notebook.undo import (
    CHANGED,
    CHANGED_BETWEEN,
    DELETED,
    NOT_KEPT,
    REASONS,
    Conflict,
    Step,
    plan_undo,
    runs_among,
    undoable,
)
from prime_ext.session.records import FileChange, NotebookOp, Revert

if TYPE_CHECKING:
    from prime_ext.notebook.document import Change, NotebookDocument
    from prime_ext.session.session import Session

DONE = {"remove": "removed", "restore": "restored", "insert": "inserted", "move": "moved"}
"""Step of the undo → ``outcome`` in ``revert.cells``."""

LEFT = ("conflict", "failed")
"""Outcomes of cells and files that were left as they are. Reverting again retries them."""


class TurnChanges:
    """The agent's changes in a turn that have not been reverted yet.

    Raises
    ------
    PrimeError
        ``turn_not_found`` (404), ``nothing_to_revert`` (409).
    """

    def __init__(self, session: Session, turn: str) -> None:
        records = session.records_of("notebook_op", "file_change", "revert")
        mine = [record for record in records if record.turn == turn]
        ops = [r for r in mine if isinstance(r, NotebookOp)]
        self.ops = undoable(ops)
        self.runs = runs_among(ops)
        self.files = [r for r in mine if isinstance(r, FileChange)]
        if not self.ops and not self.files:
            raise _nothing(session, turn)
        earlier = [r for r in mine if isinstance(r, Revert)]
        if earlier:
            cells = {entry["cell_id"] for entry in _left(earlier[-1].cells)}
            paths = {entry["path"] for entry in _left(earlier[-1].files)}
            self.ops = [op for op in self.ops if op.cell_id in cells]
            self.files = [change for change in self.files if change.path in paths]
            if not self.ops and not self.files:
                raise PrimeError(
                    "The changes of this turn are reverted already.",
                    code="nothing_to_revert",
                    hint="Undo in the notebook's own editor brings the agent's changes back.",
                    status=409,
                )


def _nothing(session: Session, turn: str) -> PrimeError:
    if any(record.turn == turn for record in session.records_of("user_message")):
        return PrimeError(
            "The agent changed neither cells nor files in this turn.",
            code="nothing_to_revert",
            hint="What it has run cannot be taken back; its outputs stay.",
            status=409,
        )
    return PrimeError(
        f"The session has no turn {turn!r}.",
        code="turn_not_found",
        hint="`turn` of a user_message or turn_end record names one.",
        status=404,
    )


def _left(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["outcome"] in LEFT]


async def revert_turn(
    session: Session,
    document: NotebookDocument,
    root: Path,
    turn: str,
    user: str | None,
) -> Revert:
    """Revert a turn that has ended, and return the ``revert`` record.

    Cells and files that were changed since are left as they are, and listed in the record.

    Parameters
    ----------
    document:
        Notebook that records its operations as a revert of the turn.

    Raises
    ------
    PrimeError
        As ``TurnChanges``, or if the notebook cannot be read. Nothing has then been changed.
    """
    changes = await asyncio.to_thread(TurnChanges, session, turn)
    undo = plan_undo(changes.ops, await document.cells() if changes.ops else [], changes.runs)
    cells: list[dict[str, Any]] = []
    unsaved: str | None = None
    cells.extend(_left_alone(conflict) for conflict in undo.conflicts)
    for step in undo.steps:
        entry, change = await _carried_out(step, session, document)
        unsaved = change.unsaved if change else unsaved
        cells.append(entry)
    workspace = Workspace(root, session.folder)
    files = await asyncio.to_thread(_revert_files, changes.files, workspace, session.outputs.kept)
    record = session.append(
        Revert(turn=turn, cells=cells, files=files, unsaved=unsaved, user=user), sync=True
    )
    assert isinstance(record, Revert)
    return record


async def _carried_out(
    step: Step, session: Session, document: NotebookDocument
) -> tuple[dict[str, Any], Change | None]:
    try:
        shown = await asyncio.to_thread(_shown, step, session)
        change = await _carry_out(step, shown, session, document)
    except CellConflict as error:
        # The cell was changed after the plan was made.
        return _left_alone(Conflict(step.cell_id, CHANGED, error.current, step.source)), None
    except PrimeError as error:
        return {"cell_id": step.cell_id, **_failed(error)}, None
    entry = {"cell_id": step.cell_id, "outcome": DONE[step.action]}
    if shown is not None:
        entry["outputs"] = "restored" if shown["outputs"] else "cleared"
    return entry, change


def _shown(step: Step, session: Session) -> dict[str, Any] | None:
    """Return the outputs that a cell is to show, in the form for ``NotebookDocument.edit``.

    ``None`` keeps the present outputs.
    """
    if step.shows is None:
        return None
    raw = session.outputs.kept(step.shows.kept) if step.shows.kept else None
    cell = json.loads(raw) if raw else {"metadata": {"trusted": True}}
    return {
        "outputs": cell.get("outputs", []),
        "execution_count": cell.get("execution_count"),
        "trusted": bool(cell.get("metadata", {}).get("trusted")),
    }


async def _carry_out(
    step: Step, shown: dict[str, Any] | None, session: Session, document: NotebookDocument
) -> Change:
    if step.action == "remove":
        return await document.delete(step.cell_id, step.expected_hash)
    if step.action == "restore":
        return await document.edit(step.cell_id, step.source, step.expected_hash, shown=shown)
    if step.action == "move":
        return await document.move(step.cell_id, step.after)
    raw = await asyncio.to_thread(session.outputs.kept, step.kept) if step.kept else None
    cell = json.loads(raw) if raw else None
    if shown is not None:
        trusted = {**(cell or {}).get("metadata", {}), "trusted": shown["trusted"]}
        show = {key: shown[key] for key in ("outputs", "execution_count")}
        cell = {**(cell or {}), **show, "metadata": trusted}
    return await document.bring_back(step.cell_id, step.source, step.cell_type, step.after, cell)


def _left_alone(conflict: Conflict) -> dict[str, Any]:
    return {
        "cell_id": conflict.cell_id,
        **_conflict(conflict.code),
        "current": conflict.current,
        "earlier": conflict.earlier,
    }


def _conflict(code: str) -> dict[str, Any]:
    return {"outcome": "conflict", "code": code, "reason": REASONS[code]}


def _failed(error: PrimeError) -> dict[str, Any]:
    return {"outcome": "failed", "code": error.code, "reason": error.message}


# --- files -----------------------------------------------------------------------------------


def _revert_files(
    changes: Sequence[FileChange], workspace: Workspace, kept: Callable[[str], bytes | None]
) -> list[dict[str, Any]]:
    by_path: dict[str, list[FileChange]] = {}
    for change in changes:
        by_path.setdefault(change.path, []).append(change)
    entries = []
    for path, of_file in by_path.items():
        try:
            outcome = _revert_file(path, of_file, workspace, kept)
        except PrimeError as error:
            outcome = _failed(error)
        except OSError as error:
            outcome = {"outcome": "failed", "code": "file_not_written", "reason": str(error)}
        if outcome is not None:
            entries.append({"path": path, **outcome})
    return entries


def _revert_file(
    path: str,
    changes: Sequence[FileChange],
    workspace: Workspace,
    kept: Callable[[str], bytes | None],
) -> dict[str, Any] | None:
    first, last = changes[0], changes[-1]
    target = workspace.target(path)
    now = content_hash(target.read_bytes()) if target.exists() else None
    if now == first.before_hash:
        return None
    if now != last.after_hash:
        return _conflict(DELETED if now is None else CHANGED)
    for one, following in itertools.pairwise(changes):
        if one.after_hash != following.before_hash:
            return _conflict(CHANGED_BETWEEN)
    if first.before_hash is None:
        target.unlink()
        return {"outcome": "removed"}
    before = kept(first.kept) if first.kept else None
    if before is None or content_hash(before) != first.before_hash:
        reason = "Its earlier content was not kept."
        return {"outcome": "failed", "code": NOT_KEPT, "reason": reason}
    replace_file(target, before)
    return {"outcome": "restored"}


# --- what the model is told ------------------------------------------------------------------


def revert_event(record: Revert) -> str:
    """Return the text that reports a revert to the model with the user's next message."""
    groups: dict[str, tuple[str, list[str]]] = {
        "removed": ("Removed", []),
        "restored": ("Restored to what they held before", []),
        "inserted": ("Deleted by you, inserted again", []),
        "moved": ("Moved back to where they were", []),
        "left": ("Left as they are, because they were changed since", []),
    }
    for entry in [*record.cells, *record.files]:
        name = f"cell {entry['cell_id']}" if "cell_id" in entry else str(entry["path"])
        if "outputs" in entry:
            name += f" (outputs {entry['outputs']})"
        group = "left" if entry["outcome"] in LEFT else entry["outcome"]
        groups[group][1].append(name)
    told = [f"{words}: {', '.join(names)}." for words, names in groups.values() if names]
    if not told:
        return ""
    return (
        "The user has reverted what you changed in an earlier turn. "
        + " ".join(told)
        + " Do not make these changes again unasked, and read a cell before you edit it."
    )
