"""Plans the undo of operations on cells, from the recorded operations alone. Pure, no I/O.

Others may have changed the notebook since. Their changes to other cells stay: the place of a cell
is determined by its neighbours, not by its position. A cell whose content differs from what the
operations left in it is a conflict and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from prime_ext.notebook.cell import Cell, source_hash
from prime_ext.session.records import NotebookOp

EDITS = frozenset({"insert_cell", "edit_cell", "delete_cell", "move_cell"})
"""Operations that can be undone. A run in the kernel cannot be undone; but if the source of a cell
is restored, the outputs of runs of the undone source are replaced as well."""

CHANGED = "changed_since"
DELETED = "deleted_since"
MOVED = "moved_since"
CHANGED_BETWEEN = "changed_between"
NOT_KEPT = "not_kept"

REASONS = {
    CHANGED: "It was changed since.",
    DELETED: "It was deleted since.",
    MOVED: "It was moved since.",
    CHANGED_BETWEEN: "Someone else changed it while the agent did.",
    NOT_KEPT: "It held a key, and keys are not kept.",
}
"""Code of a conflict → explanation for the user."""

State = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One operation of an undo; the steps are applied in the order of the plan."""

    action: Literal["remove", "restore", "insert", "move"]
    cell_id: str
    expected_hash: str | None = None
    """For ``remove`` and ``restore``: hash of the cell's current source."""
    source: str = ""
    """For ``restore`` and ``insert``: source to write."""
    cell_type: str = "code"
    after: str = ""
    """For ``insert`` and ``move``: id of the preceding cell, ``""`` for the top."""
    kept: str | None = None
    """For ``insert``: ``notebook_op.kept`` of the deletion, where the deleted cell is stored."""
    shows: Shown | None = None
    """For ``restore`` and ``insert``: outputs to restore; ``None`` leaves the outputs alone."""


@dataclass(frozen=True)
class Shown:
    """Outputs of a cell before the operations ran it."""

    kept: str | None
    """``notebook_op.kept`` of its first run; ``None`` if there were none or they were not kept."""


@dataclass(frozen=True)
class Conflict:
    """A cell that the undo does not touch."""

    cell_id: str
    code: str
    """One of ``REASONS``."""
    current: str | None
    """Current source; ``None`` if the cell is gone."""
    earlier: str | None
    """Source before the operations; ``None`` if the cell did not exist."""


@dataclass(frozen=True)
class Undo:
    """A plan. If both lists are empty, the notebook is already as it was before the operations."""

    steps: list[Step]
    conflicts: list[Conflict]


def undoable(ops: Iterable[NotebookOp]) -> list[NotebookOp]:
    """Return the operations that changed a cell, except those that undid others."""
    return [op for op in ops if op.status == "applied" and op.op in EDITS and op.reverts is None]


def runs_among(ops: Iterable[NotebookOp]) -> list[NotebookOp]:
    """Return the runs whose outputs a cell shows or has shown."""
    return [op for op in ops if op.status == "applied" and op.op == "run_cell"]


def plan_undo(
    ops: Iterable[NotebookOp], cells: Sequence[Cell], runs: Sequence[NotebookOp] = ()
) -> Undo:
    """Plan how to bring ``cells`` back to their state before ``ops``.

    Parameters
    ----------
    ops:
        Operations in the order they were applied; those that ``undoable`` excludes are ignored.
    cells:
        Current cells of the notebook.
    runs:
        Runs of the same turn, in order.
    """
    edits = undoable(ops)
    present = {cell.id: cell for cell in cells}
    steps: list[Step] = []
    conflicts: list[Conflict] = []
    back: dict[str, Step] = {}
    for cell_id, change in _changes(edits).items():
        verdict = _verdict(cell_id, change, present.get(cell_id))
        if isinstance(verdict, Conflict):
            conflicts.append(verdict)
        elif verdict is not None:
            of_cell = [op for op in runs if op.cell_id == cell_id]
            step = _with_outputs(verdict, of_cell, present.get(cell_id))
            if step.action == "insert":
                back[cell_id] = step
            else:
                steps.append(step)

    left_alone = {conflict.cell_id for conflict in conflicts}
    removed = {step.cell_id for step in steps if step.action == "remove"}
    order = [cell.id for cell in cells]
    stay = {cell_id for cell_id in order if cell_id not in removed}
    target, moved, moved_since = _places(edits, order, left_alone, stay)
    for cell_id in moved_since:
        source = present[cell_id].source
        conflicts.append(Conflict(cell_id, MOVED, source, source))
    steps += _placing([i for i in order if i in stay], target, moved, back)
    return Undo(steps, conflicts)


