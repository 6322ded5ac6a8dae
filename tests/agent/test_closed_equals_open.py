"""The same run, with the notebook open, with the browser closed, and without a server at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.headless.report import Report
from prime_ext.headless.run import Run, Task
from tests.agent.driver import Driver
from tests.messages_api.received import Received
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI
from tests.notebook.browser import FakeBrowser

PROGRESS = """\
import sys
for i in range(3):
    print(f"\\r{i}", end="", flush=True)
print()
print("warned", file=sys.stderr)
"value\""""
RICH = """\
from IPython.display import HTML, display
handle = display("first", display_id=True)
handle.update("second")
HTML("<b>bold</b>")"""


def script() -> Callable[[Received], Any]:
    """Everything that changes a notebook: insert, edit, run, fail, move, delete, run again."""

    def cell(request: Received, number: int) -> str:
        """Id of the cell that was inserted as the ``number``-th."""
        return str(re.findall(r"Inserted cell id ([\w-]+)", str(request.messages))[number])

    steps: list[Callable[[Received], Any]] = [
        lambda _: reply(
            call("read_notebook"),
            call("insert_cell", source=PROGRESS),
            call("insert_cell", source=RICH),
            call("insert_cell", source="1 / 0"),
            call("insert_cell", source="## A *heading*", cell_type="markdown", after=""),
            call("insert_cell", source="never_run = 1"),
        ),
        lambda r: reply(
            call("run_cell", cell_id=cell(r, 0)),
            call("run_cell", cell_id=cell(r, 1)),
            call("run_code", code="aside = 5\naside"),
            call("run_cell", cell_id=cell(r, 2)),
        ),
        lambda r: reply(
            call("edit_cell", cell_id=cell(r, 2), source="def f():\n    1 / 0\nf()"),
            call("move_cell", cell_id=cell(r, 1), after=cell(r, 2)),
            call("delete_cell", cell_id=cell(r, 4)),
        ),
        lambda r: reply(call("run_cell", cell_id=cell(r, 2)), call("run_cell", cell_id=cell(r, 1))),
        lambda r: reply(call("run_cell", cell_id=cell(r, 0))),
        lambda _: reply("All of it."),
    ]
    return lambda request: steps.pop(0)(request)


def comparable(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells without the ids, which are chosen at random, as one shape of nbformat."""
    node = nbformat.from_dict({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    nbformat.validate(node)
    plain: list[dict[str, Any]] = json.loads(nbformat.writes(node))["cells"]
    for one in plain:
        del one["id"]
    return plain


async def test_cell_for_cell(
    jp_serverapp: ServerApp,
    service: AgentService,
    jp_root_dir: Path,
    tmp_path: Path,
    messages_api: MessagesAPI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = nbformat.v4.new_notebook()
    start.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    start.cells = [nbformat.v4.new_markdown_cell("# Notes"), nbformat.v4.new_code_cell("x = 1")]
    names = ("open.ipynb", "closed.ipynb", "headless.ipynb")
    for name in names:
        nbformat.write(start, jp_root_dir / name)

    page = FakeBrowser(
        jp_serverapp.web_app.settings["prime_leases"], "open.ipynb", json.loads(json.dumps(start))
    ).connect()
    for name in names[:2]:
        messages_api.respond = script()
        session = await service.start_session(name, permission_mode="auto")
        end = await Driver(service, session, messages_api).ask("Do everything.")
        assert (end.status, end.requests) == ("ok", 6)
    page.release()

    messages_api.respond = script()
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / "own" / name))
    monkeypatch.setenv("PRIME_API_KEY", messages_api.key)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.chdir(jp_root_dir)
    task = Task(Path("headless.ipynb"), "Do everything.", yes=True)
    run = Run(task, Report(reply=False), terminal=None)
    await run.carry_out()
    assert run.outcome.status == 0, run.outcome

    metadata = [json.loads((jp_root_dir / name).read_text())["metadata"] for name in names[1:]]
    assert metadata[0] == metadata[1]
    assert metadata[0]["language_info"]["file_extension"] == ".py"
    closed = comparable(json.loads((jp_root_dir / "closed.ipynb").read_text())["cells"])
    assert [cell["source"] for cell in closed][:2] == [["## A *heading*"], ["# Notes"]]
    assert [cell.get("execution_count") for cell in closed] == [None, None, None, 5, 4, 2]
    assert comparable(page.saved[-1]["cells"]) == closed
    headless = comparable(json.loads((jp_root_dir / "headless.ipynb").read_text())["cells"])
    assert headless == closed
