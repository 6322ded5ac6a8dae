"""``jupyter prime`` from a shell."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.cli.main import COMMANDS, main
from prime_ext.kernel.snapshot_files import SnapshotFiles, derive_key
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_NO_CONFIG", "")
    (tmp_path / "config").mkdir()
    (tmp_path / "jupyter").mkdir()
    (tmp_path / "jupyter" / "notebook_secret").write_bytes(b"the secret of this machine")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "jupyter" / "prime"


@pytest.fixture
def session_id(data_dir: Path) -> str:
    store = SessionStore(data_dir / "sessions", logging.getLogger("tests"))
    session = store.create(session_start(notebook="work/analysis.ipynb"))
    store.close()
    return session.id


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A snapshot of another machine, with a buffer in a segment."""
    folder = tmp_path / "foreign"
    values = {"x": 7, "block": bytearray(b"ab" * 100_000), "text": "z" * 10_000}
    state.save(folder, values, key=b"k" * 32, verify="off")
    return folder


def files(data_dir: Path, session_id: str) -> SnapshotFiles:
    key = derive_key(b"the secret of this machine", session_id)
    return SnapshotFiles(data_dir / "sessions" / session_id, key)


def test_every_command_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for command in COMMANDS:
        assert command.__name__.rpartition(".")[2].split("_")[0] in told


def test_sessions_without_any(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    assert main(["sessions"]) == 1
    assert "--data-dir" in capsys.readouterr().err


def test_sessions_are_listed(
    capsys: pytest.CaptureFixture[str], data_dir: Path, session_id: str, foreign: Path
) -> None:
    assert main(["sessions"]) == 0
    assert "work/analysis.ipynb" in capsys.readouterr().out
    assert main(["sessions", "--notebook", "other.ipynb", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["import", str(foreign), "--session", session_id, "--trust"]) == 0
    capsys.readouterr()
    assert main(["sessions", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["id"] == session_id
    assert row["snapshots"][0]["names"] == ["block", "text", "x"]
    assert row["snapshot_bytes"] > 200_000


def test_space_is_seen_and_freed(
    capsys: pytest.CaptureFixture[str], data_dir: Path, session_id: str
) -> None:
    outputs = data_dir / "sessions" / session_id / "outputs"
    (outputs / "c1.txt").write_text("x" * 3_000_000)
    (outputs / "cell-1.json").write_text("{}")
    assert main(["sessions"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("3.0 MB")
    assert main(["free", session_id]) == 0
    assert capsys.readouterr().out == f"{session_id}: 3.0 MB freed\n"
    assert "was removed on" in (outputs / "c1.txt").read_text()
    assert (outputs / "cell-1.json").read_text() == "{}"
    assert main(["sessions", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["outputs_bytes"] < 1000
    assert main(["free", "20260101-000000-000000000000"]) == 1
    assert "There is no session" in capsys.readouterr().err


def test_the_data_dir_of_the_servers_configuration_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    store = SessionStore(elsewhere / "sessions", logging.getLogger("tests"))
    store.create(session_start(notebook="there.ipynb"))
    store.close()
    config = {"PrimeExtension": {"data_dir": str(elsewhere)}}
    (tmp_path / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    assert main(["sessions"]) == 0
    assert "there.ipynb" in capsys.readouterr().out


def test_import_needs_trust(
    capsys: pytest.CaptureFixture[str], data_dir: Path, session_id: str, foreign: Path
) -> None:
    assert main(["import", str(foreign), "--session", session_id]) == 1
    told = capsys.readouterr()
    assert "3 names (x, block, text)" in told.out
    assert "with all your rights" in told.err
    assert files(data_dir, session_id).list() == []


def test_import_signs_it_for_this_server(
    data_dir: Path, session_id: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = ["import", str(foreign), "--notebook", "work/analysis.ipynb", "--trust"]
    assert main(taken) == 0
    found = files(data_dir, session_id)
    (entry,) = found.list()
    assert {e["status"] for e in entry["names"].values()} == {"unverified"}
    restored: dict[str, Any] = {}
    report = state.load(found.folder, restored, key=found.key, verify="wait")
    assert report.complete
    assert restored["block"] == bytearray(b"ab" * 100_000)
    assert (restored["x"], restored["text"]) == (7, "z" * 10_000)
    with pytest.raises(state.SnapshotRefused):
        state.load(found.folder, {}, key=b"k" * 32)
    # Again, and by the side of what is there: the one before stays as the previous one.
    assert main(taken) == 0
    assert len(found.list()) == 2


def test_a_damaged_copy_is_not_signed(
    data_dir: Path, session_id: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (segment,) = (foreign / "kernel-state.d").glob("seg-*.bin")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    assert main(["import", str(foreign), "--session", session_id, "--trust"]) == 1
    assert "altered" in capsys.readouterr().err
    found = files(data_dir, session_id)
    assert found.list() == []
    assert list((found.folder / "kernel-state.d").glob("seg-*.bin")) == []


def test_a_session_that_is_open_in_a_server_is_left_alone(
    data_dir: Path, session_id: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SessionStore(data_dir / "sessions", logging.getLogger("tests"))
    store.get(session_id)
    try:
        assert main(["import", str(foreign), "--session", session_id, "--trust"]) == 1
    finally:
        store.close()
    assert "shut that server down" in capsys.readouterr().err
    assert files(data_dir, session_id).list() == []


def test_import_of_the_sessions_own_folder_takes_what_is_not_its_own(
    data_dir: Path, session_id: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = files(data_dir, session_id)
    shutil.copytree(foreign, own.folder, dirs_exist_ok=True)
    taken = ["import", str(own.folder), "--session", session_id, "--trust"]
    own.set_foreign_aside()
    for number in range(3):
        state.save(own.folder, {"y": number}, key=own.key, verify="off")
    assert main(taken) == 0
    assert "3 names (x, block, text)" in capsys.readouterr().out
    restored: dict[str, Any] = {}
    assert state.load(own.folder, restored, key=own.key, verify="wait").complete
    assert restored["block"] == bytearray(b"ab" * 100_000)
    # Now it is this server's own, and nothing is left that could be imported.
    assert main(taken[:-1]) == 1
    told = capsys.readouterr().err
    assert "no snapshot of another server" in told
    assert "not signed" not in told
    assert own.list_foreign() == []


def test_import_from_another_session_of_this_server_says_so(
    data_dir: Path, session_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = files(data_dir, "20260101-000000-0123456789ab")
    state.save(other.folder, {"x": 1}, key=other.key, verify="off")
    assert main(["import", str(other.folder), "--session", session_id]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "signed by this server, for another session: 20260101-000000-0123456789ab." in told


def test_a_head_that_was_altered_on_its_way_is_neither_foreign_nor_signed(
    data_dir: Path, session_id: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = foreign / "kernel-state.dill"
    content = bytearray(head.read_bytes())
    content[30] ^= 1  # in the first stream
    head.write_bytes(content)
    assert main(["import", str(foreign), "--session", session_id, "--trust"]) == 1
    assert "altered" in capsys.readouterr().err
    own = files(data_dir, session_id)
    shutil.copytree(foreign, own.folder, dirs_exist_ok=True)
    own.set_foreign_aside()
    assert own.list_foreign() == []
    assert own.list() == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["import", "nowhere", "--session", "ID", "--trust"], "no snapshot"),
        (["import", "nowhere", "--session", "20260101-000000-0123456789ab"], "no session"),
        (["import", "nowhere", "--notebook", "no.ipynb"], "no session"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], expected: str, session_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([session_id if a == "ID" else a for a in arguments]) == 1
    assert expected in capsys.readouterr().err
