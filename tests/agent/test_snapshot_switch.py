"""Variables that are not saved, because a person wants it so."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest

from prime_ext.agent import snapshot_switch
from prime_ext.agent.service import AgentService
from prime_ext.agent.snapshot_switch import BY_METADATA, BY_PERSON, SnapshotSwitch
from prime_ext.errors import PrimeError
from prime_ext.private_file import replace_private
from prime_ext.session.records import Settings, Snapshot
from tests.agent.conftest import NewSession
from tests.messages_api.script import call, reply


async def test_off_deletes_what_was_saved_and_holds_for_every_session_of_the_notebook(
    new_session: NewSession, service: AgentService
) -> None:
    other = await new_session()
    await service.snapshot(other.session, "ada")
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="token = 'sesame'")), reply("Done."))
    await session.ask("Run it.")
    await session.record("snapshot", outcome="ok")
    await service.snapshot(other.session, "ada")
    assert (await service.saved(session.session))["bytes"] > 0

    with pytest.raises(PrimeError, match="not available"):
        await service.update(session.session, snapshots=False, permission_mode="root")
    assert (await service.saved(session.session))["bytes"] > 0, "refused as a whole"
    await service.update(session.session, snapshots=False, user="ada")
    for one in (session, other):
        saved = await service.saved(one.session)
        assert (saved["on"], saved["reason"]) == (False, BY_PERSON)
        assert await service.snapshots(one.session) == []
        removed = one.records("snapshot")[-1]
        assert isinstance(removed, Snapshot)
        assert (removed.outcome, removed.trigger, removed.user) == ("removed", "off", "ada")
        assert one.session.state["snapshots"]["on"] is False
        # The code that set it stays in the conversation.
        folder = one.session.folder
        kept = [*folder.glob("kernel-state*"), *folder.glob("kernel-state.d/*")]
        left = [path for path in kept if b"sesame" in _content(path)]
        assert left == []
    note = session.records("settings")[-1]
    assert isinstance(note, Settings)
    assert note.snapshots is False

    session.api.enqueue(reply(call("run_code", code="x = 1")), reply("Done."))
    await session.ask("Run it.")
    refused = await service.snapshot(session.session, "ada")
    assert (refused["outcome"], refused["reason"]) == ("skipped", BY_PERSON)

    # Another session of the notebook, and another server, find it as it is.
    third = await new_session()
    assert (await service.saved(third.session))["on"] is False
    await service.update(third.session, snapshots=True, user="ada")
    assert (await service.snapshot(session.session, "ada"))["outcome"] == "ok"


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


async def test_the_compaction_says_that_snapshots_are_off(
    new_session: NewSession, service: AgentService
) -> None:
    session = await new_session()
    await service.update(session.session, snapshots=False, user="ada")
    session.api.enqueue(reply(call("run_code", code="x = 1")), reply("Done. " * 800))
    await session.ask("Run it.")
    session.api.enqueue(reply("## Goal\nNothing."))
    await service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert end.outcome == "ok"
    assert end.kernel_state["status"] == "none"
    assert end.kernel_state["off"] is True
    assert end.kernel_state["reason"] == BY_PERSON
    # They are alive all the same, and the model is told which there are.
    assert "- x: int" in end.summary


async def test_a_notebook_can_carry_the_wish(
    new_session: NewSession, service: AgentService, notebook: str, jp_root_dir: Path
) -> None:
    path = jp_root_dir / notebook
    node = nbformat.read(path, as_version=4)
    node.metadata["prime"] = {"snapshots": False}
    nbformat.write(node, path)
    session = await new_session()
    assert (await service.saved(session.session))["reason"] == BY_METADATA
    with pytest.raises(PrimeError) as raised:
        await service.update(session.session, snapshots=True, user="ada")
    assert raised.value.code == "snapshots_off"
    del node.metadata["prime"]
    nbformat.write(node, path)
    await service.close_session(session.session)
    await service.agent(session.session)
    assert (await service.saved(session.session))["on"] is True


async def test_the_switch_follows_a_renamed_notebook(
    new_session: NewSession, service: AgentService, jp_fetch: Any, notebook: str
) -> None:
    session = await new_session()
    await service.update(session.session, snapshots=False, user="ada")
    body = json.dumps({"path": "moved.ipynb"})
    await jp_fetch("api", "contents", notebook, method="PATCH", body=body)
    await session.record("settings", notebook="moved.ipynb")
    assert (await service.saved(session.session))["on"] is False


def test_two_switched_off_at_once_both_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = SnapshotSwitch(tmp_path / "snapshots.json")
    writing, both_write = threading.Event(), threading.Barrier(2)

    def slowly(path: Path, content: str) -> None:
        writing.set()
        with contextlib.suppress(threading.BrokenBarrierError):
            both_write.wait(0.5)
        replace_private(path, content)

    monkeypatch.setattr(snapshot_switch, "replace_private", slowly)
    threads = [
        threading.Thread(target=switch.switch, args=(name, False))
        for name in ("a.ipynb", "b.ipynb")
    ]
    threads[0].start()
    assert writing.wait(30)
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert switch.reason("a.ipynb") == switch.reason("b.ipynb") == BY_PERSON
    assert SnapshotSwitch(tmp_path / "snapshots.json").reason("a.ipynb") == BY_PERSON


def test_servers_with_the_same_file_keep_each_others_switches(tmp_path: Path) -> None:
    path = tmp_path / "snapshots.json"
    one, two = SnapshotSwitch(path), SnapshotSwitch(path)
    one.switch("a.ipynb", False)
    two.switch("b.ipynb", False)
    assert json.loads(path.read_text()) == {"off": ["a.ipynb", "b.ipynb"]}
    assert one.reason("b.ipynb") == two.reason("a.ipynb") == BY_PERSON
    two.rename("a.ipynb", "c.ipynb")
    one.switch("b.ipynb", True)
    assert json.loads(path.read_text()) == {"off": ["c.ipynb"]}
    assert one.reason("c.ipynb") == BY_PERSON
    assert two.reason("b.ipynb") is None
    path.write_text("{")
    assert one.reason("c.ipynb") == BY_PERSON
    with pytest.raises(PrimeError, match="damaged") as refused:
        one.switch("d.ipynb", False)
    assert refused.value.code == "settings_not_written"
    assert path.read_text() == "{"


def test_the_switch_outlives_the_server(tmp_path: Path) -> None:
    path = tmp_path / "snapshots.json"
    switch = SnapshotSwitch(path)
    switch.switch("work/a.ipynb", False)
    switch.switch("b.ipynb", False)
    switch.switch("b.ipynb", True)
    switch.rename("work", "play")
    again = SnapshotSwitch(path)
    assert again.reason("play/a.ipynb") == BY_PERSON
    assert again.reason("work/a.ipynb") is None
    assert again.reason("b.ipynb") is None
    assert json.loads(path.read_text()) == {"off": ["play/a.ipynb"]}
    path.write_text("{")
    with pytest.raises(ValueError, match="must not be saved"):
        SnapshotSwitch(path)
