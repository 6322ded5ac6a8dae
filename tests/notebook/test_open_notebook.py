"""A notebook that a browser has open: operations go over the lease; the browser may go away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from prime_ext.errors import PrimeError
from prime_ext.kernel.execution import Execution
from prime_ext.notebook import mirror
from prime_ext.notebook.cell import LOCKS, CellConflict, CellLocked
from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.lease import LeaseClient, LeaseHub
from prime_ext.notebook.renames import follow_renames
from tests.notebook.browser import FakeBrowser
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
)

PATH = "work.ipynb"


@pytest.fixture
def page(hub: LeaseHub, jp_serverapp: Any, jp_root_dir: Path) -> FakeBrowser:
    """A page with the notebook open; the same is on disk."""
    nb = notebook("1", "2")
    (jp_root_dir / PATH).write_text(json.dumps(nb))
    return FakeBrowser(hub, PATH, nb).connect()


def sources(nb: dict[str, Any]) -> list[str]:
    return [cell["source"] for cell in nb["cells"]]


async def test_changes_go_to_the_browser_and_are_saved_by_it(
    document: NotebookDocument, page: FakeBrowser, disk: Disk, recorded: Recorded
) -> None:
    change = await document.insert("3", after="a")
    await document.edit("b", "two")
    await document.move("b", "")
    await document.delete("a")
    assert sources(page.notebook) == ["two", "3"]
    assert sources(page.saved[-1]) == ["two", "3"]
    assert sources(await disk()) == ["1", "2"], "the server must not write beside the browser"
    assert change.unsaved is None
    assert {r.writer for r in recorded.records} == {"browser"}
    (added,) = [r.cell_id for r in recorded.records if r.op == "insert_cell"]
    assert recorded.records[-1].before == state("1", 1, "b", added)


async def test_reading_shows_what_is_not_saved_yet(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    page.cell("a")["source"] = "unsaved"
    assert [cell.source for cell in await document.cells()] == ["unsaved", "2"]


async def test_reading_a_large_notebook_in_pieces(
    document: NotebookDocument, hub: LeaseHub, write: Write
) -> None:
    nb = notebook_of([code_cell(str(i), f"c{i}") for i in range(1000)])
    page = FakeBrowser(hub, PATH, nb).connect()
    assert [c.id for c in await document.cells()] == [f"c{i}" for i in range(1000)]
    assert [op["start"] for op in page.ops("read")] == [0, 300, 600, 900]


async def test_conflict_with_an_edit_that_is_not_saved(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    document.seen.look(await document.cells(), await document.cells())
    page.cell("a")["source"] = "typed by the user"
    with pytest.raises(CellConflict) as caught:
        await document.edit("a", "by the agent")
    assert caught.value.current == "typed by the user"
    assert page.cell("a")["source"] == "typed by the user"
    assert recorded.records[-1].status == "conflict"


async def test_conflict_with_typing_between_reading_and_writing(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    """The browser itself compares, in the moment it writes."""
    real_apply = page.apply

    def apply(op: dict[str, Any]) -> dict[str, Any]:
        if op["op"] == "edit_cell":
            page.cell("a")["source"] = "typed this moment"
        return real_apply(op)

    page.apply = apply
    with pytest.raises(CellConflict) as caught:
        await document.edit("a", "by the agent")
    assert caught.value.current == "typed this moment"
    assert recorded.records[-1].before == {"source": "typed this moment"}


@pytest.mark.parametrize("action", ["edit", "delete"])
async def test_a_lock_that_the_user_sets_between_reading_and_writing_counts(
    action: str, document: NotebookDocument, page: FakeBrowser
) -> None:
    real_apply = page.apply

    def apply(op: dict[str, Any]) -> dict[str, Any]:
        if op["op"] in LOCKS:
            locked(page.notebook)
        return real_apply(op)

    page.apply = apply
    with pytest.raises(CellLocked, match="by its author"):
        await (document.edit("a", "one") if action == "edit" else document.delete("a"))
    assert sources(page.notebook) == ["1", "2"]


async def test_missing_cells_are_explained_by_what_the_browser_has(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    with pytest.raises(PrimeError) as caught:
        await document.move("a", "0")
    assert "never by position" in caught.value.message
    assert "- a (cell 1 of 2, code): 1" in caught.value.message


async def test_a_change_that_could_not_be_saved_says_so(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    real_apply = page.apply

    def apply(op: dict[str, Any]) -> dict[str, Any]:
        if op["op"] == "save":
            raise PrimeError("work.ipynb has changed on disk.", code="save_conflict")
        return real_apply(op)

    page.apply = apply
    change = await document.edit("a", "2")
    assert page.cell("a")["source"] == "2"
    assert "changed on disk" in (change.unsaved or "")
    kernel = ScriptedKernel()
    kernel.finish.set()
    run = await document.run("a", kernel)
    assert run.unsaved is not None
    assert run.unsaved.startswith("The notebook is not saved: ")
    for record in recorded.records:
        assert (record.status, record.code) == ("applied", "save_conflict")
        assert "changed on disk" in (record.reason or "")


async def test_the_server_writes_when_the_browser_does_not_come_back(
    document: NotebookDocument, page: FakeBrowser, disk: Disk
) -> None:
    page.answers = False
    editing = asyncio.create_task(document.insert("3"))
    await page.until(lambda: page.ops("insert_cell"))
    page.drop()
    change = await editing
    assert change.op.writer == "server"
    assert sources(await disk()) == ["1", "2", "3"]


@pytest.mark.parametrize("action", ["insert", "delete"])
async def test_applied_and_saved_but_never_acknowledged(
    action: str, document: NotebookDocument, page: FakeBrowser, write: Write, disk: Disk
) -> None:
    """The file is written instead, where the operation has its effect already."""
    applied = asyncio.Event()
    real_answer = page.answer

    def answer(client: LeaseClient | None, frame: dict[str, Any]) -> None:
        if frame["op"]["op"] in ("insert_cell", "delete_cell"):
            page.apply(frame["op"])
            applied.set()
        else:
            real_answer(client, frame)

    page.answer = answer
    working = asyncio.create_task(
        document.insert("3") if action == "insert" else document.delete("a")
    )
    await applied.wait()
    await write(page.notebook)
    page.drop()
    change = await working
    assert change.op.status == "applied"
    assert sources(await disk()) == (["1", "2", "3"] if action == "insert" else ["2"])


async def test_run_streams_into_the_open_notebook(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    kernel = ScriptedKernel()
    seen: list[list[dict[str, Any]]] = []
    running = asyncio.create_task(document.run("a", kernel, seen.append))
    await kernel.started.wait()
    assert page.cell("a")["id"] in page.runs, "shown as running"
    kernel.put("one")
    await page.until(lambda: len(page.cell("a")["outputs"]) == 1)
    kernel.put("two")
    await page.until(lambda: len(page.cell("a")["outputs"]) == 2)
    kernel.finish.set()
    run = await running
    assert page.runs == {}
    assert page.saved[-1]["cells"][0]["outputs"] == kernel.outputs
    assert page.saved[-1]["cells"][0]["execution_count"] == 7
    sent = [(op["from"], len(op["outputs"])) for op in page.ops("run_outputs")]
    assert sent == [(0, 0), (0, 1), (1, 1)], "only what is new"
    assert (len(seen), run.execution.status, run.unsaved) == (2, "ok", None)
    assert [(r.op, r.status, r.writer) for r in recorded.records] == [
        ("run_cell", "applied", "browser")
    ]


async def test_a_page_that_waits_is_told_what_runs(
    document: NotebookDocument, page: FakeBrowser, hub: LeaseHub
) -> None:
    waiting = FakeBrowser(hub, PATH, notebook("1", "2"), "page-2").connect()
    page.received.clear()
    kernel, running = await begun(document)
    assert waiting.received[-1]["running"] == ["a"]
    kernel.finish.set()
    await running
    assert waiting.received[-1]["running"] == []
    assert not waiting.ops("run_start", "run_end")
    assert "lease" not in [frame["type"] for frame in page.received]


async def test_what_is_on_its_way_when_the_run_ends_is_not_sent_again(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    """A page draws what it is sent: the scripts in an output would run twice."""
    kernel, running = await begun(document)
    held: list[tuple[LeaseClient | None, dict[str, Any]]] = []
    real_answer, page.answer = page.answer, lambda *frame: held.append(frame)
    kernel.put("one")
    await page.until(lambda: held and held[-1][1]["op"].get("outputs"))
    kernel.put("two")
    kernel.finish.set()
    await asyncio.wait({running}, timeout=0.1)
    page.answer = real_answer
    for frame in held:
        real_answer(*frame)
    await running
    texts = [o["data"]["text/plain"] for op in page.ops("run_outputs") for o in op["outputs"]]
    assert texts == ["one", "two"]
    assert page.cell("a")["outputs"] == kernel.outputs


@pytest.mark.parametrize("end", ["aborted", "cannot start", "taken back"])
@pytest.mark.parametrize("is_open", [True, False])
async def test_a_run_that_never_begins_leaves_the_cell_as_it_was(
    end: str,
    is_open: bool,
    document: NotebookDocument,
    page: FakeBrowser,
    recorded: Recorded,
    write: Write,
    disk: Disk,
) -> None:
    mine = {"output_type": "stream", "name": "stdout", "text": "mine"}
    was = {**notebook("1")["cells"][0], "outputs": [mine], "execution_count": 3}
    nb = notebook_of([was])
    await write(nb)
    page.notebook = nb
    if not is_open:
        page.release()
    waits = asyncio.Event()

    class Queued(ScriptedKernel):
        async def execute(self, code: str, **options: Any) -> Execution:
            waits.set()
            if end == "taken back":
                await asyncio.Event().wait()
            if end == "cannot start":
                raise PrimeError("The kernel cannot start.", code="kernel_start_failed")
            return Execution("aborted")

    running = asyncio.create_task(document.run("a", Queued()))
    await waits.wait()
    if end == "taken back":
        running.cancel()
    await asyncio.wait({running})
    shown = page.cell("a") if is_open else (await disk())["cells"][0]
    assert (shown["outputs"], shown["execution_count"]) == ([mine], 3)
    assert (page.runs, page.saved) == ({}, []), "not shown as running, and nothing to save"
    assert [(r.status, r.code, r.reason) for r in recorded.records] == [
        ("failed", "not_begun", None)
    ]


async def test_the_cell_that_runs_is_made_a_markdown_cell(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    kernel, running = await begun(document)
    del page.cell("a")["outputs"], page.cell("a")["execution_count"]
    page.cell("a")["cell_type"] = "markdown"
    kernel.put("one")
    kernel.finish.set()
    run = await running
    assert run.execution.outputs == kernel.outputs
    assert "markdown cell by now" in (run.unsaved or "")
    (record,) = recorded.records
    assert (record.status, record.code) == ("failed", "not_a_code_cell")


async def test_what_a_cell_showed_before_the_turn_ran_it_is_kept_once(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    mine = {"output_type": "stream", "name": "stdout", "text": "mine"}
    page.cell("a")["outputs"] = [mine]
    kernel = ScriptedKernel()
    kernel.finish.set()
    for _ in range(2):
        await document.run("a", kernel)
    first, second = recorded.records
    assert first.kept is not None
    assert second.kept is None
    assert json.loads(recorded.files[first.kept])["outputs"] == [mine]
    shown = {"outputs": [mine], "execution_count": 3, "trusted": True}
    await document.edit("a", "x = 0", shown=shown)
    assert page.saved[-1]["cells"][0]["outputs"] == [mine]
    assert page.saved[-1]["cells"][0]["execution_count"] == 3


async def test_a_cell_is_run_twice_in_turn(document: NotebookDocument, page: FakeBrowser) -> None:
    first, second = ScriptedKernel(), ScriptedKernel()
    runs = [asyncio.create_task(document.run("a", kernel)) for kernel in (first, second)]
    await first.started.wait()
    first.put("first")
    assert not second.executed
    first.finish.set()
    await second.started.wait()
    second.put("second")
    second.finish.set()
    await asyncio.gather(*runs)
    assert page.cell("a")["outputs"] == second.outputs
    assert len(page.ops("run_start")) == 2


async def test_other_operations_are_not_held_up_by_a_run(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    kernel, running = await begun(document)
    await document.insert("3")
    kernel.finish.set()
    await running
    assert sources(page.notebook) == ["1", "2", "3"]


async def test_the_browser_goes_away_in_the_middle_of_a_run(
    document: NotebookDocument, page: FakeBrowser, disk: Disk, recorded: Recorded
) -> None:
    kernel, running = await begun(document)
    kernel.put("one")
    await page.until(lambda: page.cell("a")["outputs"])
    page.drop()
    kernel.put("two")
    kernel.finish.set()
    await running
    cell = (await disk())["cells"][0]
    assert cell["outputs"] == kernel.outputs
    assert cell["execution_count"] == 7
    assert recorded.records[-1].writer == "server"


async def test_closing_the_tab_in_the_middle_of_a_run(
    document: NotebookDocument, page: FakeBrowser, disk: Disk
) -> None:
    kernel, running = await begun(document)
    page.release()
    kernel.put("one")
    kernel.finish.set()
    await running
    assert (await disk())["cells"][0]["outputs"] == kernel.outputs


async def test_reloading_the_page_in_the_middle_of_a_run(
    document: NotebookDocument, page: FakeBrowser, hub: LeaseHub
) -> None:
    kernel, running = await begun(document)
    kernel.put("one")
    await page.until(lambda: page.cell("a")["outputs"])
    page.drop()
    kernel.put("two")
    reloaded = FakeBrowser(hub, PATH, notebook("1", "2"), "page-2").connect()
    await reloaded.until(lambda: len(reloaded.cell("a")["outputs"]) == 2)
    assert "a" in reloaded.runs
    kernel.put("three")
    kernel.finish.set()
    await running
    assert reloaded.cell("a")["outputs"] == kernel.outputs, "complete and nothing doubled"
    assert reloaded.saved[-1]["cells"][0]["execution_count"] == 7


async def test_a_connection_that_breaks_for_a_moment_in_a_run(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    kernel, running = await begun(document)
    kernel.put("one")
    await page.until(lambda: page.cell("a")["outputs"])
    page.drop()
    kernel.put("two")
    page.connect()
    kernel.put("three")
    kernel.finish.set()
    await running
    assert page.cell("a")["outputs"] == kernel.outputs
    assert len(page.ops("run_start")) == 1


async def test_an_update_for_the_old_page_reaches_a_new_one(
    document: NotebookDocument,
    page: FakeBrowser,
    hub: LeaseHub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Outputs that were on their way when the page was reloaded; the new one does not wait."""
    monkeypatch.setattr(mirror, "SHARE", 1000.0)
    monkeypatch.setattr(mirror, "LONGEST_S", 1000.0)
    kernel, running = await begun(document)
    page.answers = False
    kernel.put("one")
    await page.until(lambda: page.ops("run_outputs"))
    page.drop()
    reloaded = FakeBrowser(hub, PATH, notebook("1", "2"), "page-2").connect()
    await reloaded.until(lambda: reloaded.cell("a")["outputs"])
    kernel.finish.set()
    await running
    assert reloaded.cell("a")["outputs"] == kernel.outputs


