"""A notebook that no browser has open: written through the real contents manager."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import CellConflict, CellLocked, source_hash
from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.documents import NotebookDocuments
from tests.notebook.conftest import (
    Disk,
    Recorded,
    ScriptedKernel,
    Write,
    begun,
    code_cell,
    locked,
    notebook,
    notebook_of,
    state,
    text_cell,
)

FIGURE = {"output_type": "display_data", "data": {"text/html": "<b>1</b>"}, "metadata": {}}


def sources(nb: dict[str, Any]) -> list[str]:
    return [cell["source"] for cell in nb["cells"]]


async def test_insert_at_each_place(
    document: NotebookDocument, write: Write, disk: Disk, recorded: Recorded
) -> None:
    await write(notebook("1"))
    last = await document.insert("last")
    first = await document.insert("# first", "markdown", after="")
    await document.insert("middle", after="a")
    nb = await disk()
    assert sources(nb) == ["# first", "1", "middle", "last"]
    assert nb["cells"][0]["cell_type"] == "markdown"
    assert (first.cell.index, last.cell.index) == (0, 1)
    assert [r.status for r in recorded.records] == ["applied"] * 3
    op = recorded.records[1]
    assert (op.op, op.writer, op.turn, op.before) == ("insert_cell", "server", "turn-1", None)
    assert op.after == state("# first", 0, None, "a", "markdown")


async def test_edit_delete_and_move(
    document: NotebookDocument, write: Write, disk: Disk, recorded: Recorded
) -> None:
    await write(notebook("1", "2", "3"))
    await document.edit("b", "two\r\nlines", source_hash("2"))
    await document.move("a", "c")
    await document.delete("c")
    assert sources(await disk()) == ["two\nlines", "1"]
    edit, move, delete = recorded.records
    assert edit.before == state("2", 1, "a", "c")
    assert move.before == state("1", 0, None, "b")
    assert move.after == state("1", 2, "c", None)
    assert delete.before == state("3", 1, "b", "a")
    assert delete.after is None
    assert json.loads(recorded.files[str(delete.kept)]) == {
        **code_cell("3", "c"),
        "metadata": {"trusted": True},
    }


async def test_a_stale_hash_is_a_conflict_and_changes_nothing(
    document: NotebookDocument, write: Write, disk: Disk, recorded: Recorded
) -> None:
    await write(notebook("by the user"))
    with pytest.raises(CellConflict) as caught:
        await document.edit("a", "by the agent", source_hash("as it was before"))
    assert caught.value.code == "cell_conflict"
    assert "by the user" in caught.value.message
    assert "by the agent" in caught.value.message
    assert sources(await disk()) == ["by the user"]
    (op,) = recorded.records
    assert op.status == "conflict"
    assert (op.before, op.after) == ({"source": "by the user"}, {"source": "by the agent"})


async def test_an_edit_since_the_last_look_is_a_conflict_once(
    document: NotebookDocument, write: Write, disk: Disk
) -> None:
    await write(notebook("1"))
    document.seen.look(await document.cells(), await document.cells())
    await write(notebook("changed by the user"))
    with pytest.raises(CellConflict):
        await document.edit("a", "2")
    # The conflict has told what the cell holds: going on is now an informed decision.
    await document.edit("a", "changed by the user and me")
    assert sources(await disk()) == ["changed by the user and me"]


async def test_after_a_restart_nothing_is_overwritten_unread(
    documents: NotebookDocuments, write: Write, disk: Disk
) -> None:
    await write(notebook("changed since"))
    document = documents.get("work.ipynb", Recorded(7))
    for change in (document.edit("a", "2"), document.delete("a")):
        with pytest.raises(PrimeError) as caught:
            await change
        assert caught.value.code == "cell_unread"
        assert "changed since" in caught.value.message
        document.seen.forget("a")
    assert sources(await disk()) == ["changed since"]
    with pytest.raises(PrimeError):
        await document.edit("a", "2")
    await document.edit("a", "informed by the error")
    assert sources(await disk()) == ["informed by the error"]


async def test_a_cell_that_its_author_has_locked_is_run_and_moved_but_not_changed(
    documents: NotebookDocuments,
    document: NotebookDocument,
    write: Write,
    disk: Disk,
    recorded: Recorded,
) -> None:
    nb = notebook("1", "2")
    nb["cells"][0]["metadata"] = {"editable": False}
    nb["cells"][1]["metadata"] = {"deletable": False}
    await write(nb)
    for change, told in (
        (document.edit("a", "one", "0" * 64), "locked against editing"),
        (document.delete("b"), "locked against deletion"),
    ):
        with pytest.raises(CellLocked, match=told) as caught:
            await change
        assert "Ask the user to unlock it" in caught.value.hint
    assert {(r.status, r.code) for r in recorded.records} == {("failed", "cell_locked")}
    kernel = ScriptedKernel()
    kernel.finish.set()
    await document.run("a", kernel)
    await document.move("a", "b")
    await document.edit("b", "two")
    assert sources(await disk()) == ["two", "1"]
    await document.delete("a")
    assert sources(await disk()) == ["two"]
    undo = documents.get("work.ipynb", recorded, reverts="turn-1")
    await undo.delete("b")
    assert sources(await disk()) == []


@pytest.mark.parametrize("action", ["edit", "delete"])
async def test_a_lock_that_comes_between_reading_and_writing_counts(
    action: str, document: NotebookDocument, write: Write, disk: Disk, contents: Any
) -> None:
    await write(notebook("1"))
    await document.cells()
    real_get, looks = contents.get, 0

    async def get(path: str, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 2:  # after the look at the cell, before the one at the file to write
            await write(locked(notebook("1")))
        return await real_get(path, **options)

    contents.get = get
    with pytest.raises(CellLocked):
        await (document.edit("a", "2") if action == "edit" else document.delete("a"))
    assert sources(await disk()) == ["1"]


@pytest.mark.parametrize("action", ["delete", "run"])
async def test_deleting_and_running_mind_the_users_edit_too(
    action: str, document: NotebookDocument, write: Write, disk: Disk
) -> None:
    await write(notebook("1"))
    document.seen.look(await document.cells(), await document.cells())
    await write(notebook("2"))
    kernel = ScriptedKernel()
    with pytest.raises(CellConflict):
        await (document.delete("a") if action == "delete" else document.run("a", kernel))
    assert kernel.executed == []
    assert sources(await disk()) == ["2"]


async def test_an_index_is_refused_and_near_ids_named(
    document: NotebookDocument, write: Write
) -> None:
    await write(notebook("x = 1", "y = 2", "z = 3", "far = 4"))
    with pytest.raises(PrimeError) as caught:
        await document.edit("1", "oops")
    assert caught.value.code == "cell_not_found"
    assert "never by position" in caught.value.message
    assert "- b (cell 2 of 4, code): y = 2" in caught.value.message


async def test_an_unknown_id_names_similar_ones(document: NotebookDocument, write: Write) -> None:
    nb = notebook("x = 1")
    nb["cells"][0]["id"] = "f3a9c1d2"
    await write(nb)
    with pytest.raises(PrimeError) as caught:
        await document.insert("y", after="f3a9c1d3")
    assert "f3a9c1d2" in caught.value.message


async def test_a_change_by_another_program_is_kept(
    document: NotebookDocument,
    write: Write,
    disk: Disk,
    contents: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file changes between our reading and our saving."""
    await write(notebook("1", "2"))
    await document.cells()
    real_get = contents.get
    raced: list[bool] = []

    async def get(path: str, *args: Any, **kwargs: Any) -> Any:
        model = await real_get(path, *args, **kwargs)
        if kwargs.get("content") is True and not raced:
            raced.append(True)
            await write(notebook("1", "changed meanwhile"))
        return model

    await write(notebook("1", "2 "))
    monkeypatch.setattr(contents, "get", get)
    await document.edit("a", "by the agent")
    assert raced
    assert sources(await disk()) == ["by the agent", "changed meanwhile"]


