"""The log: what is appended comes back, whatever happens to the file's end."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_ext.session.log import SessionLog, decode_json
from prime_ext.session.records import AssistantMessage, Title, ToolResult, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

# Lone surrogates, controls, line separators and everything else that str can hold.
any_text = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["\ud800", "\udfff\ud83d", "\ud83d\ude00", "\x00", "\u2028\r\n\x85", '"}\n{"seq":1}', "\\ud800"]
)
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.integers(10**300, 10**5000)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
any_record = st.one_of(
    st.builds(Title, title=any_text, user=st.none() | any_text),
    st.builds(UserMessage, text=any_text, content=st.just([])),
    st.builds(
        AssistantMessage,
        model=any_text,
        content=st.lists(st.dictionaries(any_text, any_json, max_size=3), max_size=3),
    ),
    st.builds(
        ToolResult,
        tool_use_id=any_text,
        name=any_text,
        content=st.just([]),
        outputs=st.lists(st.dictionaries(any_text, any_json, max_size=2), max_size=2),
    ),
)


@contextlib.contextmanager
def log_in_new_folder() -> Iterator[SessionLog]:
    """As ``tmp_path``, but new for each of hypothesis's examples."""
    with TemporaryDirectory() as folder:
        log = SessionLog.open(Path(folder) / "session.jsonl")
        try:
            yield log
        finally:
            log.close()


def reopened(log: SessionLog) -> SessionLog:
    log.close()
    return SessionLog.open(log.path)


def titles(log: SessionLog) -> list[str]:
    return [record.title for record in log.read() if isinstance(record, Title)]


@given(st.lists(any_record, max_size=8), st.data())
def test_what_is_appended_is_read_back(records: list[Any], data: st.DataObject) -> None:
    with log_in_new_folder() as log:
        stored = []
        for record in records:
            stored.append(log.append(record))
            after = data.draw(st.integers(0, len(stored) + 1))
            limit = data.draw(st.none() | st.integers(0, len(stored)))
            expected = stored[after:] if limit is None else stored[after : after + limit]
            assert log.read(after, limit) == expected
        assert [record.seq for record in stored] == list(range(1, len(records) + 1))
        assert len({record.id for record in stored}) == len(records)
        again = reopened(log)
        assert again.read() == stored
        assert again.damage == ()
        again.close()
        # Other programs read the file too: each line is JSON by the book, the kind first.
        for line in log.path.read_bytes().splitlines(keepends=True):
            assert line.startswith(b'{"kind":"')
            assert line.endswith(b"\n")
            json.loads(line.decode("utf-8"), parse_constant=pytest.fail)


@given(any_record)
def test_a_stored_record_keeps_what_json_can_hold(record: Any) -> None:
    with log_in_new_folder() as log:
        stored = log.append(record)
    assert type(stored) is type(record)
    kept = msgspec.structs.replace(stored, seq=0, id="", ts="")
    with contextlib.suppress(ValueError, msgspec.MsgspecError):
        # Where the original is valid JSON, it was not touched.
        original = msgspec.json.decode(msgspec.json.encode(record), type=type(record))
        assert kept == original


@settings(max_examples=6)
@given(st.lists(st.builds(Title, title=any_text), min_size=1, max_size=3))
def test_cut_off_at_any_byte_only_the_cut_record_is_lost(records: list[Any]) -> None:
    # The disk would be waited for three times at each byte.
    with log_in_new_folder() as log, patch.object(os, "fsync"):
        stored = [log.append(record) for record in records]
        whole = log.path.read_bytes()
        ends = [i for i, byte in enumerate(whole) if byte == 0x0A]
        for length in range(len(whole)):
            log.path.write_bytes(whole[:length])
            torn = SessionLog.open(log.path)
            # A record is whole once its closing brace is there.
            survivors = [r for r, end in zip(stored, ends, strict=True) if length >= end]
            assert torn.read() == survivors
            assert log.path.read_bytes() == whole[:length], "reading changed the file"
            new = torn.append(Title(title="next"))
            assert new.seq == len(survivors) + 1
            assert torn.read() == [*survivors, new]
            again = reopened(torn)
            assert again.read() == [*survivors, new]
            assert again.damage == ()
            again.close()
            start = ends[len(survivors) - 1] + 1 if survivors else 0
            aside = log.path.with_name("session.jsonl.torn")
            if length > start:
                assert aside.read_bytes() == whole[start:length] + b"\n"
                aside.unlink()
            else:
                assert not aside.exists()


@given(st.binary(min_size=1, max_size=60), st.integers(0, 3))
def test_garbage_in_the_middle_is_skipped_and_reported(garbage: bytes, position: int) -> None:
    with log_in_new_folder() as log:
        stored = [log.append(Title(title=str(i))) for i in range(4)]
        lines = log.path.read_bytes().splitlines(keepends=True)
        lines.insert(position, garbage.replace(b"\n", b" ") + b"\n")
        log.path.write_bytes(b"".join(lines))
        again = reopened(log)
        assert again.read() == stored
        assert [damage.length for damage in again.damage] == [len(garbage) + 1]
        assert again.damage[0].offset == sum(map(len, lines[:position]))
        assert again.append(Title(title="next")).seq == 5
        assert b"".join(lines) == log.path.read_bytes()[: sum(map(len, lines))]
        again.close()


