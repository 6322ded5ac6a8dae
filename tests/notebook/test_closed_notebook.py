"""A notebook that no browser has open: written through the real contents manager."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nbformat
import pytest

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import CellConflict, source_hash
from tests.notebook.conftest import ScriptedKernel, notebook

FIGURE = {"output_type": "display_data", "data": {"text/html": "<b>1</b>"}, "metadata": {}}


def sources(nb: dict[str, Any]) -> list[str]:
    return [cell["source"] for cell in nb["cells"]]


async def test_insert_at_each_place(document, write, disk, recorded):
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
    assert op.after == {"source": "# first", "cell_type": "markdown", "index": 0}


async def test_edit_delete_and_move(document, write, disk, recorded):
    await write(notebook("1", "2", "3"))
    await document.edit("b", "two\r\nlines", source_hash("2"))
    await document.move("a", "c")
    await document.delete("c")
    assert sources(await disk()) == ["two\nlines", "1"]
    edit, move, delete = recorded.records
    assert edit.before == {"source": "2", "cell_type": "code", "index": 1}
    assert (move.before["index"], move.after["index"]) == (0, 2)
    assert (delete.before["source"], delete.after) == ("3", None)


async def test_a_stale_hash_is_a_conflict_and_changes_nothing(document, write, disk, recorded):
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


async def test_an_edit_since_the_last_look_is_a_conflict_once(document, write, disk):
    await write(notebook("1"))
    document.seen.look(await document.cells(), await document.cells())
    await write(notebook("changed by the user"))
    with pytest.raises(CellConflict):
        await document.edit("a", "2")
    # The conflict has told what the cell holds: going on is now an informed decision.
    await document.edit("a", "changed by the user and me")
    assert sources(await disk()) == ["changed by the user and me"]


@pytest.mark.parametrize("action", ["delete", "run"])
async def test_deleting_and_running_mind_the_users_edit_too(action, document, write, disk):
    await write(notebook("1"))
    document.seen.look(await document.cells(), await document.cells())
    await write(notebook("2"))
    kernel = ScriptedKernel()
    with pytest.raises(CellConflict):
        await (document.delete("a") if action == "delete" else document.run("a", kernel))
    assert kernel.executed == []
    assert sources(await disk()) == ["2"]


async def test_an_index_is_refused_and_near_ids_named(document, write):
    await write(notebook("x = 1", "y = 2", "z = 3", "far = 4"))
    with pytest.raises(PrimeError) as caught:
        await document.edit("1", "oops")
    assert caught.value.code == "cell_not_found"
    assert "never by position" in caught.value.message
    assert "- b (cell 2 of 4, code): y = 2" in caught.value.message


async def test_an_unknown_id_names_similar_ones(document, write):
    nb = notebook("x = 1")
    nb["cells"][0]["id"] = "f3a9c1d2"
    await write(nb)
    with pytest.raises(PrimeError) as caught:
        await document.insert("y", after="f3a9c1d3")
    assert "f3a9c1d2" in caught.value.message


async def test_a_change_by_another_program_is_kept(document, write, disk, contents, monkeypatch):
    """The file changes between our reading and our saving."""
    await write(notebook("1", "2"))
    await document.cells()
    real_get, raced = contents.get, []

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


async def test_parallel_operations_all_arrive(document, documents, write, disk):
    from tests.notebook.conftest import Recorded

    await write(notebook("0"))
    other_session = Recorded()
    other = documents.get("/work.ipynb", other_session)
    await asyncio.gather(
        *(document.insert(f"a{i}") for i in range(10)), *(other.insert(f"b{i}") for i in range(10))
    )
    expected = {"0"} | {f"a{i}" for i in range(10)} | {f"b{i}" for i in range(10)}
    assert set(sources(await disk())) == expected


@pytest.mark.parametrize("minor", [0, 4])
async def test_old_notebooks_get_ids_that_last(minor, document, jp_root_dir, disk):
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


async def test_notebook_of_nbformat_3(document, jp_root_dir, disk):
    v3 = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("print 1")])]
    )
    (jp_root_dir / "work.ipynb").write_text(nbformat.v3.writes_json(v3))
    (cell,) = await document.cells()
    assert cell.source == "print 1"
    await document.edit(cell.id, "print(1)")
    nb = await disk()
    assert (nb["nbformat"], sources(nb)) == (4, ["print(1)"])


@pytest.mark.filterwarnings("ignore::nbformat.warnings.MissingIDFieldWarning")
@pytest.mark.filterwarnings("ignore::nbformat.warnings.DuplicateCellId")
async def test_notebook_with_missing_and_doubled_ids(document, jp_root_dir, disk):
    broken = notebook("1", "2", "3")
    del broken["cells"][0]["id"]
    broken["cells"][2]["id"] = "b"
    (jp_root_dir / "work.ipynb").write_text(json.dumps(broken))
    ids = [cell.id for cell in await document.cells()]
    assert len(set(ids)) == 3
    await document.edit(ids[0], "one")
    await document.edit(ids[2], "three")
    assert sources(await disk()) == ["one", "2", "three"]


async def test_a_notebook_that_is_not_there(document):
    with pytest.raises(PrimeError) as caught:
        await document.insert("1")
    assert (caught.value.code, caught.value.status) == ("notebook_not_found", 404)


async def test_a_file_that_is_no_notebook(document, jp_root_dir):
    (jp_root_dir / "work.ipynb").write_text("{not json")
    with pytest.raises(PrimeError) as caught:
        await document.cells()
    assert caught.value.code == "notebook_invalid"


async def test_a_read_only_notebook(document, write, contents, monkeypatch, recorded):
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


async def test_run_leaves_a_trusted_notebook_trusted(document, write, contents, disk):
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


async def test_run_does_not_make_foreign_outputs_trusted(document, jp_root_dir, disk):
    nb = notebook("1", "2")
    nb["cells"][1]["outputs"] = [dict(FIGURE)]
    (jp_root_dir / "work.ipynb").write_text(json.dumps(nb))
    kernel = ScriptedKernel(outputs=[dict(FIGURE)])
    kernel.finish.set()
    await document.run("a", kernel)
    assert (await disk())["cells"][1]["metadata"]["trusted"] is False


async def test_run_of_a_notebook_deleted_meanwhile_keeps_its_outputs(
    document, write, jp_root_dir, recorded
):
    await write(notebook("1"))
    kernel = ScriptedKernel()
    running = asyncio.create_task(document.run("a", kernel))
    await kernel.started.wait()
    (jp_root_dir / "work.ipynb").unlink()
    kernel.put("result")
    kernel.finish.set()
    run = await running
    assert run.execution.outputs == kernel.outputs
    assert "no notebook work.ipynb" in (run.unsaved or "")
    assert recorded.records[-1].status == "failed"


async def test_run_follows_a_rename(document, documents, write, disk, contents):
    await write(notebook("1"))
    kernel = ScriptedKernel()
    running = asyncio.create_task(document.run("a", kernel))
    await kernel.started.wait()
    await contents.rename("work.ipynb", "renamed.ipynb")
    documents.rename("work.ipynb", "renamed.ipynb")
    kernel.put("result")
    kernel.finish.set()
    await running
    assert (await disk("renamed.ipynb"))["cells"][0]["outputs"] == kernel.outputs
    assert document.path == "renamed.ipynb"


async def test_rename_of_a_folder(documents, recorded):
    document = documents.get("old/deep/work.ipynb", recorded)
    beside = documents.get("older/work.ipynb", recorded)
    documents.rename("old", "new")
    assert (document.path, beside.path) == ("new/deep/work.ipynb", "older/work.ipynb")
    assert documents.get("new/deep/work.ipynb", recorded).path == "new/deep/work.ipynb"


async def test_only_code_cells_run(document, write):
    nb = notebook("1")
    nb["cells"].append({**nbformat.v4.new_markdown_cell("# hi"), "id": "text"})
    await write(nb)
    with pytest.raises(PrimeError) as caught:
        await document.run("text", ScriptedKernel())
    assert caught.value.code == "not_a_code_cell"


async def test_a_stopped_run_keeps_what_was_put_out(document, write, disk, recorded):
    await write(notebook("1"))
    kernel = ScriptedKernel()
    running = asyncio.create_task(document.run("a", kernel))
    await kernel.started.wait()
    kernel.put("so far")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await disk())["cells"][0]["outputs"] == kernel.outputs
    assert recorded.records[-1].after["status"] == "aborted"


async def test_a_thousand_cells(document, write, disk):
    nb = nbformat.v4.new_notebook(
        cells=[{**nbformat.v4.new_code_cell(f"x{i} = {i}"), "id": f"c{i}"} for i in range(1000)]
    )
    await write(nb)
    for i in range(0, 1000, 100):
        await document.edit(f"c{i}", f"x{i} = -{i}")
    assert sources(await disk())[900] == "x900 = -900"
    assert len(await document.cells()) == 1000


async def test_text_that_is_not_utf8_can_be_saved(document, write, disk):
    await write(notebook())
    await document.insert("s = '\ud83d'  # half a surrogate pair")
    assert sources(await disk()) == ["s = '\ufffd'  # half a surrogate pair"]
