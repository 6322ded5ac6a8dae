"""The notebook tools on a real server with real kernels, and a scripted browser."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from prime_ext.agent.tools.notebook import FULL_CHARS, TOOLS
from prime_ext.agent.tools.run_outcome import NO_STOP
from prime_ext.agent.tools.tool import Question, ToolContext, ToolOutcome
from prime_ext.errors import PrimeError
from prime_ext.kernel.notebook_kernels import NotebookKernels
from prime_ext.notebook.cell import CellLocked, CellNotFound, source_hash
from prime_ext.notebook.documents import NotebookDocuments
from prime_ext.notebook.lease import LeaseHub
from tests.kernel.conftest import until
from tests.notebook.browser import FakeBrowser
from tests.notebook.conftest import Recorded, code_cell, locked, notebook, notebook_of, text_cell

PATH = "work.ipynb"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
FIGURE = (
    "import base64\n"
    "from IPython.display import Image, display\n"
    f"display(Image(base64.b64decode('{PNG}')))\n"
)


class Bench:
    """A session's tools, called as the agent calls them."""

    def __init__(self, server: Any, root: Path) -> None:
        self.root = root
        self.contents = server.contents_manager
        self.hub = LeaseHub(grace_s=0.3, handover_s=0.1, ack_s=5, settle_s=0.1)
        self.kernels = NotebookKernels(server.session_manager, server.kernel_manager, server.log)
        self.recorded = Recorded()
        self.documents = NotebookDocuments(self.hub, self.contents)
        self.progress: list[dict[str, Any]] = []
        self.context = ToolContext(
            call_id="call-1",
            session=None,  # type: ignore[arg-type]
            kernel=self.kernels.for_notebook(PATH),
            document=self.documents.get(PATH, self.recorded),
            root=root,
            progress=self.progress.append,
        )

    def write(self, nb: dict[str, Any]) -> None:
        (self.root / PATH).write_text(json.dumps(nb))

    async def disk(self) -> dict[str, Any]:
        content: dict[str, Any] = (await self.contents.get(PATH, type="notebook"))["content"]
        nbformat.validate(content)
        return content

    async def __call__(self, name: str, **arguments: Any) -> ToolOutcome:
        tool = next(tool for tool in TOOLS if tool.name == name)
        Draft202012Validator(tool.input_schema).validate(arguments)
        assert tool.summary(arguments)
        return await tool.handler(self.context, arguments)

    async def text(self, name: str, **arguments: Any) -> str:
        return str((await self(name, **arguments)).content[0]["text"])

    async def preview(self, name: str, **arguments: Any) -> Question | str:
        tool = next(tool for tool in TOOLS if tool.name == name)
        assert tool.preview is not None
        return await tool.preview(self.context, arguments) or ""


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {
        "KernelRestarter": {"time_to_dead": 0.2},
        "ServerApp": {"jpserver_extensions": {"prime_ext": False}, "allow_root": True},
    }


@pytest.fixture
def bench(jp_serverapp: Any, jp_root_dir: Path, jp_asyncio_loop: Any) -> Iterator[Bench]:
    bench = Bench(jp_serverapp, jp_root_dir)
    yield bench

    async def shut_down() -> None:
        await bench.kernels.close()
        manager = jp_serverapp.kernel_manager
        for kernel_id in list(manager.list_kernel_ids()):
            # A restart under way is let finish: no kernel is shut down during one.
            await until(manager.get_kernel(kernel_id).ready.done)
            await manager.shutdown_kernel(kernel_id, now=True)

    jp_asyncio_loop.run_until_complete(shut_down())


async def refused(bench: Bench, name: str, **arguments: Any) -> PrimeError:
    with pytest.raises(PrimeError) as caught:
        await bench(name, **arguments)
    return caught.value


# -- schemas ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_valid_and_closed(tool: Any) -> None:
    Draft202012Validator.check_schema(tool.input_schema)
    assert tool.input_schema["additionalProperties"] is False
    assert len(tool.description) < 500


