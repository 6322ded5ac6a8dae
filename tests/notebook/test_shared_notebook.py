"""A notebook that lives as a shared document of jupyter-collaboration on this server."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from prime_ext.kernel.late_outputs import LateOutputs
from prime_ext.kernel.outputs import OutputCollector
from prime_ext.notebook.cell import CellConflict, CellLocked, CellNotFound, source_hash
from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.documents import NotebookDocuments
from prime_ext.notebook.lease import LeaseHub
from prime_ext.notebook.writer_shared import EXTENSION, shared_documents
from tests.notebook.conftest import (
    Disk,
    Recorded,
    ScriptedKernel,
    Write,
    code_cell,
    locked,
    notebook,
    notebook_of,
    text_cell,
)

jupyter_ydoc = pytest.importorskip("jupyter_ydoc", reason="jupyter-collaboration is not there")

STREAM = {"output_type": "stream", "name": "stdout", "text": "1\n2\n"}
Share = Callable[[dict[str, Any]], Any]


class Collaboration:
    """Stands in for the server's extension: the documents that are open, by path."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.asked = 0

    async def get_document(self, *, path: str, copy: bool, **kind: str) -> Any:
        assert kind == {"content_type": "notebook", "file_format": "json"}
        assert not copy
        self.asked += 1
        return self.documents.get(path)


@pytest.fixture
def collaboration() -> Collaboration:
    return Collaboration()


@pytest.fixture
def share(collaboration: Collaboration) -> Share:
    """Open a notebook that everybody shares; returns its ``YNotebook``."""

    def share(content: dict[str, Any]) -> Any:
        document = collaboration.documents["work.ipynb"] = jupyter_ydoc.YNotebook()
        document.set(content)
        return document

    return share


@pytest.fixture
def documents(hub: LeaseHub, contents: Any, collaboration: Collaboration) -> NotebookDocuments:
    points = {EXTENSION: SimpleNamespace(app=collaboration)}
    server = SimpleNamespace(extension_manager=SimpleNamespace(extension_points=points))
    return NotebookDocuments(hub, contents, shared=shared_documents(server))


def sources(document: Any) -> list[str]:
    return [cell["source"] for cell in document.get()["cells"]]


async def test_while_it_lives_it_is_written_and_the_file_is_left_alone(
    document: NotebookDocument, write: Write, disk: Disk, share: Share, recorded: Recorded
) -> None:
    await write(notebook("as saved"))
    shared = share(notebook_of([code_cell("typed since", "a"), text_cell("## B", "b")]))
    assert [cell.source for cell in await document.cells()] == ["typed since", "## B"]

    inserted = await document.insert("new", after="a")
    await document.edit("a", "typed since, and edited")
    await document.move("b", "")
    assert sources(shared) == ["## B", "typed since, and edited", "new"]
    await document.delete(inserted.cell.id)
    assert sources(shared) == ["## B", "typed since, and edited"]

    assert [cell["source"] for cell in (await disk())["cells"]] == ["as saved"]
    assert [r.status for r in recorded.records] == ["applied"] * 4
    kept = json.loads(recorded.files[str(recorded.records[-1].kept)])
    assert (kept["id"], kept["source"]) == (inserted.cell.id, "new")


async def test_an_edit_touches_only_what_differs(document: NotebookDocument, share: Share) -> None:
    shared = share(notebook("größe = 1  # 📏\nrest = 2"))
    text = shared.ycells[0]["source"]
    changes: list[Any] = []
    text.observe(lambda event: changes.extend(event.delta))
    await document.edit("a", "größe = 17  # 📏\nrest = 2")
    assert str(text) == "größe = 17  # 📏\nrest = 2"
    assert [change["insert"] for change in changes if "insert" in change] == ["7"]
    assert not [change for change in changes if "delete" in change]
    for source in ("", "ü", "üü", "📏", "x📏", "x"):
        await document.edit("a", source)
        assert str(text) == source


async def test_what_others_typed_is_a_conflict(document: NotebookDocument, share: Share) -> None:
    shared = share(notebook("1"))
    with pytest.raises(CellConflict):
        await document.edit("a", "2", source_hash("0"))
    with pytest.raises(CellNotFound):
        await document.edit("z", "2")
    assert sources(shared) == ["1"]