@dataclass
class _Change:
    """Combined effect of the operations on one cell."""

    first: State | None
    last: State | None
    deleted: State | None = None
    """State when it was deleted, if it was."""
    kept: str | None = None
    broken: bool = False
    """Whether somebody else changed it between two of the operations."""


def _changes(edits: Sequence[NotebookOp]) -> dict[str, _Change]:
    changes: dict[str, _Change] = {}
    for op in edits:
        change = changes.get(op.cell_id)
        if change is None:
            change = changes[op.cell_id] = _Change(op.before, op.before)
        elif not _same(change.last, op.before):
            change.broken = True
        change.last = op.after
        if op.op == "delete_cell":
            change.deleted, change.kept = op.before, op.kept
    return changes


def _verdict(cell_id: str, change: _Change, cell: Cell | None) -> Step | Conflict | None:
    """Decide how to undo the change of a cell's content or existence; ``None`` if not needed."""
    first, last = change.first, change.last
    if last is None:
        return _undeleted(cell_id, change, cell)
    earlier = None if first is None else str(first["source"])
    if cell is None:
        # An inserted or merely moved cell is gone: no earlier content is missing.
        if first is None or _same(first, last):
            return None
        return Conflict(cell_id, DELETED, None, earlier)
    if first is not None and (_holds(cell, first) or (_same(first, last) and not change.broken)):
        return None
    if not _holds(cell, last):
        return Conflict(cell_id, CHANGED, cell.source, earlier)
    if change.broken:
        return Conflict(cell_id, CHANGED_BETWEEN, cell.source, earlier)
    if first is None:
        return Step("remove", cell_id, cell.hash)
    return _restored(cell, first)


def _undeleted(cell_id: str, change: _Change, cell: Cell | None) -> Step | Conflict | None:
    first, deleted = change.first, change.deleted
    if first is None and not change.broken:
        return None  # inserted and deleted by the same operations
    # If somebody else changed it in between, the deleted source is partly theirs: restore that.
    goal = deleted if change.broken or first is None else first
    assert goal is not None
    if cell is None:
        if not _intact(goal):
            return Conflict(cell_id, NOT_KEPT, None, str(goal["source"]))
        return Step(
            "insert",
            cell_id,
            source=str(goal["source"]),
            cell_type=str(goal["cell_type"]),
            kept=change.kept,
        )
    # Somebody has brought the cell back by hand.
    if _holds(cell, goal):
        return None
    if deleted is not None and _holds(cell, deleted):
        return _restored(cell, goal)
    return Conflict(cell_id, CHANGED, cell.source, str(goal["source"]))


def _with_outputs(step: Step, runs: Sequence[NotebookOp], cell: Cell | None) -> Step:
    """Extend ``step`` to restore the outputs if the cell shows a run of another source.

    Parameters
    ----------
    runs:
        Runs of the cell, in order.
    """
    if step.action not in ("restore", "insert") or not runs:
        return step
    ran, result = runs[-1].before or {}, runs[-1].after or {}
    if _hash(ran) == source_hash(step.source):
        return step
    if cell is not None and cell.execution_count != result.get("execution_count"):
        return step  # it was run again since
    return replace(step, shows=Shown(runs[0].kept))


def _restored(cell: Cell, state: State) -> Step | Conflict:
    if not _intact(state):
        return Conflict(cell.id, NOT_KEPT, cell.source, str(state["source"]))
    return Step("restore", cell.id, cell.hash, source=str(state["source"]))