async def test_parallel_operations_all_arrive(
    document: NotebookDocument, documents: NotebookDocuments, write: Write, disk: Disk
) -> None:
    await write(notebook("0"))
    other_session = Recorded()
    other = documents.get("/work.ipynb", other_session)
    await asyncio.gather(
        *(document.insert(f"a{i}") for i in range(10)), *(other.insert(f"b{i}") for i in range(10))
    )
    expected = {"0"} | {f"a{i}" for i in range(10)} | {f"b{i}" for i in range(10)}
    assert set(sources(await disk())) == expected


@pytest.mark.parametrize("minor", [0, 4])
async def test_old_notebooks_get_ids_that_last(
    minor: int, document: NotebookDocument, jp_root_dir: Path, disk: Disk
) -> None:
    old = notebook("1", "1", minor=minor)
    (jp_root_dir / "work.ipynb").write_text(json.dumps(old))
    before = (jp_root_dir / "work.ipynb").read_bytes()
    ids = [cell.id for cell in await document.cells()]
    assert len(set(ids)) == 2
    assert (jp_root_dir / "work.ipynb").read_bytes() == before, "reading must not write"
    await document.edit(ids[1], "2")
    nb = await disk()
    assert [(c["id"], c["source"]) for c in nb["cells"]] == [(ids[0], "1"), (ids[1], "2")]
    assert nb["nbformat_minor"] == 5


