"""Taking back what the agent changed in a turn."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.errors import PrimeError
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI

Changed = Callable[..., Awaitable[tuple[Driver, str]]]


@pytest.fixture
def notebook(jp_root_dir: Path) -> str:
    node = nbformat.v4.new_notebook()
    for cell_id, source in {"one": "x = 1", "two": "y = 2", "three": "z = 3"}.items():
        cell = nbformat.v4.new_code_cell(source, id=cell_id)
        cell.metadata["tags"] = [cell_id]
        node.cells.append(cell)
    node.cells[1].outputs = [nbformat.v4.new_output("stream", text="two\n")]
    nbformat.write(node, jp_root_dir / "work.ipynb")
    return "work.ipynb"


@pytest.fixture
def disk(jp_root_dir: Path) -> Callable[[], Any]:
    """The notebook's cells on disk."""

    def read() -> Any:
        node = nbformat.read(jp_root_dir / "work.ipynb", as_version=4)
        nbformat.validate(node)
        return node.cells

    return read


@pytest.fixture
def changed(new_session: NewSession) -> Changed:
    """``await changed(call, …)`` → the driver and the turn in which the calls were made."""

    async def make(*calls: Any) -> tuple[Driver, str]:
        session = await new_session()
        session.api.enqueue(reply(*calls), reply("Done."))
        end = await session.ask("Change it.")
        assert end.status == "ok"
        assert end.turn is not None
        return session, end.turn

    return make


def look() -> Any:
    return call("read_notebook")


async def test_every_kind_of_change_is_undone(
    changed: Changed, service: AgentService, disk: Callable[[], Any]
) -> None:
    before = disk()
    session, turn = await changed(
        look(),
        call("insert_cell", source="new", after="one"),
        call("edit_cell", cell_id="one", source="x = 10"),
        call("edit_cell", cell_id="one", source="x = 100"),
        call("delete_cell", cell_id="two"),
        call("move_cell", cell_id="three", after=""),
    )
    assert [cell.source for cell in disk()] == ["z = 3", "x = 100", "new"]
    record = await service.revert(session.session, turn, "ada")
    assert disk() == before, "outputs and metadata included"
    outcomes = {entry["outcome"] for entry in record["cells"]}
    assert outcomes == {"removed", "restored", "inserted", "moved"}
    assert (record["turn"], record["user"]) == (turn, "ada")
    ops = [op for op in session.records("notebook_op") if getattr(op, "reverts", None)]
    assert {getattr(op, "reverts", None) for op in ops} == {turn}
    assert {op.turn for op in ops} == {None}

    session.api.enqueue(reply(call("edit_cell", cell_id="one", source="x = 100")), reply("I see."))
    await session.ask("And now?")
    first, second = session.api.requests[-2:]
    assert "<notebook-event>" in str(first.messages)
    assert "cell one" in str(first.messages)
    # It does not hold what the model has seen there last.
    assert "x = 1\n" in second.tool_result_text
    assert disk()[0].source == "x = 1"


async def test_outputs_of_what_is_undone_go_with_it(
    changed: Changed, service: AgentService, disk: Callable[[], Any]
) -> None:
    before = disk()
    session, turn = await changed(
        look(),
        call("edit_cell", cell_id="one", source="print('agent')"),
        call("run_cell", cell_id="one"),
        call("edit_cell", cell_id="two", source="print('agent')"),
        call("run_cell", cell_id="two"),
        call("run_cell", cell_id="two"),
        call("run_cell", cell_id="three"),
    )
    assert [cell.outputs[0].text for cell in disk()[:2]] == ["agent\n", "agent\n"]
    record = await service.revert(session.session, turn, None)
    one, two, three = disk()
    assert (one.source, one.outputs, one.execution_count) == ("x = 1", [], None)
    assert (two.source, two.outputs, two.execution_count) == ("y = 2", before[1].outputs, None)
    assert three.execution_count == 4, "its source is the one that was run"
    assert [entry["outputs"] for entry in record["cells"]] == ["cleared", "restored"]
    session.api.enqueue(reply("I see."))
    await session.ask("And now?")
    assert "cell one (outputs cleared), cell two (outputs restored)" in str(
        session.api.requests[-1].messages
    )


async def test_a_cell_that_was_run_since_keeps_what_it_shows(
    changed: Changed, service: AgentService, jp_root_dir: Path, disk: Callable[[], Any]
) -> None:
    session, turn = await changed(
        look(),
        call("edit_cell", cell_id="two", source="print('agent')"),
        call("run_cell", cell_id="two"),
        call("edit_cell", cell_id="three", source="print('agent')"),
        call("run_cell", cell_id="three"),
        call("delete_cell", cell_id="three"),
    )
    node = nbformat.read(jp_root_dir / "work.ipynb", as_version=4)
    node.cells[1].execution_count = 9
    nbformat.write(node, jp_root_dir / "work.ipynb")
    record = await service.revert(session.session, turn, None)
    _, two, three = disk()
    assert (two.source, two.outputs[0].text) == ("y = 2", "agent\n")
    assert (three.source, three.outputs) == ("z = 3", [])
    assert [entry.get("outputs") for entry in record["cells"]] == [None, "cleared"]


