"""The snapshots of all sessions stay within a size."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.agent import snapshot_limit
from prime_ext.agent.service import AgentService
from prime_ext.agent.snapshot_limit import AUTOMATIC_BYTES, SnapshotLimit, Stored, to_remove
from prime_ext.kernel.snapshot_files import SnapshotFiles, stored_bytes
from prime_ext.session.records import Snapshot, Title
from prime_ext.session.store import SessionStore
from tests.agent.conftest import NewSession
from tests.messages_api.script import call, reply
from tests.session.conftest import session_start

KEY = b"k" * 32


@pytest.mark.parametrize(
    ("limit", "in_use", "expected"),
    [
        (100, set(), []),
        (60, set(), []),
        (59, set(), ["old"]),
        (30, set(), ["old"]),
        (29, set(), ["old", "middle"]),
        (0, set(), ["old", "middle", "new"]),
        (59, {"old"}, ["middle"]),
        (0, {"old", "new"}, ["middle"]),
    ],
)
def test_the_one_used_least_recently_goes_first(
    limit: int, in_use: set[str], expected: list[str]
) -> None:
    stored = [
        Stored("new", "2026-03-01T00:00:00.000Z", 10),
        Stored("old", "2026-01-01T00:00:00.000Z", 30),
        Stored("middle", "2026-02-01T00:00:00.000Z", 20),
        Stored("empty", "2025-01-01T00:00:00.000Z", 0),
    ]
    assert to_remove(stored, limit, frozenset(in_use)) == expected


def test_removing_leaves_the_session_and_says_so(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions", logging.getLogger("tests"))
    sessions = [store.create(session_start()) for _ in range(3)]
    for session in sessions:
        session.append(Title(title="T"))
        state.save(session.folder, {"x": bytearray(200_000)}, key=KEY, verify="off")
    kept = sessions[2].id
    store.close()
    store.get(kept)
    other = SessionStore(tmp_path / "sessions", logging.getLogger("tests"))  # another server
    locked = sessions[1].id
    other.get(locked)

    limit = SnapshotLimit(
        store,
        lambda id_: SnapshotFiles(tmp_path / "sessions" / id_, KEY),
        1,
        logging.getLogger("tests"),
    )
    assert limit.enforce() == [sessions[0].id]
    assert stored_bytes(sessions[0].folder) == 0
    assert stored_bytes(sessions[1].folder) > 200_000
    assert stored_bytes(sessions[2].folder) > 200_000
    record = store.get(sessions[0].id).records_of("snapshot")[-1]
    assert isinstance(record, Snapshot)
    assert (record.outcome, record.trigger) == ("removed", "limit")
    assert record.bytes > 200_000
    store.close()
    other.close()


def test_only_what_was_saved_since_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path / "sessions", logging.getLogger("tests"))
    folders = [store.create(session_start()).folder for _ in range(3)]
    measured: list[Path] = []

    def measure(folder: Path) -> int:
        measured.append(folder)
        return stored_bytes(folder)

    monkeypatch.setattr(snapshot_limit, "stored_bytes", measure)
    limit = SnapshotLimit(store, lambda _: SnapshotFiles(tmp_path, KEY), 0, logging.getLogger())

    def check(changed: list[Path]) -> None:
        measured.clear()
        stored = {entry.session_id: entry.bytes for entry in limit.stored()}
        assert stored == {folder.name: stored_bytes(folder) for folder in folders}
        assert sorted(measured) == sorted(changed)

    check(folders)
    check([])
    for value in (b"x", b"y" * 200_000):
        state.save(folders[1], {"x": value}, key=KEY, verify="wait")
        check(folders[1:2])
    SnapshotFiles(folders[1], KEY).delete()
    check(folders[1:2])
    store.close()


def test_the_limit_that_is_chosen_by_itself(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions", logging.getLogger("tests"))
    limit = SnapshotLimit(store, lambda _: SnapshotFiles(tmp_path, KEY), 0, logging.getLogger())
    assert 0 < limit.bytes <= AUTOMATIC_BYTES


class TestSmallLimit:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"SnapshotConfig": {"total_bytes": 300_000}}

    async def test_a_session_that_was_left_makes_room_for_the_one_in_use(
        self, new_session: NewSession, service: AgentService, jp_serverapp: Any
    ) -> None:
        store = jp_serverapp.web_app.settings["prime_sessions"]
        left = store.create(session_start(notebook="left.ipynb"))
        state.save(left.folder, {"x": bytearray(200_000)}, key=KEY, verify="off")
        left.append(Snapshot(outcome="ok", trigger="turn"))
        store._open.pop(left.id)[1].release()  # as if a server before this one had made it
        left.close()
        session = await new_session()
        session.api.enqueue(reply(call("run_code", code="x = bytearray(200_000)")), reply("Done."))
        await session.ask("Run it.")
        await session.record("snapshot", outcome="ok")
        await service.close()
        assert stored_bytes(left.folder) == 0
        assert (await service.saved(session.session))["bytes"] > 200_000
        total = await service.saved_in_all()
        assert total["limit_bytes"] == 300_000
        assert total["bytes"] == (await service.saved(session.session))["bytes"]
