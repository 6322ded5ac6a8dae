"""The folder of sessions: names, modes, locks, list."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from prime_ext.errors import PrimeError
from prime_ext.session.log import SessionLog
from prime_ext.session.records import Settings
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start, title

if TYPE_CHECKING:
    from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def code_of(caught: pytest.ExceptionInfo[PrimeError]) -> tuple[str, int]:
    return caught.value.code, caught.value.status


def test_everything_is_private(store: SessionStore) -> None:
    session = store.create(session_start())
    assert mode(store.folder) == mode(session.folder) == mode(session.folder / "outputs") == 0o700
    assert mode(session.log.path) == mode(session.folder / "session.lock") == 0o600
    assert session.log.path == store.folder / session.id / "session.jsonl"


def test_a_folder_open_to_others_is_closed(store: SessionStore) -> None:
    store.folder.chmod(0o755)
    SessionStore(store.folder, store._log)
    assert mode(store.folder) == 0o700


def test_a_session_is_there_after_a_restart(store: SessionStore) -> None:
    session = store.create(session_start(title="Sales"))
    session.append(title("Sales by month"))
    assert store.get(session.id) is session
    store.close()
    again = store.get(session.id)
    assert again is not session
    assert again.title == "Sales by month"
    assert again.log.last_seq == 2


def test_a_log_of_a_newer_format_is_refused_and_left_as_it_is(store: SessionStore) -> None:
    session = store.create(session_start())
    store.close()
    path = session.log.path
    first = json.loads(path.read_bytes())
    assert "format" not in first
    # What else a newer format changes is not known.
    line = json.dumps({**first, "format": 2, "system": "another shape"}).encode() + b"\n"
    path.write_bytes(line)
    for refused in (lambda: store.get(session.id), store.exclusive(session.id).__enter__):
        with pytest.raises(PrimeError, match=r"newer version.* format 2;.* format 1") as caught:
            refused()
        assert code_of(caught) == ("session_newer", 409)
    assert path.read_bytes() == line
    for older in (0, 1):
        path.write_text(json.dumps({**first, "format": older}) + "\n")
        assert store.get(session.id).notebook == "work/analysis.ipynb"
        store.close()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "nope", "../x", "20260101-000000-000000000000", "a" * 300, "\0", "ä", ".git"],
)
def test_an_unknown_session(store: SessionStore, name: str) -> None:
    with pytest.raises(PrimeError) as caught:
        store.get(name)
    assert code_of(caught) == ("session_not_found", 404)
    with pytest.raises(PrimeError) as caught:
        store.delete(name)
    assert code_of(caught) == ("session_not_found", 404)


def test_no_symbolic_link_is_followed(store: SessionStore, tmp_path: Path) -> None:
    session = store.create(session_start())
    store.close()
    elsewhere = session.folder.rename(tmp_path / "elsewhere")
    session.folder.symlink_to(elsewhere)
    with pytest.raises(PrimeError) as caught:
        store.get(session.id)
    assert code_of(caught) == ("session_not_found", 404)
    assert store.list() == []
    session.folder.unlink()
    session.folder.mkdir()
    session.log.path.symlink_to(elsewhere / "session.jsonl")
    with pytest.raises(PrimeError):
        store.get(session.id)
    (tmp_path / "linked").symlink_to(store.folder)
    with pytest.raises(OSError, match="symbolic link"):
        SessionStore(tmp_path / "linked", store._log)


def test_one_process_at_a_time(store: SessionStore) -> None:
    session = store.create(session_start())
    program = (
        "import sys, logging; from pathlib import Path\n"
        "from prime_ext.errors import PrimeError\n"
        "from prime_ext.session.store import SessionStore\n"
        "store = SessionStore(Path(sys.argv[1]), logging.getLogger())\n"
        "print(store.list()[0].records)\n"
        "for action in (store.get, store.delete):\n"
        "    try: print(action(sys.argv[2]))\n"
        "    except PrimeError as error: print(error.code, error.status)\n"
    )

    def other_process() -> list[str]:
        command = [sys.executable, "-c", program, str(store.folder), session.id]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()

    assert other_process() == ["1", "session_locked 409", "session_locked 409"]
    store.close()
    assert other_process()[0] == "1"
    assert not session.folder.exists()


def test_opened_by_many_threads_it_is_one_session(store: SessionStore) -> None:
    session_id = store.create(session_start()).id
    store.close()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(store.get(session_id))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


async def test_a_long_log_holds_up_nobody_who_wants_another_session(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, other, new = (store.create(session_start()).id for _ in range(3))
    store.close()
    reading, goes_on = threading.Event(), threading.Event()
    open_log, threads = SessionLog.open, []

    def slowly(path: Path) -> SessionLog:
        if path.parent.name == long:
            threads.append(threading.current_thread())
            reading.set()
            assert goes_on.wait(30)
        return open_log(path)

    monkeypatch.setattr(SessionLog, "open", slowly)
    workers = ThreadPoolExecutor(2)
    asyncio.get_running_loop().set_default_executor(workers)
    asking = [asyncio.create_task(store.opened(long)) for _ in range(4)]
    try:
        assert await asyncio.to_thread(reading.wait, 30)
        asking[0].cancel()
        assert (await asyncio.wait_for(store.opened(other), 10)).id == other
        with store.exclusive(new):
            assert store.open_ids() == {other}
        store.delete(other)
    finally:
        goes_on.set()
    cancelled, *opened = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert opened == [store.get(long)] * 3
    assert len(threads) == 1


async def test_an_unknown_session_is_asked_for_anew(store: SessionStore) -> None:
    for _ in range(2):
        with pytest.raises(PrimeError) as caught:
            await store.opened("20260101-000000-000000000000")
        assert code_of(caught) == ("session_not_found", 404)


def test_closing_waits_for_a_session_that_is_being_opened(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = store.create(session_start()).id
    store.close()
    reading, goes_on = threading.Event(), threading.Event()
    open_log = SessionLog.open

    def slowly(path: Path) -> SessionLog:
        reading.set()
        assert goes_on.wait(30)
        return open_log(path)

    monkeypatch.setattr(SessionLog, "open", slowly)
    opening = threading.Thread(target=store.get, args=(session_id,))
    opening.start()
    assert reading.wait(30)
    closing = threading.Thread(target=store.close)
    closing.start()
    goes_on.set()
    closing.join(30)
    opening.join(30)
    assert store.open_ids() == frozenset()


def test_delete(store: SessionStore) -> None:
    session = store.create(session_start())
    (session.folder / "outputs" / "1.txt").write_text("long output")
    store.delete(session.id)
    assert not session.folder.exists()
    assert list(store.folder.iterdir()) == []
    with pytest.raises(PrimeError):
        store.get(session.id)


def test_a_store_that_cannot_be_written(store: SessionStore) -> None:
    full = OSError(28, "No space left on device")
    with patch("os.write", side_effect=full), pytest.raises(PrimeError) as caught:
        store.create(session_start())
    assert code_of(caught) == ("session_not_written", 507)
    assert list(store.folder.iterdir()) == []


def test_the_list(store: SessionStore) -> None:
    first = store.create(session_start(title="First"))
    second = store.create(session_start(notebook="other.ipynb"))
    first.append(title("Renamed"))
    first.append(Settings(permission_mode="auto"))
    summaries = store.list()
    assert {summary.id for summary in summaries} == {first.id, second.id}
    summary = next(summary for summary in summaries if summary.id == first.id)
    records = first.log.read()
    assert summary.title == "Renamed"
    assert summary.notebook == "work/analysis.ipynb"
    assert summary.records == 3
    assert (summary.created, summary.updated) == (records[0].ts, records[2].ts)
    assert summary == store.summary(first)
    assert [s.id for s in store.list("other.ipynb")] == [second.id]
    assert store.list("nope.ipynb") == []
    first.append(Settings(notebook="moved.ipynb"))
    assert [s.id for s in store.list("moved.ipynb")] == [first.id]
    first.append(Settings(permission_mode="ask"))
    assert [s.id for s in store.list("moved.ipynb")] == [first.id]


def test_the_list_reads_what_it_has_not_seen(store: SessionStore) -> None:
    session = store.create(session_start())
    assert store.list()[0].title is None
    for text in ("one", "two"):
        session.append(title(text))
        assert store.list()[0].title == text
        assert store.list()[0].title == text
    fresh = SessionStore(store.folder, store._log)
    assert fresh.list() == store.list()
    # A title in another record's text is not a title.
    session.append(title('three\n{"kind":"title","title":"four"}'))
    assert store.list()[0].title == 'three\n{"kind":"title","title":"four"}'


def test_the_list_looks_past_a_torn_end(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(title("whole"))
    store.close()
    with session.log.path.open("ab") as file:
        file.write(b'{"kind":"title","seq":3,"id":"x","ts":"2030-01-01T00:00:00.000Z","ti')
    (summary,) = SessionStore(store.folder, store._log).list()
    assert (summary.title, summary.records) == ("whole", 2)


def test_strangers_in_the_folder_are_left_out(store: SessionStore) -> None:
    (store.folder / "notes.txt").write_text("mine")
    (store.folder / "20260101-000000-000000000000").mkdir()
    (store.folder / "20260101-000000-111111111111").mkdir()
    (store.folder / "20260101-000000-111111111111" / "session.jsonl").touch()
    os.mkfifo(store.folder / "20260101-000000-222222222222")
    session = store.create(session_start())
    assert [summary.id for summary in store.list()] == [session.id]


def test_a_folder_removed_under_the_server_is_made_again(store: SessionStore) -> None:
    store.folder.rmdir()
    assert store.list() == []
    session = store.create(session_start())
    assert [summary.id for summary in store.list()] == [session.id]
    assert mode(store.folder) == 0o700


def test_others_are_used_while_a_large_session_is_removed(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, other = store.create(session_start()), store.create(session_start())
    removing, goes_on = threading.Event(), threading.Event()
    remove = shutil.rmtree

    def slowly(*arguments: Any, **options: Any) -> None:
        removing.set()
        goes_on.wait(30)
        remove(*arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    deleting = threading.Thread(target=store.delete, args=(large.id,))
    deleting.start()
    assert removing.wait(30)
    using = threading.Thread(target=store.get, args=(other.id,))
    using.start()
    using.join(10)
    assert not using.is_alive()
    goes_on.set()
    deleting.join(30)
    using.join(30)
    assert [path.name for path in store.folder.iterdir()] == [other.id]


def test_what_a_killed_server_was_removing_is_removed_by_the_next(store: SessionStore) -> None:
    session, other = store.create(session_start()), store.create(session_start())
    with patch("shutil.rmtree"):  # killed before it came to that
        store.delete(session.id)
    assert len(list(store.folder.iterdir())) == 2
    SessionStore(store.folder, store._log)
    assert [path.name for path in store.folder.iterdir()] == [other.id]