def test_names_parameters_and_approvals() -> None:
    assert {
        tool.name: (
            set(tool.input_schema["properties"]),
            set(tool.input_schema.get("required", [])),
            tool.approval,
        )
        for tool in TOOLS
    } == {
        "read_notebook": ({"start", "end", "query"}, set(), "read"),
        "insert_cell": ({"source", "cell_type", "after"}, {"source"}, "edit"),
        "edit_cell": ({"cell_id", "source", "expected_hash"}, {"cell_id", "source"}, "edit"),
        "delete_cell": ({"cell_id"}, {"cell_id"}, "edit"),
        "move_cell": ({"cell_id", "after"}, {"cell_id", "after"}, "edit"),
        "run_cell": ({"cell_id"}, {"cell_id"}, "run"),
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_cell", {"cell_id": 3, "source": ""}),
        ("edit_cell", {"cell_id": "a", "source": "", "expected_hash": "short"}),
        ("insert_cell", {"source": "x", "cell_type": "heading"}),
        ("insert_cell", {"source": "x", "after": 0}),
        ("read_notebook", {"start": 0}),
        ("run_cell", {}),
    ],
)
async def test_what_does_not_fit_the_schema(
    name: str, arguments: dict[str, Any], bench: Bench
) -> None:
    with pytest.raises(ValidationError):
        await bench(name, **arguments)


# -- reading ----------------------------------------------------------------------------------


async def test_reading_says_what_a_cell_is(bench: Bench) -> None:
    nb = notebook("x = 1", "print('hi')")
    nb["cells"][1]["execution_count"] = 3
    nb["cells"][1]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "hi\n" * 2000},
        {
            "output_type": "display_data",
            "data": {"image/png": "A" * 3000, "text/plain": "<Figure>"},
            "metadata": {},
        },
    ]
    nb["cells"].append(text_cell("# Text\n```\ncode\n```", "t"))
    bench.write(nb)
    shown = await bench.text("read_notebook")
    assert shown.startswith("work.ipynb: 3 cells.\n\n[a] cell 1 of 3, code, not run\n```\nx = 1\n")
    assert "[b] cell 2 of 3, code, run as [3]" in shown
    assert "→ image/png (3,000 characters); <Figure>" in shown
    assert "A" * 100 not in shown
    assert len(shown) < 3000
    assert "[t] cell 3 of 3, markdown\n````\n# Text" in shown


async def test_a_lock_is_read_with_the_cell_and_nobody_asked_about_it(bench: Bench) -> None:
    bench.write(locked(notebook("x = 1", "y = 2")))
    shown = await bench.text("read_notebook")
    assert "[a] cell 1 of 2, code, not run, locked against editing and deletion\n" in shown
    assert "[b] cell 2 of 2, code, not run\n" in shown
    for name, arguments in (("edit_cell", {"source": "x = 2"}), ("delete_cell", {})):
        with pytest.raises(CellLocked):
            await bench.preview(name, cell_id="a", **arguments)
    assert isinstance(await bench.preview("run_cell", cell_id="a"), Question)


async def test_reading_a_range_or_a_search(bench: Bench) -> None:
    bench.write(notebook("alpha", "beta", "Gamma", "delta"))
    part = await bench.text("read_notebook", start=2, end=3)
    assert "4 cells, 2 to 3 of them here" in part
    assert ("[b]" in part, "[c]" in part, "[a]" in part, "[d]" in part) == (
        True,
        True,
        False,
        False,
    )
    found = await bench.text("read_notebook", query="gamma")
    assert "1 with 'gamma'" in found
    assert "[c]" in found
    assert "[b]" not in found
    assert "0 with 'omega'" in await bench.text("read_notebook", query="omega")
    assert (await refused(bench, "read_notebook", start=9)).code == "bad_range"


async def test_reading_an_empty_notebook(bench: Bench) -> None:
    bench.write(notebook())
    assert await bench.text("read_notebook") == "work.ipynb has no cells."


async def test_a_thousand_cells_stay_readable(bench: Bench) -> None:
    nb = notebook_of([code_cell(f"x{i} = {i}\n" * 20, f"c{i}") for i in range(1000)])
    bench.write(nb)
    shown = await bench.text("read_notebook")
    assert len(shown) < FULL_CHARS + 15_000
    assert "- [c120] cell 121, code: x120 = 120" in shown
    assert "to cell 1000" in shown
    assert "[c999] cell 1000 of 1000, code, not run" in await bench.text(
        "read_notebook", start=1000
    )