async def test_notebook_of_nbformat_3(
    document: NotebookDocument, jp_root_dir: Path, disk: Disk
) -> None:
    cell = {"cell_type": "code", "input": "print 1", "outputs": [], "metadata": {}}
    v3 = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": [{**cell, "language": "python"}], "metadata": {}}],
    }
    (jp_root_dir / "work.ipynb").write_text(json.dumps(v3))
    (read,) = await document.cells()
    assert read.source == "print 1"
    await document.edit(read.id, "print(1)")
    nb = await disk()
    assert (nb["nbformat"], sources(nb)) == (4, ["print(1)"])


@pytest.mark.filterwarnings("ignore::nbformat.warnings.MissingIDFieldWarning")
@pytest.mark.filterwarnings("ignore::nbformat.warnings.DuplicateCellId")
async def test_notebook_with_missing_and_doubled_ids(
    document: NotebookDocument, jp_root_dir: Path, disk: Disk
) -> None:
    broken = notebook("1", "2", "3")
    del broken["cells"][0]["id"]
    broken["cells"][2]["id"] = "b"
    (jp_root_dir / "work.ipynb").write_text(json.dumps(broken))
    ids = [cell.id for cell in await document.cells()]
    assert len(set(ids)) == 3
    await document.edit(ids[0], "one")
    await document.edit(ids[2], "three")
    assert sources(await disk()) == ["one", "2", "three"]


async def test_a_notebook_that_is_not_there(document: NotebookDocument) -> None:
    with pytest.raises(PrimeError) as caught:
        await document.insert("1")
    assert (caught.value.code, caught.value.status) == ("notebook_not_found", 404)


async def test_a_file_that_is_no_notebook(document: NotebookDocument, jp_root_dir: Path) -> None:
    (jp_root_dir / "work.ipynb").write_text("{not json")
    with pytest.raises(PrimeError) as caught:
        await document.cells()
    assert caught.value.code == "notebook_invalid"


async def test_a_read_only_notebook(
    document: NotebookDocument,
    write: Write,
    contents: Any,
    monkeypatch: pytest.MonkeyPatch,
    recorded: Recorded,
) -> None:
    from tornado.web import HTTPError

    await write(notebook("1"))

    async def save(model: Any, path: str) -> None:
        raise HTTPError(403, "Permission denied: work.ipynb")

    monkeypatch.setattr(contents, "save", save)
    with pytest.raises(PrimeError) as caught:
        await document.edit("a", "2")
    assert caught.value.code == "notebook_not_saved"
    assert "Permission denied" in caught.value.message
    assert recorded.records[-1].status == "failed"


async def test_run_leaves_a_trusted_notebook_trusted(
    document: NotebookDocument, write: Write, contents: Any, disk: Disk
) -> None:
    nb = notebook("1", "2")
    for cell in nb["cells"]:
        cell["outputs"] = [dict(FIGURE)]
        cell["metadata"]["trusted"] = True
    await write(nb)
    kernel = ScriptedKernel(outputs=[dict(FIGURE)])
    kernel.finish.set()
    run = await document.run("a", kernel)
    assert run.op.writer == "server"
    nb = await disk()
    assert all(cell["metadata"]["trusted"] for cell in nb["cells"])
    assert nb["cells"][0]["execution_count"] == 7
    stored = json.loads((await contents.get("work.ipynb", type="file"))["content"])
    assert "trusted" not in stored["cells"][0]["metadata"]


async def test_run_does_not_make_foreign_outputs_trusted(
    document: NotebookDocument, jp_root_dir: Path, disk: Disk
) -> None:
    nb = notebook("1", "2")
    nb["cells"][1]["outputs"] = [dict(FIGURE)]
    (jp_root_dir / "work.ipynb").write_text(json.dumps(nb))
    kernel = ScriptedKernel(outputs=[dict(FIGURE)])
    kernel.finish.set()
    await document.run("a", kernel)
    assert (await disk())["cells"][1]["metadata"]["trusted"] is False


async def test_run_of_a_notebook_deleted_meanwhile_keeps_its_outputs(
    document: NotebookDocument, write: Write, jp_root_dir: Path, recorded: Recorded
) -> None:
    await write(notebook("1"))
    kernel, running = await begun(document)
    (jp_root_dir / "work.ipynb").unlink()
    kernel.put("result")
    kernel.finish.set()
    run = await running
    assert run.execution.outputs == kernel.outputs
    assert "no notebook 'work.ipynb'" in (run.unsaved or "")
    assert recorded.records[-1].status == "failed"


