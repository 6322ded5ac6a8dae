"""Undo of operations, for any operations and whatever others did since."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from prime_ext.notebook.cell import Cell, source_hash
from prime_ext.notebook.operations import apply_operation
from prime_ext.notebook.undo import CHANGED, CHANGED_BETWEEN, DELETED, MOVED, Undo, plan_undo
from prime_ext.session.records import NotebookOp
from tests.notebook.conftest import code_cell, notebook

Notebook = dict[str, Any]


class Editor:
    """Edits a notebook and remembers how, as ``NotebookDocument`` does."""

    def __init__(self, content: Notebook) -> None:
        self.content = content
        self.ops: list[NotebookOp] = []

    def do(self, op: str, cell_id: str, **fields: Any) -> None:
        applied = apply_operation(self.content, {"op": op, "cell_id": cell_id, **fields})
        before = dict(applied.before) if applied.before else None
        if before:
            before.pop("cell", None)
        self.ops.append(
            NotebookOp(
                op_id=str(len(self.ops)),
                op=op,
                cell_id=cell_id,
                status="applied",
                writer="server",
                before=_hashed(before),
                after=_hashed(applied.after),
            )
        )

    def insert(self, cell_id: str, source: str, after: str | None) -> None:
        self.do("insert_cell", cell_id, source=source, cell_type="code", after=after)

    def edit(self, cell_id: str, source: str) -> None:
        self.do("edit_cell", cell_id, source=source)

    def delete(self, cell_id: str) -> None:
        self.do("delete_cell", cell_id)

    def move(self, cell_id: str, after: str) -> None:
        self.do("move_cell", cell_id, after=after)


def _hashed(state: dict[str, Any] | None) -> dict[str, Any] | None:
    return state and {**state, "hash": source_hash(state["source"])}


def cells(content: Notebook) -> list[Cell]:
    return [Cell.from_nbformat(raw, index) for index, raw in enumerate(content["cells"])]


def carry_out(undo: Undo, content: Notebook) -> None:
    editor = Editor(content)
    for step in undo.steps:
        expected = {"expected_hash": step.expected_hash}
        if step.action == "remove":
            editor.do("delete_cell", step.cell_id, **expected)
        elif step.action == "restore":
            editor.do("edit_cell", step.cell_id, source=step.source, **expected)
        elif step.action == "insert":
            editor.insert(step.cell_id, step.source, step.after)
        else:
            editor.move(step.cell_id, step.after)


def shape(content: Notebook) -> list[tuple[str, str]]:
    return [(cell["id"], cell["source"]) for cell in content["cells"]]


@st.composite
def edits(draw: st.DrawFn, ids: list[str], prefix: str, most: int = 8) -> list[tuple[Any, ...]]:
    """Edits that make sense one after the other, from cells ``ids`` on."""
    ids = list(ids)
    made: list[tuple[Any, ...]] = []
    for number in range(draw(st.integers(0, most))):
        kind = draw(st.sampled_from(["insert", "edit", "delete", "move"] if ids else ["insert"]))
        source = f"{prefix} {number}"
        if kind == "insert":
            new = f"{prefix}{number}"
            made.append((kind, new, source, draw(st.sampled_from(["", *ids]))))
            ids.append(new)
            continue
        cell_id = draw(st.sampled_from(ids))
        if kind == "edit":
            made.append((kind, cell_id, source))
        elif kind == "delete":
            ids.remove(cell_id)
            made.append((kind, cell_id))
        else:
            made.append((kind, cell_id, draw(st.sampled_from(["", *ids]))))
    return made


IDS = list("abcde")


@settings(max_examples=200)
@given(edits(IDS, "agent"))
def test_undone_by_itself_everything_is_as_before(done: list[tuple[Any, ...]]) -> None:
    content = notebook(*IDS)
    before = copy.deepcopy(shape(content))
    editor = Editor(content)
    for kind, *arguments in done:
        getattr(editor, kind)(*arguments)
    undo = plan_undo(editor.ops, cells(content))
    assert undo.conflicts == []
    carry_out(undo, content)
    assert shape(content) == before


@settings(max_examples=200)
@given(st.data(), edits(IDS, "agent"))
def test_what_others_did_since_stays(data: st.DataObject, done: list[tuple[Any, ...]]) -> None:
    content = notebook(*IDS)
    original = dict(shape(content))
    agent = Editor(content)
    for kind, *arguments in done:
        getattr(agent, kind)(*arguments)
    user = Editor(content)
    left = [cell["id"] for cell in content["cells"]]
    for kind, *arguments in data.draw(edits(left, "user")):
        getattr(user, kind)(*arguments)
    theirs = dict(shape(content))
    order = list(theirs)

    undo = plan_undo(agent.ops, cells(content))
    carry_out(undo, content)

    after = dict(shape(content))
    assert len(after) == len(content["cells"])
    # Every word of the user's is still there, …
    for cell_id, source in theirs.items():
        if source.startswith("user"):
            assert after[cell_id] == source
    # … no cell that the agent never touched has changed or gone anywhere, …
    touched = {op.cell_id for op in agent.ops}
    still = [cell_id for cell_id in after if cell_id not in touched]
    assert still == [cell_id for cell_id in order if cell_id not in touched]
    # … and each cell that the agent did touch is as before, or is named.
    named = {conflict.cell_id for conflict in undo.conflicts}
    gone = {op.cell_id for op in user.ops if op.op == "delete_cell"}
    edited = {op.cell_id for op in user.ops if op.op == "edit_cell"}
    for cell_id in touched - named - edited:
        if cell_id in original and cell_id not in gone:
            assert after[cell_id] == original[cell_id]
        elif cell_id not in original:
            assert cell_id not in after


def test_neighbours_tell_the_place_not_positions() -> None:
    content = notebook("1", "2", "3")
    agent = Editor(content)
    agent.delete("b")
    user = Editor(content)
    user.insert("u", "mine", "")
    user.insert("v", "mine too", "")
    carry_out(plan_undo(agent.ops, cells(content)), content)
    assert [cell_id for cell_id, _ in shape(content)] == ["v", "u", "a", "b", "c"]


def test_a_cell_changed_since_is_a_conflict_with_both_sides() -> None:
    content = notebook("1", "2")
    agent = Editor(content)
    agent.edit("a", "agent's")
    agent.edit("b", "agent's")
    Editor(content).edit("a", "user's")
    undo = plan_undo(agent.ops, cells(content))
    (conflict,) = undo.conflicts
    assert (conflict.code, conflict.current, conflict.earlier) == (CHANGED, "user's", "1")
    assert [(step.action, step.cell_id) for step in undo.steps] == [("restore", "b")]


def test_a_cell_deleted_since_is_not_made_again() -> None:
    content = notebook("1", "2")
    agent = Editor(content)
    agent.edit("a", "agent's")
    Editor(content).delete("a")
    undo = plan_undo(agent.ops, cells(content))
    assert undo.steps == []
    assert [(c.code, c.current, c.earlier) for c in undo.conflicts] == [(DELETED, None, "1")]


def test_an_edit_between_those_of_the_agent_is_not_lost() -> None:
    content = notebook("1")
    agent = Editor(content)
    agent.edit("a", "agent's")
    Editor(content).edit("a", "agent's, and the user's")
    agent.edit("a", "agent's, and the user's, again")
    undo = plan_undo(agent.ops, cells(content))
    assert undo.steps == []
    assert [c.code for c in undo.conflicts] == [CHANGED_BETWEEN]


def test_a_cell_moved_since_stays_where_it_is() -> None:
    content = notebook("1", "2", "3", "4", "5")
    agent = Editor(content)
    agent.move("a", "c")
    Editor(content).move("a", "e")
    undo = plan_undo(agent.ops, cells(content))
    assert undo.steps == []
    assert [(c.cell_id, c.code) for c in undo.conflicts] == [("a", MOVED)]


def test_a_cell_that_was_only_moved_goes_back_whatever_it_holds_now() -> None:
    content = notebook("1", "2", "3")
    agent = Editor(content)
    agent.move("a", "c")
    Editor(content).edit("a", "user's")
    carry_out(plan_undo(agent.ops, cells(content)), content)
    assert shape(content) == [("a", "user's"), ("b", "2"), ("c", "3")]


def test_a_source_with_a_key_taken_out_is_not_put_back() -> None:
    content = notebook("key = 'sk-secret'")
    agent = Editor(content)
    agent.edit("a", "agent's")
    (op,) = agent.ops
    assert op.before is not None
    op.before["source"] = "key = '[key]'"
    undo = plan_undo(agent.ops, cells(content))
    assert undo.steps == []
    assert [c.cell_id for c in undo.conflicts] == ["a"]


def test_records_without_neighbours_fall_back_to_positions() -> None:
    content = notebook("1", "2", "3")
    agent = Editor(content)
    agent.delete("b")
    (op,) = agent.ops
    assert op.before is not None
    for key in ("prev", "next", "hash"):
        del op.before[key]
    carry_out(plan_undo(agent.ops, cells(content)), content)
    assert shape(content) == [("a", "1"), ("b", "2"), ("c", "3")]


def test_a_deletion_undone_by_hand_is_not_undone_twice() -> None:
    content = notebook("1", "2")
    agent = Editor(content)
    agent.edit("a", "agent's")
    agent.delete("a")
    content["cells"].insert(0, code_cell("agent's", "a"))
    carry_out(plan_undo(agent.ops, cells(content)), content)
    assert shape(content) == [("a", "1"), ("b", "2")]
