"""What runs put out behind their ends, in the cells they filled: real kernels, both writers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.notebook_kernels import NotebookKernels
from prime_ext.notebook import late_mirror
from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.documents import NotebookDocuments
from prime_ext.notebook.lease import LeaseHub
from tests.kernel.conftest import leave, occupy, until
from tests.notebook.browser import FakeBrowser
from tests.notebook.conftest import Recorded, notebook

PATH = "work.ipynb"

LATER = """\
import asyncio
said = asyncio.Queue()
async def later(said=said):
    while True:
        exec(await said.get())
task = asyncio.create_task(later())
"""
"""A cell whose task goes on behind its end, and does what it is told in the cell's name."""

Say = Callable[[str], Awaitable[None]]


class Shown:
    """The cells of the notebook as its writer has them, wherever that is."""

    def __init__(self, file: Path, page: FakeBrowser | None) -> None:
        self._file = file
        self.page = page

    def outputs(self, cell_id: str) -> list[dict[str, Any]]:
        if self.page is not None:
            return list(self.page.cell(cell_id)["outputs"])
        try:
            cells = json.loads(self._file.read_text())["cells"]
        except json.JSONDecodeError:
            return []  # It is being written this moment.
        outputs = next(cell["outputs"] for cell in cells if cell["id"] == cell_id)
        return [_joined(output) for output in outputs]

    def change(self, cell_id: str, **fields: Any) -> None:
        """A person, or another program, changes a cell."""
        if self.page is not None:
            self.page.cell(cell_id).update(fields)
            return
        content = json.loads(self._file.read_text())
        next(cell for cell in content["cells"] if cell["id"] == cell_id).update(fields)
        self._file.write_text(json.dumps(content))

    def save(self) -> None:
        """The page saves."""
        assert self.page is not None
        self._file.write_text(json.dumps(self.page.notebook))


def _joined(output: dict[str, Any]) -> dict[str, Any]:
    """An output with its lines in one, as nbformat reads it."""
    text = output.get("text")
    data = output.get("data")
    if isinstance(text, list):
        return {**output, "text": "".join(text)}
    if data is not None:
        return {**output, "data": {k: "".join(v) for k, v in data.items()}}
    return output


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def display(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_mirror, "OPEN_INTERVAL_S", 0.05)
    monkeypatch.setattr(late_mirror, "CLOSED_INTERVAL_S", 0.05)


@pytest.fixture
def kernel(
    jp_serverapp: Any, jp_asyncio_loop: Any, documents: NotebookDocuments
) -> Iterator[NotebookKernel]:
    kernels = NotebookKernels(
        jp_serverapp.session_manager, jp_serverapp.kernel_manager, jp_serverapp.log
    )
    yield kernels.for_notebook(PATH)
    jp_asyncio_loop.run_until_complete(documents.close())
    jp_asyncio_loop.run_until_complete(kernels.close())


@pytest.fixture
def make(hub: LeaseHub, jp_root_dir: Path) -> Callable[..., Shown]:
    def make(*sources: str, is_open: bool = False) -> Shown:
        content = notebook(*sources)
        file = jp_root_dir / PATH
        file.write_text(json.dumps(content))
        return Shown(file, FakeBrowser(hub, PATH, content).connect() if is_open else None)

    return make


@pytest.fixture
def say(kernel: NotebookKernel) -> Say:
    """Have the task of `LATER` run a line; returns when what that puts out was heard."""

    async def say(line: str) -> None:
        run = await kernel.execute(f"said.put_nowait({line!r})", store_history=False)
        assert run.status == "ok"
        await kernel.execute("None", store_history=False)

    return say


both = pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])


@both
async def test_what_comes_behind_the_end_gets_into_the_cell(
    is_open: bool,
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
    recorded: Recorded,
) -> None:
    shown = make(f"{LATER}print('0 %', end='')", is_open=is_open)
    run = await document.run("a", kernel)
    assert run.execution.outputs == [stream("0 %")]
    await say("print('\\r50 %', end='')")
    await until(lambda: shown.outputs("a") == [stream("50 %")])
    await say("print('\\r100 %\\ndone')")
    await say("display(7)")
    done = [stream("100 %\ndone\n"), display("7")]
    await until(lambda: shown.outputs("a") == done)
    await say("from IPython.display import clear_output; clear_output(wait=True)")
    await say("print('anew')")
    await until(lambda: shown.outputs("a") == [stream("anew\n")])
    assert [r.op for r in recorded.records] == ["run_cell"], "the turn may be over"
    assert run.execution.outputs == [stream("0 %")]


@both
async def test_a_later_run_updates_a_display(
    is_open: bool,
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    jp_serverapp: Any,
) -> None:
    shown = make(
        "print('above'); _ = display(1, display_id='bar'); print('below')",
        "from IPython.display import update_display\nupdate_display(2, display_id='bar')",
        is_open=is_open,
    )

    def as_is(value: int) -> Callable[[], bool]:
        outputs = [stream("above\n"), display(str(value)), stream("below\n")]
        return lambda: shown.outputs("a") == outputs

    await document.run("a", kernel)
    assert as_is(1)()
    await document.run("b", kernel)
    await until(as_is(2))
    assert shown.outputs("b") == []
    await kernel.execute("update_display(3, display_id='bar')", store_history=False)
    await until(as_is(3))
    person = await occupy(jp_serverapp, str(kernel.kernel_id), "display(4, display_id='bar')")
    await until(as_is(4))
    await leave(person)


