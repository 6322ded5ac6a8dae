"""How to undo what was done to cells: worked out from the operations alone. Pure, no I/O.

Others may have changed the notebook since. What they did elsewhere is not touched: places are
told by neighbours, not by positions. A cell that does not hold what the operations left in it is a
conflict and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from prime_ext.notebook.cell import Cell, source_hash
from prime_ext.session.records import NotebookOp

EDITS = frozenset({"insert_cell", "edit_cell", "delete_cell", "move_cell"})
"""Operations that can be undone. What the kernel has run it has run; but where a source goes back,
what a run of the undone one has put out goes with it."""

CHANGED = "changed_since"
DELETED = "deleted_since"
MOVED = "moved_since"
CHANGED_BETWEEN = "changed_between"
NOT_KEPT = "not_kept"

REASONS = {
    CHANGED: "It was changed since.",
    DELETED: "It was deleted since.",
    MOVED: "It was moved since.",
    CHANGED_BETWEEN: "Somebody else changed it while the agent did.",
    NOT_KEPT: "It held a key, and keys are not kept.",
}
"""Code of a conflict → what it means."""

State = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One operation of an undo; they are carried out in the order of the plan."""

    action: Literal["remove", "restore", "insert", "move"]
    cell_id: str
    expected_hash: str | None = None
    """Of the source the cell still holds: for ``remove`` and ``restore``."""
    source: str = ""
    """For ``restore`` and ``insert``."""
    cell_type: str = "code"
    after: str = ""
    """Id of the cell it goes behind, ``""`` for the top: for ``insert`` and ``move``."""
    kept: str | None = None
    """What ``notebook_op.kept`` says of a deleted cell."""
    shows: Shown | None = None
    """For ``restore`` and ``insert``: what it shows besides, if that is undone as well."""


@dataclass(frozen=True)
class Shown:
    """What a cell showed before the operations ran it."""

    kept: str | None
    """As ``notebook_op.kept`` of its first run; ``None``: nothing, or it was not kept."""


@dataclass(frozen=True)
class Conflict:
    """A cell that is left as it is."""

    cell_id: str
    code: str
    """One of ``REASONS``."""
    current: str | None
    """Its source; ``None`` if it is gone."""
    earlier: str | None
    """What it held before the operations; ``None`` if it was not there."""


@dataclass(frozen=True)
class Undo:
    """Nothing in either: the notebook is already as it was before the operations."""

    steps: list[Step]
    conflicts: list[Conflict]


def undoable(ops: Iterable[NotebookOp]) -> list[NotebookOp]:
    """The operations that changed a cell, without those that undid others."""
    return [op for op in ops if op.status == "applied" and op.op in EDITS and op.reverts is None]


def runs_among(ops: Iterable[NotebookOp]) -> list[NotebookOp]:
    """The runs that a cell shows, or has shown."""
    return [op for op in ops if op.status == "applied" and op.op == "run_cell"]


def plan_undo(
    ops: Iterable[NotebookOp], cells: Sequence[Cell], runs: Sequence[NotebookOp] = ()
) -> Undo:
    """What leads from ``cells`` back to how they were before ``ops``.

    Parameters
    ----------
    ops:
        In the order they were applied; what ``undoable`` leaves out is not undone.
    cells:
        The notebook as it is.
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
    """What the operations did to one cell, taken together."""

    first: State | None
    last: State | None
    deleted: State | None = None
    """As it was when it was deleted, if it was."""
    kept: str | None = None
    broken: bool = False
    """Somebody else changed it between two of the operations."""


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
    """What becomes of the cell's content and of whether it is there; ``None``: nothing."""
    first, last = change.first, change.last
    if last is None:
        return _undeleted(cell_id, change, cell)
    earlier = None if first is None else str(first["source"])
    if cell is None:
        # Of what was inserted, or only moved, nothing is missing that was there before.
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
        return None  # made and deleted by the same operations
    # Where somebody else had a hand in it, what was deleted is partly theirs.
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
    # Somebody has undone the deletion by hand.
    if _holds(cell, goal):
        return None
    if deleted is not None and _holds(cell, deleted):
        return _restored(cell, goal)
    return Conflict(cell_id, CHANGED, cell.source, str(goal["source"]))


def _with_outputs(step: Step, runs: Sequence[NotebookOp], cell: Cell | None) -> Step:
    """The step that also brings back what the cell showed, if it shows a run of another source.

    Parameters
    ----------
    runs:
        Those of the cell, in order.
    """
    if step.action not in ("restore", "insert") or not runs:
        return step
    ran, result = runs[-1].before or {}, runs[-1].after or {}
    if _hash(ran) == source_hash(step.source):
        return step
    if cell is not None and cell.execution_count != result.get("execution_count"):
        return step  # it was run since
    return replace(step, shows=Shown(runs[0].kept))


def _restored(cell: Cell, state: State) -> Step | Conflict:
    if not _intact(state):
        return Conflict(cell.id, NOT_KEPT, cell.source, str(state["source"]))
    return Step("restore", cell.id, cell.hash, source=str(state["source"]))


# --- where cells stand -----------------------------------------------------------------------


def _places(
    edits: Sequence[NotebookOp],
    order: Sequence[str],
    left_alone: set[str],
    stay: set[str],
) -> tuple[list[str], set[str], list[str]]:
    """Undo the operations one by one, the last first, on the ids alone.

    ``stay`` are the cells that are there and are to be.

    Returns
    -------
    tuple
        The order to come to, the cells that were moved back in it, and those that somebody has
        moved since and that stay where they are.
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
            # Only of a cell that is there, and is to be, can somebody have moved it.
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
    """Whether the cell still has a neighbour it was given; others may have come between."""
    index = order.index(cell_id)
    if "prev" not in state:
        return bool(state.get("index") == index)
    before = order[index - 1] if index > 0 else None
    behind = order[index + 1] if index + 1 < len(order) else None
    return bool(before == state["prev"] or behind == state["next"])


def _put(order: list[str], cell_id: str, state: State) -> None:
    """Insert the cell where it was: behind or before a neighbour that is still there."""
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
    """Steps that bring the cells that come back, or move, to their places in ``target``.

    From the top down: the cell that each goes behind is in its own place by then.
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


# --- what cells hold -------------------------------------------------------------------------


def _hash(state: State) -> str:
    return str(state.get("hash") or source_hash(str(state["source"])))


def _intact(state: State) -> bool:
    """Whether the source in the record is the one the cell had."""
    return _hash(state) == source_hash(str(state["source"]))


def _holds(cell: Cell, state: State) -> bool:
    return (cell.hash, cell.cell_type) == (_hash(state), state["cell_type"])


def _same(one: State | None, other: State | None) -> bool:
    if one is None or other is None:
        return one is other
    return (_hash(one), one["cell_type"]) == (_hash(other), other["cell_type"])