async def test_opening_the_notebook_in_the_middle_of_a_run(
    document: NotebookDocument, hub: LeaseHub, write: Write
) -> None:
    await write(notebook("1"))
    kernel, running = await begun(document)
    kernel.put("one")
    page = FakeBrowser(hub, PATH, notebook("1")).connect()
    await page.until(lambda: page.cell("a")["outputs"])
    assert "a" in page.runs
    kernel.finish.set()
    run = await running
    assert run.op.writer == "browser"
    assert page.saved[-1]["cells"][0]["outputs"] == kernel.outputs


async def test_the_user_deletes_the_cell_that_runs(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    kernel, running = await begun(document)
    del page.notebook["cells"][0]
    kernel.put("one")
    kernel.finish.set()
    run = await running
    assert run.execution.outputs == kernel.outputs
    assert "deleted while it ran" in (run.unsaved or "")
    (record,) = recorded.records
    assert (record.status, record.code) == ("failed", "cell_deleted")
    assert record.before is not None
    assert record.before["source"] == "1"
    assert sources(page.notebook) == ["2"]


async def test_a_page_that_is_behind_the_file_is_not_said_to_have_lost_a_cell(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    page.notebook = notebook_of([code_cell("mine", "unsaved")])
    page.behind = True
    with pytest.raises(PrimeError) as caught:
        await document.edit("a", "3")
    assert caught.value.code == "cell_not_in_page"
    assert "not up to date" in caught.value.message
    assert "deleted" not in caught.value.message


async def test_outputs_for_which_the_page_has_no_cell_are_written_into_the_file(
    document: NotebookDocument,
    page: FakeBrowser,
    hub: LeaseHub,
    recorded: Recorded,
    disk: Disk,
) -> None:
    kernel, running = await begun(document)
    other = FakeBrowser(hub, PATH, notebook_of([code_cell("mine", "unsaved")]), "page-2")
    other.behind = True
    other.connect()
    page.release()
    kernel.put("one")
    kernel.finish.set()
    run = await running
    cell = (await disk())["cells"][0]
    assert (cell["outputs"], cell["execution_count"]) == (kernel.outputs, 7)
    assert (run.unsaved or "").startswith("The outputs are in the file.")
    (record,) = recorded.records
    assert (record.status, record.code, record.writer) == (
        "applied",
        "outputs_in_file_only",
        "server",
    )
    assert sources(other.notebook) == ["mine"]


async def test_a_cell_that_is_in_neither_page_nor_file_was_deleted(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded, jp_root_dir: Path
) -> None:
    kernel, running = await begun(document)
    page.notebook = notebook_of([code_cell("mine", "unsaved")])
    page.behind = True
    (jp_root_dir / PATH).write_text(json.dumps(notebook_of([code_cell("by git", "other")])))
    kernel.finish.set()
    run = await running
    assert "deleted while it ran" in (run.unsaved or "")
    assert recorded.records[-1].code == "cell_deleted"


async def test_stop_leaves_no_cell_shown_as_running(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    _, running = await begun(document)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert page.runs == {}
    assert page.ops("run_end")[-1]["status"] == "aborted"


async def test_a_kernel_that_cannot_start_leaves_no_cell_shown_as_running(
    document: NotebookDocument, page: FakeBrowser
) -> None:
    class Broken(ScriptedKernel):
        async def execute(self, code: str, **options: Any) -> Execution:
            raise PrimeError("The kernel cannot start.", code="kernel_start_failed")

    with pytest.raises(PrimeError, match="cannot start"):
        await document.run("a", Broken())
    assert page.runs == {}


async def test_an_edit_that_was_stopped_is_either_done_or_not(
    document: NotebookDocument, page: FakeBrowser, recorded: Recorded
) -> None:
    editing = asyncio.create_task(document.edit("a", "2"))
    await page.until(lambda: page.ops("edit_cell"))
    editing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await editing
    assert page.cell("a")["source"] == "2"
    assert [r.status for r in recorded.records] == ["applied"]


async def test_stopping_does_not_wait_for_a_frozen_tab(
    document: NotebookDocument,
    page: FakeBrowser,
    recorded: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    disk: Disk,
) -> None:
    monkeypatch.setattr("prime_ext.notebook.document.STOP_SECONDS", 0.0)
    inserting = asyncio.create_task(document.insert("3"))
    page.answers = False
    await page.until(lambda: page.ops("insert_cell"))
    inserting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await inserting
    assert recorded.records == []
    # The next operation has its turn behind the one that goes on.
    page.answers = True
    page.drop()
    await document.insert("4")
    assert [r.writer for r in recorded.records] == ["server", "server"]
    assert sources(await disk()) == ["1", "2", "3", "4"]


async def test_the_server_tells_of_renames(jp_serverapp: Any, contents: Any, write: Write) -> None:
    await write(notebook("1"))
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def hear(old: str, new: str) -> None:
        heard.put_nowait((old, new))

    stop = follow_renames(jp_serverapp.event_logger, hear)
    await contents.rename(PATH, "new.ipynb")
    assert await asyncio.wait_for(heard.get(), 10) == (PATH, "new.ipynb")
    stop()
