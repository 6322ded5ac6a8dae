"""Whole texts of results: kept within a size, and never gone without a word."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from prime_ext.session.outputs import Outputs, is_removed
from prime_ext.session.records import ToolResult
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start


def put(outputs: Outputs, name: str, size: int, age: int) -> Path:
    path = outputs.keep_text(name, "x" * size)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_the_oldest_go_and_say_so(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path / "outputs", 10_000)
    old, new = put(outputs, "old.txt", 4000, 9), put(outputs, "new.txt", 4000, 1)
    outputs.keep("cell-1.json", b"{}" * 9000)
    assert not is_removed(old.read_text())
    last = outputs.keep_text("last.txt", "y" * 4000)
    assert is_removed(old.read_text())
    assert "4,000 bytes" in old.read_text()
    assert "session_read" in old.read_text()
    assert (new.read_text(), last.read_text()) == ("x" * 4000, "y" * 4000)
    assert outputs.kept("cell-1.json") == b"{}" * 9000
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    # What was counted is what is there: the next one that is too much takes the next oldest.
    outputs.keep_text("more.txt", "z" * 4000)
    assert is_removed(new.read_text())
    assert outputs.text_bytes() <= 10_000


def test_what_is_there_when_a_session_is_opened_counts(tmp_path: Path) -> None:
    before = put(Outputs(tmp_path, 10_000), "a.txt", 9000, 5)
    Outputs(tmp_path, 10_000).keep_text("b.txt", "x" * 2000)
    assert is_removed(before.read_text())


def test_short_texts_are_not_worth_a_sentence_about_them(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, 1000)
    paths = [put(outputs, f"{n}.txt", 100, 100 - n) for n in range(20)]
    assert [path.read_text() for path in paths] == ["x" * 100] * 20


def test_nothing_outside_is_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("m" * 5000)
    outputs = Outputs(tmp_path / "outputs", 1000)
    put(outputs, "a.txt", 10, 0)
    (outputs.folder / "link.txt").symlink_to(tmp_path / "mine.txt")
    (outputs.folder / "folder.txt").mkdir()
    outputs.keep_text("b.txt", "x" * 5000)
    assert (tmp_path / "mine.txt").read_text() == "m" * 5000
    assert outputs.remove_texts(0, "again") == 0


def test_reading_and_searching_know_of_it(store: SessionStore) -> None:
    session = store.create(session_start())
    session.outputs.keep_text("c1.txt", "begin " + "filler " * 1000 + "needle " * 9)
    result = ToolResult(
        tool_use_id="c1",
        name="run_code",
        content=[{"type": "text", "text": "begin [… left out …] end"}],
        output_file="c1.txt",
    )
    seq = session.append(result).seq
    assert "needle" in session.read([seq], 100_000)[0].text
    session.outputs.remove_texts(0, "by the user")
    (excerpt,) = session.read([seq])
    assert excerpt.text.startswith("begin [… left out …] end\n[The full text of this output, ")
    assert "was removed on" in excerpt.text


@pytest.mark.parametrize("name", ["gone.txt", "../session.jsonl/x"])
def test_what_is_not_there(tmp_path: Path, name: str) -> None:
    assert Outputs(tmp_path).kept(name) is None
    assert Outputs(tmp_path / "none").text_bytes() == 0
