"""What the list says of a session, read from its log and from what was kept of it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_ext.session import outline
from prime_ext.session.log import SessionLog
from prime_ext.session.outline import OUTLINE_NAME, Outline, SessionSummary
from prime_ext.session.records import (
    Approval,
    ApprovalRequest,
    Error,
    Queued,
    Settings,
    Title,
    TurnEnd,
    Unqueued,
)
from tests.session.conftest import session_start

if TYPE_CHECKING:
    from pathlib import Path

    from prime_ext.session.records import AnyRecord
    from prime_ext.session.store import SessionStore


def asked(call_id: str) -> ApprovalRequest:
    return ApprovalRequest(
        call_id=call_id, what="tool", tool="run_code", summary="Run code", turn="t1"
    )


def read(path: Path) -> SessionSummary:
    found = Outline(path, path.stat().st_ino).summary()
    assert found is not None
    return found


def call_ids(summary: SessionSummary) -> list[str]:
    return [approval["call_id"] for approval in summary.approvals]


def texts(summary: SessionSummary) -> list[str]:
    return [message["text"] for message in summary.queue]


def test_what_waits_is_in_the_list(store: SessionStore) -> None:
    session = store.create(session_start())
    first = session.append(Queued(text="one", attachments=[{"type": "file", "content": "long"}]))
    session.append(asked("c1"))
    session.append(Queued(text="two"))
    (summary,) = store.list()
    assert (call_ids(summary), texts(summary)) == (["c1"], ["one", "two"])
    assert summary.queue[0]["attachments"] == [{"type": "file"}]
    session.append(Approval(call_id="c1", decision="allow"))
    session.append(Unqueued(queued_seq=first.seq, reason="sent"))
    (summary,) = store.list()
    assert (call_ids(summary), texts(summary)) == ([], ["two"])
    session.append(asked("c2"))
    assert call_ids(store.list()[0]) == ["c2"]
    session.append(TurnEnd(status="interrupted", turn="t1"))
    assert call_ids(store.list()[0]) == []


records = st.lists(
    st.one_of(
        st.builds(Title, title=st.text(max_size=5)),
        st.builds(Settings, notebook=st.sampled_from([None, "b.ipynb", "c.ipynb"])),
        st.builds(Queued, text=st.text(max_size=5)),
        st.builds(Unqueued, queued_seq=st.integers(2, 12), reason=st.just("sent")),
        st.builds(asked, st.sampled_from("abc")),
        st.builds(Approval, call_id=st.sampled_from("abc"), decision=st.just("allow")),
        st.builds(Error, code=st.just("x"), message=st.text(max_size=300)),
        st.just(TurnEnd(status="ok")),
    ),
    max_size=20,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=records, after=records, torn=st.booleans())
def test_it_does_not_matter_when_it_was_read(
    tmp_path: Path, before: list[AnyRecord], after: list[AnyRecord], torn: bool
) -> None:
    folder = tmp_path / "20260101-000000-000000000000"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "session.jsonl"
    with patch.object(outline, "KEEP_BYTES", 1):
        log = SessionLog.open(path)
        log.append(session_start())
        follower = Outline(path, 0)
        for record in before:
            log.append(record)
        follower.summary()
        assert (folder / OUTLINE_NAME).exists()
        for record in after:
            log.append(record)
        log.close()
        if torn:
            with path.open("ab") as file:
                file.write(b'{"kind":"queued","seq":99,"te')
        followed, from_kept = follower.summary(), read(path)
        (folder / OUTLINE_NAME).unlink()
        assert followed == from_kept == read(path)
    assert from_kept.records == 1 + len(before) + len(after)


def test_only_what_is_new_of_a_long_log_is_read(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(Queued(text="long ago"))
    session.append(Error(code="x", message="x" * outline.KEEP_BYTES))
    store.list()
    places = json.loads((session.folder / OUTLINE_NAME).read_bytes())
    assert places["end"] == session.log.path.stat().st_size
    seen: list[int] = []
    take = Outline._take

    def taken(self: Outline, data: object, offset: int, end: int) -> None:
        seen.append(end - offset)
        take(self, data, offset, end)  # type: ignore[arg-type]

    with patch.object(Outline, "_take", taken):
        assert texts(read(session.log.path)) == ["long ago"]
    assert sum(seen) < 10_000


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}",
        b"[",
        b'{"end":1,"last":0,"last_id":"x","offsets":[]}',
        b'{"end":-1,"last":-9,"last_id":"x","offsets":[-5]}',
        b'{"end":999999999,"last":0,"last_id":"x","offsets":[999999]}',
    ],
)
def test_what_was_kept_may_be_damaged(store: SessionStore, damage: bytes) -> None:
    session = store.create(session_start(title="Sales"))
    session.append(Queued(text="one"))
    (session.folder / OUTLINE_NAME).write_bytes(damage)
    summary = read(session.log.path)
    assert (summary.title, texts(summary)) == ("Sales", ["one"])


def test_a_log_that_was_edited_is_read_again(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(Queued(text="secret"))
    session.append(Queued(text="two"))
    session.append(Error(code="x", message="x" * outline.KEEP_BYTES))
    store.list()
    store.close()
    lines = session.log.path.read_bytes().splitlines(keepends=True)
    session.log.path.write_bytes(b"".join([lines[0], *lines[2:], lines[3].replace(b"x", b"y")]))
    assert texts(read(session.log.path)) == ["two"]
