"""What cannot work ends in a clear error that says what to do, and the session goes on."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.errors import PrimeError
from prime_ext.session.records import ToolResult
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.received import Received
from tests.messages_api.script import ToolCall, call, reply
from tests.messages_api.server import MessagesAPI


def results_of(session: Driver) -> list[tuple[bool, str]]:
    """Whether each tool call failed, and the text of its result."""
    results = [record for record in session.records() if isinstance(record, ToolResult)]
    return [(result.is_error, result.content[0]["text"]) for result in results]


@pytest.mark.parametrize(
    ("path", "code"), [("nowhere.ipynb", "notebook_not_found"), ("a.csv", "notebook_invalid")]
)
async def test_a_session_needs_a_notebook(
    service: AgentService, jp_root_dir: Path, path: str, code: str
) -> None:
    (jp_root_dir / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PrimeError) as error:
        await service.start_session(path)
    assert error.value.code == code
    assert path in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    "metadata",
    [{"prime": "no"}, {"prime": ["snapshots"]}, {"kernelspec": "python3"}, {"kernelspec": [3]}],
)
async def test_a_notebook_whose_metadata_says_what_it_should_not(
    service: AgentService, jp_root_dir: Path, metadata: dict[str, Any]
) -> None:
    node = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (jp_root_dir / "odd.ipynb").write_text(json.dumps(node))
    session = await service.start_session("odd.ipynb")
    assert (await service.saved(session))["on"]
    assert "`odd.ipynb`" in session.system[0]["text"]


async def test_a_path_with_slashes_at_its_ends_is_that_of_the_same_notebook(
    service: AgentService, notebook: str, jp_root_dir: Path
) -> None:
    session = await service.start_session(f"/{notebook}/")
    assert session.notebook == notebook
    await service.update(session, notebook=f"/{notebook}")
    assert session.notebook == notebook
    (jp_root_dir / "other.ipynb").write_bytes((jp_root_dir / notebook).read_bytes())
    await service.update(session, notebook="/other.ipynb")
    assert session.notebook == "other.ipynb"


async def test_sessions_without_a_notebook_are_found_without_reading_the_others(
    service: AgentService,
    notebook: str,
    jp_root_dir: Path,
    jp_serverapp: ServerApp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await service.start_session(notebook)
    (jp_root_dir / "other.ipynb").write_bytes((jp_root_dir / notebook).read_bytes())
    gone = await service.start_session("other.ipynb")
    (jp_root_dir / "other.ipynb").unlink()
    contents = jp_serverapp.contents_manager

    def out_of_reach(*_arguments: Any, **_options: Any) -> Any:
        raise OSError("out of reach")

    monkeypatch.setattr(contents, "get", out_of_reach)
    assert [found.id for found in await service.without_notebook()] == [gone.id]
    monkeypatch.setattr(contents, "file_exists", out_of_reach)
    assert await service.without_notebook() == []


async def test_a_key_in_a_title_is_taken_out(
    service: AgentService, notebook: str, messages_api: MessagesAPI
) -> None:
    session = await service.start_session(notebook, title=f"Why does {messages_api.key} fail?")
    assert session.title == "Why does [key] fail?"
    assert messages_api.key not in session.log.path.read_text(encoding="utf-8")


async def test_a_permission_mode_that_is_not_there(service: AgentService, notebook: str) -> None:
    with pytest.raises(PrimeError) as error:
        await service.start_session(notebook, permission_mode="root")
    assert (error.value.code, error.value.status) == ("permission_mode_forbidden", 403)
    assert "ask" in error.value.hint


async def test_a_kernel_that_cannot_start_is_an_error_the_model_can_act_on(
    service: AgentService, jp_root_dir: Path, messages_api: MessagesAPI
) -> None:
    node = nbformat.v4.new_notebook()
    node.metadata["kernelspec"] = {"name": "no-such-kernel", "display_name": "Gone"}
    nbformat.write(node, jp_root_dir / "gone.ipynb")
    session = Driver(
        service, await service.start_session("gone.ipynb", permission_mode="auto"), messages_api
    )
    messages_api.enqueue(reply(call("run_code", code="1")), reply("No kernel, sorry."))
    end = await session.ask("Run it.")
    assert end.status == "ok"
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert "no-such-kernel" in result.content[0]["text"]


def write_odd_files(root: Path) -> None:
    (root / "data.parquet").write_bytes(b"PAR1\0\0\0" + bytes(range(256)) * 8)
    with (root / "huge.txt").open("wb") as file:
        file.truncate(200_000_000)
    (root.parent / "outside.txt").write_text("not yours")
    (root / "link.txt").symlink_to(root.parent / "outside.txt")


BAD_CALLS = [
    (call("edit_cell", cell_id="nope", source="1"), ["no cell with the id 'nope'"]),
    (call("run_cell", cell_id="1"), ["'1'", "position", "{code}"]),
    (call("delete_cell", cell_id="0"), ["'0'", "position", "{text}"]),
    (call("edit_cell", cell_id=1, source="y"), ["1 is not of type 'string'"]),
    (
        call("edit_cell", cell_id="{code}", source="x = 2", expected_hash="0" * 64),
        ["Nothing was done", "x = 1", "merge yours into it"],
    ),
    (call("edit_cell", cell_id="{code}", source="x = 2", expected_hash="1"), ["expected_hash"]),
    (call("edit_cell", cell_id="{code}"), ["'source' is a required property"]),
    (call("run_cell", cell_id="{text}"), ["markdown cell"]),
    (call("move_cell", cell_id="{code}", after="nope"), ["no cell with the id 'nope'"]),
    (call("insert_cell", source="1", cell_type="chart"), ["'chart' is not one of"]),
    (call("insert_cell", source="1", colour="red"), ["'colour' was unexpected"]),
    (call("read_file", path="../outside.txt"), ["outside of the server's root", "relative to it"]),
    (call("read_file", path="link.txt"), ["outside of the server's root"]),
    (call("write_file", path="/etc/motd", content="x"), ["outside of the server's root"]),
    (call("read_file", path="data.parquet"), ["binary", "pandas.read_parquet"]),
    (call("read_file", path="huge.txt"), ["200"]),
    (call("write_file", path="work.ipynb", content="{}"), ["cell tools"]),
    (call("read_file", path="gone.csv"), ["no file or folder 'gone.csv'", "list_files"]),
    (call("launch_rocket"), ["no tool called 'launch_rocket'", "run_code"]),
    (ToolCall("run_code", {}, raw_json='{"code": "pri'), ["not valid JSON", '{"code": "pri']),
    (ToolCall("run_code", {}, raw_json="[1, 2]"), ["JSON, but not an object", "[1, 2]"]),
]
"""What a model may send, and what it has to be told to do better. ``{code}`` and ``{text}`` stand
for the ids of the notebook's cells."""