async def test_what_its_author_has_locked_is_left_alone(
    document: NotebookDocument, share: Share
) -> None:
    shared = share(locked(notebook("1")))
    for change in (document.edit("a", "2"), document.delete("a")):
        with pytest.raises(CellLocked):
            await change
    assert sources(shared) == ["1"]


async def test_the_outcome_of_a_run_is_shown_to_all(
    document: NotebookDocument, share: Share
) -> None:
    shared = share(notebook("1", "2"))
    figure = {"output_type": "display_data", "data": {"text/plain": "f"}, "metadata": {}}
    kernel = ScriptedKernel(outputs=[STREAM, figure])
    kernel.finish.set()
    await document.run("b", kernel)
    cell = shared.get()["cells"][1]
    assert (cell["outputs"], cell["execution_count"]) == ([STREAM, figure], 7)
    assert cell["metadata"] == {"trusted": True}
    assert shared.ycells[1]["execution_state"] == "idle"


async def test_what_a_run_put_out_is_undone_with_the_source(
    document: NotebookDocument, share: Share, recorded: Recorded
) -> None:
    before = {**code_cell("1", "a"), "outputs": [STREAM], "execution_count": 3}
    shared = share(notebook_of([before]))
    kernel = ScriptedKernel()
    kernel.finish.set()
    await document.run("a", kernel)
    assert shared.get_cell(0)["outputs"] == []
    kept = json.loads(recorded.files[recorded.records[0].kept or ""])
    assert (kept["outputs"], kept["execution_count"]) == ([STREAM], 3)
    shown = {"outputs": [STREAM], "execution_count": 3, "trusted": True}
    await document.edit("a", "2", shown=shown)
    cell = shared.get_cell(0)
    assert (cell["source"], cell["outputs"], cell["execution_count"]) == ("2", [STREAM], 3)


async def test_what_comes_behind_the_end_of_a_run(document: NotebookDocument, share: Share) -> None:
    figure = {"output_type": "display_data", "data": {"text/plain": "f"}, "metadata": {}}
    collector = OutputCollector()
    collector.add("display_data", figure)
    collector.add("stream", {"name": "stdout", "text": "1\n"})
    shared = share(notebook("1"))
    kernel = ScriptedKernel(outputs=collector.outputs)
    kernel.late = late = LateOutputs(collector, lambda: None)
    kernel.finish.set()
    await document.run("a", kernel)
    left = shared.ycells[0]["outputs"][0]
    late.hear("stream", {"name": "stdout", "text": "2\n"})
    await document.cells()
    assert shared.get_cell(0)["outputs"] == [figure, STREAM]
    assert left.is_integrated, "not shown anew"
    shared.ycells[0]["execution_state"] = "running"
    late.hear("stream", {"name": "stdout", "text": "3\n"})
    await document.cells()
    assert shared.get_cell(0)["outputs"] == [figure, STREAM], "somebody runs it"


async def test_a_running_cell_that_is_moved_still_runs(
    document: NotebookDocument, share: Share
) -> None:
    shared = share(notebook("1", "2"))
    shared.ycells[0]["execution_state"] = "running"
    await document.move("a", "b")
    assert shared.ycells[1]["execution_state"] == "running"


async def test_ids_of_an_old_notebook_last(document: NotebookDocument, share: Share) -> None:
    shared = share(notebook("1", "2", minor=4))
    first, _ = await document.cells()
    await document.edit(first.id, "one")
    content = shared.get()
    assert content["nbformat_minor"] == 5
    assert content["cells"][0]["id"] == first.id


async def test_one_that_is_being_loaded_is_waited_for(
    document: NotebookDocument, share: Share, collaboration: Collaboration
) -> None:
    loaded = share(notebook("1"))
    collaboration.documents["work.ipynb"] = jupyter_ydoc.YNotebook()
    find = collaboration.get_document

    async def load(**options: Any) -> Any:
        if collaboration.asked == 2:
            collaboration.documents["work.ipynb"] = loaded
        return await find(**options)

    collaboration.get_document = load  # type: ignore[method-assign]
    assert [cell.source for cell in await document.cells()] == ["1"]
    assert collaboration.asked == 3


async def test_without_one_the_file_is_written(
    document: NotebookDocument, write: Write, disk: Disk
) -> None:
    await write(notebook("1"))
    await document.edit("a", "2")
    assert [cell["source"] for cell in (await disk())["cells"]] == ["2"]