async def test_what_the_user_changed_is_named(bench: Bench) -> None:
    bench.write(notebook("one", "two", "three", "four"))
    await bench("read_notebook")
    inserted = await bench.text("insert_cell", source="mine", after="d")
    nb = await bench.disk()
    nb["cells"][0]["source"] = "one, edited"
    del nb["cells"][1]
    nb["cells"].append(code_cell("new", "n"))
    bench.write(nb)
    shown = await bench.text("read_notebook", start=5)
    assert (
        "Changed since you last read it, not by you:\n"
        "- edited: [a] cell 1: one, edited\n"
        "- inserted: [n] cell 5: new\n"
        "- deleted: [b], was: two\n\n"
    ) in shown
    assert "mine" not in shown, "the model knows what it did itself"
    assert "Inserted cell id" in inserted
    assert "Changed since" not in await bench.text("read_notebook")


async def test_a_cell_that_was_named_but_not_shown_is_not_edited_blindly(bench: Bench) -> None:
    bench.write(notebook("one", "two"))
    await bench("read_notebook")
    bench.write(notebook("one, edited", "two"))
    await bench("read_notebook", start=2)
    assert (await refused(bench, "edit_cell", cell_id="a", source="x")).code == "cell_conflict"


# -- changing ---------------------------------------------------------------------------------


async def test_changing_cells(bench: Bench) -> None:
    bench.write(notebook("1", "2"))
    inserted = await bench.text("insert_cell", source="# Title", cell_type="markdown", after="")
    assert inserted.endswith("markdown, at position 1.")
    assert await bench.text("edit_cell", cell_id="a", source="one") == (
        "Edited cell [a], not run since."
    )
    await bench.text("edit_cell", cell_id="b", source="two", expected_hash=source_hash("2").upper())
    assert await bench.text("move_cell", cell_id="b", after="") == "Cell [b] is now cell 1."
    assert await bench.text("delete_cell", cell_id="a") == "Deleted cell [a]."
    assert [c["source"] for c in (await bench.disk())["cells"]] == ["two", "# Title"]


async def test_a_conflict_tells_both_sides(bench: Bench) -> None:
    bench.write(notebook("1"))
    await bench("read_notebook")
    bench.write(notebook("the user's"))
    error = await refused(bench, "edit_cell", cell_id="a", source="the agent's")
    assert "the user's" in error.message
    assert "the agent's" in error.message
    record = bench.recorded.records[-1]
    assert (record.status, record.code) == ("conflict", "cell_conflict")


async def test_a_change_that_is_not_on_disk_says_so(bench: Bench) -> None:
    page = FakeBrowser(bench.hub, PATH, notebook("1")).connect()
    real_apply = page.apply

    def apply(op: dict[str, Any]) -> dict[str, Any]:
        if op["op"] == "save":
            raise PrimeError("It was changed on disk.", code="save_conflict")
        return real_apply(op)

    page.apply = apply
    said = await bench.text("edit_cell", cell_id="a", source="2")
    assert "The notebook is not saved: It was changed on disk." in said


async def test_a_question_names_cells_as_a_person_knows_them(bench: Bench) -> None:
    bench.write(notebook("x = 1", "y = 2"))

    async def asked(name: str, **arguments: Any) -> tuple[str, str]:
        question = await bench.preview(name, **arguments)
        assert isinstance(question, Question)
        return question.summary, question.detail or ""

    summary, diff = await asked("edit_cell", cell_id="a", source="x = 2")
    assert summary == "Edit cell 1: x = 1"
    assert diff.startswith("```diff\n")
    assert "-x = 1\n+x = 2" in diff
    assert await asked("run_cell", cell_id="a") == ("Run cell 1: x = 1", "```python\nx = 1\n```")
    assert await asked("delete_cell", cell_id="b") == (
        "Delete cell 2: y = 2",
        "```python\ny = 2\n```",
    )
    assert await asked("move_cell", cell_id="a", after="b") == (
        "Move cell 1: x = 1",
        "It goes below cell 2:\n```\ny = 2\n```",
    )
    assert await asked("move_cell", cell_id="b", after="") == (
        "Move cell 2: y = 2",
        "It goes to the top.",
    )
    new = "```python\nnew\n```"
    assert await asked("insert_cell", source="new") == ("Insert a code cell at the end", new)
    assert await asked("insert_cell", source="new", after="") == (
        "Insert a code cell at the top",
        new,
    )
    assert await asked("insert_cell", source="new", after="a") == (
        "Insert a code cell below cell 1: x = 1",
        new,
    )
    for name, arguments in {
        "run_cell": {"cell_id": "7"},
        "insert_cell": {"source": "new", "after": "7"},
    }.items():
        with pytest.raises(CellNotFound):
            await bench.preview(name, **arguments)