async def test_bad_calls_are_errors_the_model_can_act_on_and_change_nothing(
    new_session: NewSession, jp_root_dir: Path
) -> None:
    write_odd_files(jp_root_dir)
    session = await new_session()
    before = (jp_root_dir / "work.ipynb").read_bytes()
    text, code = (cell["id"] for cell in json.loads(before)["cells"])

    def fill(value: Any) -> Any:
        return {"{code}": code, "{text}": text}.get(value, value)

    calls = [
        replace(bad, input={name: fill(value) for name, value in bad.input.items()})
        for bad, _ in BAD_CALLS
    ]
    # Behind a run that failed, no other of the same reply is made.
    runs = [one for one in calls if one.name.startswith("run_")]
    others = [one for one in calls if one not in runs]
    replies = [reply(one) for one in runs]
    session.api.enqueue(
        reply(call("read_notebook")), *replies, reply(*others), reply("None of it worked.")
    )
    end = await session.ask("Do everything wrong.")
    assert (end.status, end.requests) == ("ok", 3 + len(runs))
    answers = [one for request in session.api.requests[2:] for one in request.tool_results]
    ordered = dict(zip([id(one) for one in [*runs, *others]], answers[-len(calls) :], strict=True))
    results = [ordered[id(one)] for one in calls]
    for bad, (_, told), result in zip(calls, BAD_CALLS, results, strict=True):
        assert result["is_error"], bad
        for words in told:
            assert fill(words) in result["content"][0]["text"], bad
    assert (jp_root_dir / "work.ipynb").read_bytes() == before
    assert (jp_root_dir.parent / "outside.txt").read_text() == "not yours"


async def test_nobody_is_asked_to_allow_what_can_only_fail(
    new_session: NewSession, notebook: str, jp_root_dir: Path
) -> None:
    node = json.loads((jp_root_dir / notebook).read_text())
    locked = node["cells"][0]
    locked["metadata"].update(editable=False, deletable=False)
    (jp_root_dir / notebook).write_text(json.dumps(node))
    session = await new_session(permission_mode="ask")
    calls = [
        call("edit_cell", cell_id=locked["id"], source="mine"),
        call("delete_cell", cell_id=locked["id"]),
        call("delete_cell", cell_id="nope"),
        call("edit_file", path="gone.txt", old="a", new="b"),
    ]
    session.api.enqueue(reply(*calls), reply("None of it worked."))
    end = await session.ask("Do it.")
    assert end.status == "ok"
    assert not session.records("approval_request")
    expected = ("against editing", "against deletion", "'nope'", "gone.txt")
    for (is_error, text), words in zip(results_of(session), expected, strict=True):
        assert is_error
        assert words in text
    assert json.loads((jp_root_dir / notebook).read_text()) == node