async def test_what_the_user_changed_since_is_left_and_shown(
    changed: Changed, service: AgentService, jp_root_dir: Path, disk: Callable[[], Any]
) -> None:
    session, turn = await changed(
        look(),
        call("edit_cell", cell_id="one", source="x = 10"),
        call("edit_cell", cell_id="three", source="z = 30"),
    )
    node = nbformat.read(jp_root_dir / "work.ipynb", as_version=4)
    node.cells[0].source = "x = 11"
    node.cells.insert(0, nbformat.v4.new_markdown_cell("# Mine"))
    nbformat.write(node, jp_root_dir / "work.ipynb")

    record = await service.revert(session.session, turn, None)
    assert [cell.source for cell in disk()] == ["# Mine", "x = 11", "y = 2", "z = 3"]
    conflict, restored = record["cells"]
    assert conflict == {
        "cell_id": "one",
        "outcome": "conflict",
        "code": "changed_since",
        "reason": "It was changed since.",
        "current": "x = 11",
        "earlier": "x = 1",
    }
    assert restored == {"cell_id": "three", "outcome": "restored"}

    # Once the conflict is settled, the rest can be reverted, and only that.
    node.cells[1].source = "x = 10"
    node.cells[3].source = "z = 30"
    nbformat.write(node, jp_root_dir / "work.ipynb")
    again = await service.revert(session.session, turn, None)
    assert again["cells"] == [{"cell_id": "one", "outcome": "restored"}]
    assert [cell.source for cell in disk()] == ["# Mine", "x = 1", "y = 2", "z = 30"]
    with pytest.raises(PrimeError, match="reverted already"):
        await service.revert(session.session, turn, None)


async def test_files_come_back_byte_for_byte(
    changed: Changed, service: AgentService, jp_root_dir: Path
) -> None:
    old = "é\r\nzwei\r\n".encode("latin-1")
    (jp_root_dir / "old.txt").write_bytes(old)
    (jp_root_dir / "mine.txt").write_text("a\n")
    session, turn = await changed(
        call("edit_file", path="old.txt", old="zwei", new="deux"),
        call("write_file", path="old.txt", content="all new\n"),
        call("write_file", path="folder/new.txt", content="new\n"),
        call("edit_file", path="mine.txt", old="a", new="b"),
    )
    (jp_root_dir / "mine.txt").write_text("b, and mine\n")
    record = await service.revert(session.session, turn, None)
    assert (jp_root_dir / "old.txt").read_bytes() == old
    assert not (jp_root_dir / "folder" / "new.txt").exists()
    assert (jp_root_dir / "mine.txt").read_text() == "b, and mine\n"
    assert [(f["path"], f["outcome"]) for f in record["files"]] == [
        ("old.txt", "restored"),
        ("folder/new.txt", "removed"),
        ("mine.txt", "conflict"),
    ]


async def test_a_file_with_a_key_in_it_is_not_kept_and_not_made_up(
    changed: Changed, service: AgentService, messages_api: MessagesAPI, jp_root_dir: Path
) -> None:
    (jp_root_dir / "notes.txt").write_text(f"{messages_api.key}\nstart\n")
    session, turn = await changed(call("edit_file", path="notes.txt", old="start", new="end"))
    record = await service.revert(session.session, turn, None)
    assert [f["outcome"] for f in record["files"]] == ["failed"]
    assert (jp_root_dir / "notes.txt").read_text().endswith("end\n")
    kept = [file for file in session.session.folder.rglob("*") if file.is_file()]
    assert all(messages_api.key.encode() not in file.read_bytes() for file in kept)


async def test_refused_while_a_turn_runs_and_where_there_is_nothing(
    new_session: NewSession, service: AgentService, jp_root_dir: Path
) -> None:
    session = await new_session(permission_mode="ask")
    session.api.enqueue(reply(call("run_code", code="1")), reply("Done."))
    await session.send("Run it.")
    turn = str(session.records("user_message")[0].turn)
    request = await session.record("approval_request")
    with pytest.raises(PrimeError) as caught:
        await service.revert(session.session, turn, None)
    assert (caught.value.code, caught.value.status) == ("turn_running", 409)
    shutil.copy(jp_root_dir / "work.ipynb", jp_root_dir / "other.ipynb")
    with pytest.raises(PrimeError, match="at work"):
        await service.update(session.session, notebook="other.ipynb")
    await session.allow(request.call_id)
    await session.record("turn_end")
    await session.idle()
    with pytest.raises(PrimeError) as caught:
        await service.revert(session.session, turn, None)
    assert caught.value.code == "nothing_to_revert"
    with pytest.raises(PrimeError) as caught:
        await service.revert(session.session, "nobody's", None)
    assert (caught.value.code, caught.value.status) == ("turn_not_found", 404)


async def test_over_rest(changed: Changed, jp_fetch: Any, disk: Callable[[], Any]) -> None:
    session, turn = await changed(look(), call("edit_cell", cell_id="one", source="x = 10"))
    door = ("prime", "api", "sessions", session.session.id, "turns", turn, "revert")
    answer = await jp_fetch(*door, method="POST", body="")
    assert b'"kind":"revert"' in answer.body
    assert disk()[0].source == "x = 1"


async def test_a_turn_of_before_a_restart(
    changed: Changed, service: AgentService, jp_serverapp: ServerApp, disk: Callable[[], Any]
) -> None:
    session, turn = await changed(look(), call("delete_cell", cell_id="two"))
    await service.close_session(session.session)
    await service.revert(session.session, turn, None)
    assert [cell.source for cell in disk()] == ["x = 1", "y = 2", "z = 3"]
    assert disk()[1].outputs[0].text == "two\n"