async def test_what_was_approved_is_what_runs(bench: Bench) -> None:
    """The user edits the cell between the question and the answer."""
    bench.write(notebook("x = 1"))
    await bench.preview("run_cell", cell_id="a")
    bench.write(notebook("x = 'something else'"))
    assert (await refused(bench, "run_cell", cell_id="a")).code == "cell_conflict"


# -- running in a real kernel -----------------------------------------------------------------


async def test_running_a_closed_notebook(bench: Bench) -> None:
    bench.write(notebook("x = 20\nprint('out')\nx + 1", FIGURE, "1/0", " "))
    outcome = await bench("run_cell", cell_id="a")
    assert outcome.content == [{"type": "text", "text": "out\n21"}]
    figure = await bench("run_cell", cell_id="b")
    text, image = figure.content
    assert text["text"].endswith("[image 1]")
    assert image["source"]["data"] == PNG
    (shown,) = figure.outputs
    assert shown["data"]["image/png"] == {"content_index": 1}
    failed = await bench("run_cell", cell_id="c")
    assert failed.is_error
    assert "ZeroDivisionError" in failed.content[0]["text"]
    assert "\x1b" not in failed.content[0]["text"]
    assert await bench.text("run_cell", cell_id="d") == "Ran without output."
    nb = await bench.disk()
    assert [cell["execution_count"] for cell in nb["cells"]] == [1, 2, 3, None]
    assert nb["cells"][0]["outputs"][1]["data"]["text/plain"] == "21"
    assert nb["cells"][1]["outputs"][0]["data"]["image/png"].strip() == PNG
    assert nb["cells"][2]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert await bench.text("run_cell", cell_id="a") == "out\n21", "it can be run again"