def test_a_damaged_last_line_is_set_aside(tmp_path: Path) -> None:
    log = SessionLog.open(tmp_path / "session.jsonl")
    log.append(Title(title="good"))
    log.close()
    rot = b"\0" * 100 + b"\n{broken\n"
    with log.path.open("ab") as file:
        file.write(rot)
    log = SessionLog.open(log.path)
    assert [(d.offset, d.length) for d in log.damage] == [
        (log.path.stat().st_size - len(rot), 101),
        (log.path.stat().st_size - 8, 8),
    ]
    assert log.append(Title(title="next")).seq == 2
    assert titles(log) == ["good", "next"]
    assert (tmp_path / "session.jsonl.torn").read_bytes() == rot
    assert stat.S_IMODE((tmp_path / "session.jsonl.torn").stat().st_mode) == 0o600
    log.close()


def test_records_of_a_newer_version_are_kept_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(
        b'{"kind":"title","seq":1,"id":"a","ts":"","title":"one","hue":7}\n'
        b'{"kind":"hologram","seq":2,"id":"b","ts":"","depth":3}\n'
        b'{"kind":"title","seq":3,"id":"c","ts":"","title":{"en":"three"}}\n'
    )
    log = SessionLog.open(path)
    assert titles(log) == ["one"]
    assert log.damage == ()
    assert log.last_seq == 3
    assert [decode_json(line) for _, line in log.lines(1)] == [
        {"kind": "hologram", "seq": 2, "id": "b", "ts": "", "depth": 3},
        {"kind": "title", "seq": 3, "id": "c", "ts": "", "title": {"en": "three"}},
    ]
    assert log.append(Title(title="four")).seq == 4
    assert log.seqs_of("title") == [1, 3, 4]
    assert log.seqs_of("hologram", "title") == [1, 2, 3, 4]
    assert log.seqs_of("snapshot") == []
    log.close()


def test_a_line_out_of_order_is_not_a_record(tmp_path: Path) -> None:
    log = SessionLog.open(tmp_path / "session.jsonl")
    for text in ("one", "two"):
        log.append(Title(title=text))
    first = log.path.read_bytes().splitlines(keepends=True)[0]
    with log.path.open("ab") as file:
        file.write(first)
    log = reopened(log)
    assert titles(log) == ["one", "two"]
    assert [damage.reason for damage in log.damage] == ["record 1 follows record 2"]
    log.close()


def test_slices_end_at_a_number_of_bytes(tmp_path: Path) -> None:
    log = SessionLog.open(tmp_path / "session.jsonl")
    for size in (10, 10, 5_000, 10):
        log.append(Title(title="x" * size))
    sizes = {seq: len(line) for seq, line in log.lines()}
    assert [seq for seq, _ in log.lines(max_bytes=1_000)] == [1, 2]
    assert [seq for seq, _ in log.lines(1, max_bytes=0)] == [2]
    assert [seq for seq, _ in log.lines(2, max_bytes=1_000)] == [3], "a long line comes alone"
    assert [seq for seq, _ in log.lines(2, max_bytes=sizes[3] + sizes[4] + 1)] == [3, 4]
    log.close()


def test_a_write_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SessionLog.open(tmp_path / "session.jsonl")
    log.append(Title(title="one"))
    before = log.path.read_bytes()
    write = os.write

    def disk_full(fd: int, data: Any) -> int:
        if len(data) < 40:
            raise OSError(28, "No space left on device")
        return write(fd, bytes(data)[: len(data) // 2])

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", disk_full)
        with pytest.raises(OSError, match="No space left"):
            log.append(Title(title="two"))
        assert log.path.read_bytes() == before
        # Even cutting off the half line fails.
        broken.setattr(os, "ftruncate", Mock(side_effect=OSError(5, "I/O error")))
        with pytest.raises(OSError, match="I/O error"):
            log.append(Title(title="two"))
        assert len(log.path.read_bytes()) > len(before)
        assert titles(log) == ["one"]
    assert log.append(Title(title="two again")).seq == 2
    assert titles(reopened(log)) == ["one", "two again"]


def test_only_private_regular_files_are_opened(tmp_path: Path) -> None:
    log = SessionLog.open(tmp_path / "session.jsonl")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    log.path.chmod(0o644)
    reopened(log).close()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    (tmp_path / "link.jsonl").symlink_to(log.path)
    with pytest.raises(OSError, match=r"link\.jsonl"):
        SessionLog.open(tmp_path / "link.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        SessionLog.open(tmp_path / "pipe.jsonl")
    with pytest.raises(OSError, match="closed"):
        log.append(Title(title="too late"))


def test_sync_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    log = SessionLog.open(tmp_path / "session.jsonl")
    log.append(Title(title="one"))
    assert synced == []
    log.append(Title(title="two"), sync=True)
    assert synced == [log.path.stat().st_size]
    log.close()


def test_reading_while_another_thread_appends(tmp_path: Path) -> None:
    log = SessionLog.open(tmp_path / "session.jsonl")
    done = threading.Event()

    def append() -> None:
        for i in range(500):
            log.append(Title(title=str(i) * (i % 50)))
        done.set()

    writer = threading.Thread(target=append)
    writer.start()
    seen = 0
    while not (done.is_set() and seen == 500):
        records = log.read(seen, 37)
        assert [record.seq for record in records] == list(range(seen + 1, seen + 1 + len(records)))
        seen += len(records)
    writer.join()
    log.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_while_appending_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from prime_ext.session.log import SessionLog
        from prime_ext.session.records import Title
        log = SessionLog.open(Path(sys.argv[1]))
        while True:
            stored = log.append(Title(title="x" * (log.last_seq * 997 % 60_000)))
            print(stored.seq, flush=True)
    """)
    path = tmp_path / "session.jsonl"
    acknowledged = 0
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process:
            for _ in range(60):
                acknowledged = int(process.stdout.readline())
            process.kill()
            rest = process.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        log = SessionLog.open(path)
        records = log.read()
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert len(records) in (acknowledged, acknowledged + 1)
        log.close()