async def test_half_of_a_surrogate_pair_becomes_the_replacement_character(
    new_session: NewSession,
) -> None:
    """JSON may contain it, but no message to a kernel."""
    session = await new_session()
    session.api.enqueue(
        reply(
            ToolCall("run_code", {}, raw_json='{"code": "print(\'a\\ud800b\')"}'),
            ToolCall(
                "inspect_variable", {}, raw_json='{"name": "x", "expression": "\'a\\ud800b\'"}'
            ),
        ),
        reply("Done."),
    )
    await session.ask("Print it.")
    ran, (_, looked_at) = results_of(session)
    assert ran == (False, "a\ufffdb")
    assert "fault of the extension" not in looked_at


OLD = {
    "3.0": {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [
            {
                "metadata": {},
                "cells": [
                    {
                        "cell_type": "code",
                        "collapsed": False,
                        "input": "x = 1",
                        "language": "python",
                        "metadata": {},
                        "outputs": [],
                    }
                ],
            }
        ],
    },
    "4.2": {
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 2,
        "cells": [
            {
                "cell_type": "code",
                "metadata": {},
                "source": ["x = 1"],
                "outputs": [],
                "execution_count": None,
            }
        ],
    },
}


@pytest.mark.parametrize("version", OLD)
async def test_an_old_notebook_is_worked_on_and_valid_after_each_step(
    service: AgentService, jp_root_dir: Path, messages_api: MessagesAPI, version: str
) -> None:
    path = jp_root_dir / "old.ipynb"
    path.write_text(json.dumps(OLD[version]))

    def valid() -> list[Any]:
        node = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        nbformat.validate(node)
        return list(nbformat.convert(node, 4).cells)

    def step(name: str, **arguments: Any) -> Any:
        def respond(request: Received) -> Any:
            valid()
            shown = str(request.body["messages"])
            cell_id = re.findall(r"\[([0-9a-f]{8,})\] cell 1", shown)[0]
            return reply(call(name, cell_id=cell_id, **arguments))

        return respond

    steps = [
        lambda _: reply(call("read_notebook")),
        step("edit_cell", source="x = 2\nx"),
        step("run_cell"),
        lambda _: reply(call("insert_cell", source="## End", cell_type="markdown")),
        lambda _: reply("Done."),
    ]
    messages_api.respond = lambda request: steps.pop(0)(request)
    session = Driver(
        service, await service.start_session("old.ipynb", permission_mode="auto"), messages_api
    )
    end = await session.ask("Bring it up to date.")
    assert end.status == "ok"
    assert [r.is_error for r in session.records("tool_result")] == [False] * 4  # type: ignore[union-attr]
    code, text = valid()
    assert (code.source, text.source) == ("x = 2\nx", "## End")
    assert code.outputs[0]["data"]["text/plain"] == "2"


async def test_a_notebook_that_is_damaged_meanwhile_is_left_as_it_is(
    new_session: NewSession, jp_root_dir: Path
) -> None:
    session = await new_session()
    (jp_root_dir / "work.ipynb").write_text('{"cells": [')
    session.api.enqueue(
        reply(call("read_notebook"), call("insert_cell", source="1")), reply("It is damaged.")
    )
    assert (await session.ask("Add a cell.")).status == "ok"
    for result in session.api.requests[1].tool_results:
        assert result["is_error"]
        assert "work.ipynb" in result["content"][0]["text"]
    assert (jp_root_dir / "work.ipynb").read_text() == '{"cells": ['


class TestUnreachable:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return {"ModelConfig": {"base_url": f"http://127.0.0.1:{port}", "max_attempts": 1}}

    async def test_a_server_that_is_not_there_is_named(self, new_session: NewSession) -> None:
        session = await new_session(model="claude-sonnet-5-5")
        end = await session.ask("Hello?")
        assert end.status == "error"
        error = await session.record("error", code="unreachable")
        assert "127.0.0.1" in error.message
        assert error.hint


class TestForbiddenModes:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"PermissionConfig": {"allowed_modes": ["ask", "plan"], "default_mode": "auto"}}

    async def test_an_administrator_can_forbid_modes(
        self, service: AgentService, notebook: str
    ) -> None:
        status = service.status()
        assert status["permission_modes"] == ["ask", "plan"]
        assert status["default_permission_mode"] == "ask"
        with pytest.raises(PrimeError):
            await service.start_session(notebook, permission_mode="auto")
        session = await service.start_session(notebook)
        assert session.permission_mode == "ask"
        with pytest.raises(PrimeError):
            await service.update(session, permission_mode="auto")