async def test_a_closed_notebook_names_the_kernel_that_ran_it_as_an_open_one_does(
    bench: Bench,
) -> None:
    bench.write(notebook("1"))
    await bench("run_cell", cell_id="a")
    noted = (await bench.disk())["metadata"]
    assert noted["kernelspec"] == {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    language = noted["language_info"]
    assert (language["name"], language["file_extension"]) == ("python", ".py")
    assert language["version"] == platform.python_version()
    nb = notebook("1")
    nb["metadata"] = {"kernelspec": {"name": "python3", "display_name": "Mine"}, "mine": 1}
    bench.write(nb)
    await bench("run_cell", cell_id="a")
    assert (await bench.disk())["metadata"] == {**nb["metadata"], "language_info": language}


async def test_running_with_the_browser_open_equals_running_without(bench: Bench) -> None:
    code = [
        "import sys, time\nfor i in range(5):\n    print(f'\\r{i}', end='', flush=True)\n"
        "    time.sleep(0.1)\nprint('done', file=sys.stderr)\n'value'",
        FIGURE,
        "raise ValueError('wrong')",
        "pass",
    ]
    bench.write(notebook(*code))
    page = FakeBrowser(bench.hub, PATH, notebook(*code)).connect()
    for cell_id in "abcd":
        await bench("run_cell", cell_id=cell_id)
    in_browser = page.saved[-1]["cells"]
    assert page.runs == {}
    page.release()
    for cell_id in "abcd":
        await bench("run_cell", cell_id=cell_id)
    on_disk = (await bench.disk())["cells"]
    for shown, stored in zip(in_browser, on_disk, strict=True):
        for output in (*shown["outputs"], *stored["outputs"]):
            output.pop("execution_count", None)
            output.pop("traceback", None)
        assert shown["outputs"] == stored["outputs"]
        assert shown["execution_count"] + 4 == stored["execution_count"]
    assert any(body.get("outputs") for body in bench.progress)


async def test_the_browser_goes_away_while_a_real_kernel_runs(bench: Bench) -> None:
    code = "from pathlib import Path\nimport time\nprint('begun', flush=True)\n" + (
        "while not Path('go').exists():\n    time.sleep(0.02)\nprint('end')"
    )
    bench.write(notebook(code))
    page = FakeBrowser(bench.hub, PATH, notebook(code)).connect()
    running = asyncio.create_task(bench("run_cell", cell_id="a"))
    await page.until(lambda: page.cell("a")["outputs"])
    page.drop()
    (bench.root / "go").touch()
    outcome = await running
    assert outcome.content[0]["text"] == "begun\nend"
    (cell,) = (await bench.disk())["cells"]
    assert cell["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "begun\nend\n"}]
    assert cell["execution_count"] == 1


async def test_stopping_interrupts_the_cell_and_keeps_its_output(bench: Bench) -> None:
    code = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    bench.write(notebook(code, "'alive'"))
    page = FakeBrowser(bench.hub, PATH, notebook(code, "'alive'")).connect()
    running = asyncio.create_task(bench("run_cell", cell_id="a"))
    await page.until(lambda: page.cell("a")["outputs"])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert page.runs == {}
    assert page.cell("a")["outputs"][0]["text"] == "begun\n"
    assert await bench.text("run_cell", cell_id="b") == "'alive'"


async def test_a_kernel_that_dies_ends_the_run(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    code = f"""\
import os, pathlib, time
print('last words', flush=True)
while not pathlib.Path({str(gate)!r}).exists():
    time.sleep(0.02)
os._exit(1)"""
    bench.write(notebook(code))
    restarted = asyncio.Event()
    bench.context.kernel.on_restarted.append(lambda _reason: restarted.set())
    running = asyncio.ensure_future(bench("run_cell", cell_id="a"))
    # What a kernel has put out is lost with it unless it was sent.
    await until(lambda: any(body.get("outputs") for body in bench.progress))
    gate.touch()
    outcome = await running
    assert outcome.is_error
    assert "The kernel died during this run" in outcome.content[0]["text"]
    # It had been given a number when it began.
    assert (await bench.disk())["cells"][0]["execution_count"] == 1
    # A kernel cannot be shut down while it is being restarted.
    await asyncio.wait_for(restarted.wait(), 60)


async def test_ten_thousand_lines(bench: Bench) -> None:
    bench.write(notebook("for i in range(10_000):\n    print('line', i)"))
    text = await bench.text("run_cell", cell_id="a")
    assert text.count("\n") == 9_999
    (output,) = (await bench.disk())["cells"][0]["outputs"]
    assert output["text"].count("\n") == 10_000


async def test_a_kernel_that_does_not_exist(bench: Bench) -> None:
    nb = notebook("1")
    nb["metadata"]["kernelspec"] = {"name": "no-such-kernel", "display_name": "None"}
    bench.write(nb)
    assert (await refused(bench, "run_cell", cell_id="a")).code == "kernel_start_failed"
    assert (await bench.disk())["cells"][0]["execution_count"] is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_notebook", {}),
        ("insert_cell", {"source": "1"}),
        ("edit_cell", {"cell_id": "a", "source": "1"}),
        ("run_cell", {"cell_id": "a"}),
    ],
)
async def test_without_the_notebook(name: str, arguments: dict[str, Any], bench: Bench) -> None:
    assert (await refused(bench, name, **arguments)).code == "notebook_not_found"


async def test_input_is_refused_with_what_to_do(bench: Bench) -> None:
    bench.write(notebook("input('name? ')"))
    outcome = await bench("run_cell", cell_id="a")
    assert outcome.is_error
    assert "Put the value into the code" in outcome.content[0]["text"]


@pytest.mark.parametrize("code", ["%debug", "import pdb; pdb.set_trace()\nx = 1"])
async def test_a_debugger_is_refused_with_what_to_do(code: str, bench: Bench) -> None:
    bench.write(notebook("1/0", code))
    await bench("run_cell", cell_id="a")
    outcome = await bench("run_cell", cell_id="b")
    assert outcome.is_error
    assert "debuggers need a person's input" in outcome.content[0]["text"]


async def test_a_breakpoint_that_stopped_nothing_is_told(bench: Bench) -> None:
    bench.write(notebook("x = 1\nbreakpoint()", "print('breakpoint()')"))
    told = await bench.text("run_cell", cell_id="a")
    assert told == f"Ran without output.\n{NO_STOP}"
    assert await bench.text("run_cell", cell_id="b") == "breakpoint()"


async def test_a_cell_that_its_author_expects_to_raise_is_no_failure(bench: Bench) -> None:
    nb = notebook("1/0", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)", "1/0")
    for cell in nb["cells"][:2]:
        cell["metadata"]["tags"] = ["raises-exception"]
    bench.write(nb)
    raised = await bench("run_cell", cell_id="a")
    assert not raised.is_error
    assert raised.content[0]["text"].count("ZeroDivisionError: division by zero") == 1
    assert "expects it to raise" in raised.content[0]["text"]
    assert (await bench("run_cell", cell_id="b")).is_error, "an interrupt is what nobody expects"
    assert (await bench("run_cell", cell_id="c")).is_error