@both
async def test_a_cell_that_was_cleared_takes_what_comes(
    is_open: bool,
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
) -> None:
    shown = make(f"{LATER}_ = display(1, display_id='bar'); print('0 %', end='')", is_open=is_open)
    await document.run("a", kernel)
    shown.change("a", outputs=[], execution_count=None)
    await say("print('\\r1 %'); display(2)")
    await until(lambda: shown.outputs("a") == [stream("1 %\n"), display("2")])
    # The display is gone; what stands in its place is not overwritten.
    await kernel.execute(
        "from IPython.display import update_display; update_display(3, display_id='bar')",
        store_history=False,
    )
    await say("print('end')")
    await until(lambda: shown.outputs("a") == [stream("1 %\n"), display("2"), stream("end\n")])


@both
async def test_an_older_run_stays_out_of_the_persons(
    is_open: bool,
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
) -> None:
    shown = make(f"{LATER}print('old')", LATER.replace("said", "other"), is_open=is_open)
    await document.run("a", kernel)
    await document.run("b", kernel)
    mine = [stream("the person's\n")]
    shown.change("a", outputs=mine, execution_count=9)
    await say("print('late')")
    # What comes for the other cell has come behind it.
    await kernel.execute("other.put_nowait('print(1)')", store_history=False)
    await until(lambda: shown.outputs("b") == [stream("1\n")])
    for _ in range(2):
        await document.cells()
    assert shown.outputs("a") == mine


@both
async def test_an_older_run_stays_out_of_the_next(
    is_open: bool,
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
) -> None:
    shown = make(f"{LATER}print('first')", is_open=is_open)
    await document.run("a", kernel)
    await kernel.execute("before = said", store_history=False)
    await document.run("a", kernel)
    await kernel.execute("before.put_nowait('print(1)')", store_history=False)
    await say("print(2)")
    await until(lambda: shown.outputs("a") == [stream("first\n2\n")])


@both
async def test_nothing_gets_into_a_cell_that_was_put_back(
    is_open: bool,
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
) -> None:
    shown = make(f"{LATER}print('old')", "1", is_open=is_open)
    await document.run("a", kernel)
    before = {"outputs": [stream("before\n")], "execution_count": 1, "trusted": True}
    await document.edit("a", "2", shown=before)
    await say("print('late')")
    await document.delete("b")
    await document.cells()
    assert shown.outputs("a") == [stream("before\n")]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before it has to be."""
    monkeypatch.setattr(late_mirror, "OPEN_INTERVAL_S", 1000.0)
    monkeypatch.setattr(late_mirror, "CLOSED_INTERVAL_S", 1000.0)


async def test_reading_shows_what_has_come_which_is_written_once(
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
    patient: None,
) -> None:
    shown = make(LATER, is_open=True)
    assert shown.page is not None
    await document.run("a", kernel)
    await say("for i in range(100): print(i, flush=True)")
    assert shown.outputs("a") == []
    (cell,) = await document.cells()
    lines = "".join(f"{i}\n" for i in range(100))
    assert cell.outputs == shown.outputs("a") == [stream(lines)]
    assert len(shown.page.ops("late_outputs")) == 1


async def test_what_came_before_the_kernel_went_is_shown(
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
    patient: None,
    jp_serverapp: Any,
) -> None:
    shown = make(f"{LATER}print('now')")
    await document.run("a", kernel)
    await say("print('late')")
    await jp_serverapp.kernel_manager.restart_kernel(kernel.kernel_id)
    await until(lambda: shown.outputs("a") == [stream("now\nlate\n")])
    # The counts begin anew: what a person runs now may have that of the former process.
    await document.run("a", kernel)
    await say("print('late')")
    await document.cells()
    assert shown.outputs("a") == [stream("now\nlate\n")]


async def test_the_end_of_the_server_brings_what_has_come(
    document: NotebookDocument,
    documents: NotebookDocuments,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
    patient: None,
) -> None:
    shown = make(LATER)
    await document.run("a", kernel)
    await say("print('late')")
    await documents.close()
    assert shown.outputs("a") == [stream("late\n")]


async def test_the_page_is_closed(
    document: NotebookDocument, kernel: NotebookKernel, make: Callable[..., Shown], say: Say
) -> None:
    shown = make(f"{LATER}print('now')", is_open=True)
    page = shown.page
    assert page is not None
    await document.run("a", kernel)
    await say("print('open')")
    await page.until(lambda: page.cell("a")["outputs"] == [stream("now\nopen\n")])
    # It takes and saves one update more, of which the server does not hear.
    page.answers = False
    await say("display(1)")
    await page.until(lambda: len(page.ops("late_outputs")) == 2)
    page.apply(page.ops("late_outputs")[-1])
    shown.save()
    page.drop()
    await say("print('closed')")
    shown.page = None
    all_of_it = [stream("now\nopen\n"), display("1"), stream("closed\n")]
    await until(lambda: shown.outputs("a") == all_of_it)


async def test_a_file_that_cannot_be_written_for_a_while(
    document: NotebookDocument,
    kernel: NotebookKernel,
    make: Callable[..., Shown],
    say: Say,
    contents: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = make(LATER)
    await document.run("a", kernel)
    save, failures = contents.save, [HTTPError(500, "disk full")] * 2

    tried, came = asyncio.Event(), asyncio.Event()

    async def fail(*arguments: Any) -> Any:
        if failures:
            tried.set()
            await came.wait()
            raise failures.pop()
        return await save(*arguments)

    monkeypatch.setattr(contents, "save", fail)
    await say("print('one')")
    await tried.wait()
    # It comes now, and is not in what is tried again.
    await say("print('two')")
    came.set()
    await until(lambda: shown.outputs("a") == [stream("one\ntwo\n")])
    assert not failures