# --- places of cells -------------------------------------------------------------------------


def _places(
    edits: Sequence[NotebookOp],
    order: Sequence[str],
    left_alone: set[str],
    stay: set[str],
) -> tuple[list[str], set[str], list[str]]:
    """Compute the target order by undoing the operations on the list of ids, last one first.

    ``stay`` are the present cells that will not be removed.

    Returns
    -------
    tuple
        The target order, the cells that were moved back in it, and the cells that somebody has
        moved since, which stay where they are.
    """
    target = list(order)
    origins: dict[str, State] = {}
    for op in edits:
        if op.op == "move_cell":
            origins.setdefault(op.cell_id, op.before or {})
    moved: set[str] = set()
    moved_since: list[str] = []
    for op in reversed(edits):
        cell_id = op.cell_id
        if cell_id in left_alone:
            continue
        if op.op == "insert_cell":
            if cell_id in target:
                target.remove(cell_id)
        elif op.op == "delete_cell":
            if cell_id not in target:
                _put(target, cell_id, op.before or {})
        elif op.op == "move_cell" and cell_id in target and op.before != op.after:
            # Only a cell that is present and stays can have been moved by somebody else.
            ours = cell_id in moved or cell_id not in stay
            if not ours and not _stands(target, cell_id, op.after or {}):
                left_alone = left_alone | {cell_id}
                if not _stands(target, cell_id, origins[cell_id]):
                    moved_since.append(cell_id)
                continue
            target.remove(cell_id)
            _put(target, cell_id, op.before or {})
            moved.add(cell_id)
    return target, moved, moved_since


def _stands(order: list[str], cell_id: str, state: State) -> bool:
    """Whether the cell still has one of its recorded neighbours on the same side."""
    index = order.index(cell_id)
    if "prev" not in state:
        return bool(state.get("index") == index)
    before = order[index - 1] if index > 0 else None
    behind = order[index + 1] if index + 1 < len(order) else None
    return bool(before == state["prev"] or behind == state["next"])


def _put(order: list[str], cell_id: str, state: State) -> None:
    """Insert the cell at its recorded place, next to a neighbour that is still present."""
    prev, behind = state.get("prev"), state.get("next")
    if prev in order:
        index = order.index(prev) + 1
    elif behind in order:
        index = order.index(behind)
    else:
        index = min(int(state.get("index", len(order))), len(order))
    order.insert(index, cell_id)


def _placing(
    order: list[str],
    target: list[str],
    moved: set[str],
    back: dict[str, Step],
) -> list[Step]:
    """Return the steps that bring reinserted and moved cells to their places in ``target``.

    The steps go from the top down, so that the preceding cell is already in its place.
    """
    order = list(order)
    target = [cell_id for cell_id in target if cell_id in order or cell_id in back]
    steps: list[Step] = []
    for index, cell_id in enumerate(target):
        after = target[index - 1] if index > 0 else ""
        at = order.index(after) + 1 if after else 0
        if cell_id in back:
            steps.append(replace(back[cell_id], after=after))
            order.insert(at, cell_id)
        elif cell_id in moved and order[at : at + 1] != [cell_id]:
            steps.append(Step("move", cell_id, after=after))
            order.remove(cell_id)
            order.insert(order.index(after) + 1 if after else 0, cell_id)
    return steps


# --- content of cells ------------------------------------------------------------------------


def _hash(state: State) -> str:
    return str(state.get("hash") or source_hash(str(state["source"])))


def _intact(state: State) -> bool:
    """Whether the record has the cell's source unredacted."""
    return _hash(state) == source_hash(str(state["source"]))


def _holds(cell: Cell, state: State) -> bool:
    return (cell.hash, cell.cell_type) == (_hash(state), state["cell_type"])


def _same(one: State | None, other: State | None) -> bool:
    if one is None or other is None:
        return one is other
    return (_hash(one), one["cell_type"]) == (_hash(other), other["cell_type"])