async def test_run_of_a_cell_that_became_text_leaves_the_notebook_valid(
    document: NotebookDocument, write: Write, disk: Disk
) -> None:
    await write(notebook("1"))
    kernel, running = await begun(document)
    changed = await disk()
    changed["cells"][0] = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "1"}
    await write(changed)
    kernel.put("result")
    kernel.finish.set()
    run = await running
    assert "is a markdown cell by now" in (run.unsaved or "")
    assert run.execution.outputs == kernel.outputs
    assert (await disk())["cells"] == changed["cells"]


async def test_outputs_of_a_source_that_another_program_has_replaced_are_said_to_be(
    document: NotebookDocument, write: Write, disk: Disk, recorded: Recorded
) -> None:
    await write(notebook("1"))
    kernel, running = await begun(document)
    await write(notebook("by git"))
    kernel.put("result")
    kernel.finish.set()
    run = await running
    (cell,) = (await disk())["cells"]
    assert (cell["source"], cell["outputs"]) == ("by git", kernel.outputs)
    assert "source of the cell was changed while it ran" in (run.unsaved or "")
    (record,) = recorded.records
    assert (record.status, record.code) == ("applied", "outputs_of_earlier_source")
    assert record.before is not None
    assert record.before["source"] == "1"


@pytest.mark.parametrize("action", ["edit", "delete"])
async def test_a_cell_under_a_run_is_left_alone_and_only_its_session_told_to_end_that(
    documents: NotebookDocuments, document: NotebookDocument, write: Write, disk: Disk, action: str
) -> None:
    await write(notebook("1"))
    other = documents.get("work.ipynb", Recorded(), turn="turn-2")
    kernel, running = await begun(document)
    for session, told in ((document, "wait_for_run"), (other, "Another session runs it")):
        with pytest.raises(PrimeError) as refused:
            await (session.edit("a", "2") if action == "edit" else session.delete("a"))
        assert refused.value.code == "cell_running"
        assert told in refused.value.hint
    kernel.finish.set()
    await running
    assert sources(await disk()) == ["1"]
    await other.delete("a")
    assert sources(await disk()) == []


async def test_run_follows_a_rename(
    document: NotebookDocument,
    documents: NotebookDocuments,
    write: Write,
    disk: Disk,
    contents: Any,
) -> None:
    await write(notebook("1"))
    kernel, running = await begun(document)
    await contents.rename("work.ipynb", "renamed.ipynb")
    documents.rename("work.ipynb", "renamed.ipynb")
    kernel.put("result")
    kernel.finish.set()
    await running
    assert (await disk("renamed.ipynb"))["cells"][0]["outputs"] == kernel.outputs
    assert document.path == "renamed.ipynb"


async def test_rename_of_a_folder(documents: NotebookDocuments, recorded: Recorded) -> None:
    document = documents.get("old/deep/work.ipynb", recorded)
    beside = documents.get("older/work.ipynb", recorded)
    documents.rename("old", "new")
    assert (document.path, beside.path) == ("new/deep/work.ipynb", "older/work.ipynb")
    assert documents.get("new/deep/work.ipynb", recorded).path == "new/deep/work.ipynb"


async def test_only_code_cells_run(document: NotebookDocument, write: Write) -> None:
    nb = notebook("1")
    nb["cells"].append(text_cell("# hi", "text"))
    await write(nb)
    with pytest.raises(PrimeError) as caught:
        await document.run("text", ScriptedKernel())
    assert caught.value.code == "not_a_code_cell"


async def test_a_stopped_run_keeps_what_was_put_out(
    document: NotebookDocument, write: Write, disk: Disk, recorded: Recorded
) -> None:
    await write(notebook("1"))
    kernel, running = await begun(document)
    kernel.put("so far")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    cell = (await disk())["cells"][0]
    assert (cell["outputs"], cell["execution_count"]) == (kernel.outputs, 7)
    assert (recorded.records[-1].after or {})["status"] == "aborted"


async def test_a_thousand_cells(document: NotebookDocument, write: Write, disk: Disk) -> None:
    await write(notebook_of([code_cell(f"x{i} = {i}", f"c{i}") for i in range(1000)]))
    for i in range(0, 1000, 100):
        await document.edit(f"c{i}", f"x{i} = -{i}")
    assert sources(await disk())[900] == "x900 = -900"
    assert len(await document.cells()) == 1000


async def test_text_that_is_not_utf8_can_be_saved(
    document: NotebookDocument, write: Write, disk: Disk
) -> None:
    await write(notebook())
    await document.insert("s = '\ud83d'  # half a surrogate pair")
    assert sources(await disk()) == ["s = '\ufffd'  # half a surrogate pair"]
