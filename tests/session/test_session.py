"""What a session derives from its records, before and after it is opened again."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_ext.context.projection import project
from prime_ext.errors import PrimeError
from prime_ext.redaction import Redaction
from prime_ext.session.log import SessionLog, mend
from prime_ext.session.records import (
    AssistantMessage,
    CompactionEnd,
    Prune,
    RunEnd,
    Settings,
    ToolResult,
    UserMessage,
)
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start, title

if TYPE_CHECKING:
    from prime_ext.session.records import AnyRecord
    from prime_ext.session.session import Session


def message(text: str) -> UserMessage:
    return UserMessage(text=text, content=[{"type": "text", "text": text}])


def reply(text: str) -> AssistantMessage:
    return AssistantMessage(content=[{"type": "text", "text": text}], model="offline-1")


def compaction(kept_from_seq: int | None = None, **changes: Any) -> CompactionEnd:
    values: dict[str, Any] = {
        "compaction_id": "c",
        "outcome": "ok",
        "trigger": "threshold",
        "path": "single_pass",
        "tokens_before": 900,
        "tokens_after": 100,
        "summary": "<compaction-summary>…</compaction-summary>",
        "kept_from_seq": kept_from_seq,
    }
    return CompactionEnd(**{**values, **changes})


def seqs(session: Session) -> list[int]:
    return [record.seq for record in session.context_records()]


def derived(session: Session) -> dict[str, Any]:
    names = (
        "notebook title permission_mode model provider chosen_model chosen_provider system tools"
    )
    return {name: getattr(session, name) for name in names.split()}


def reopen(store: SessionStore, session: Session) -> Session:
    store.close()
    return store.get(session.id)


def test_the_context_is_everything_until_a_compaction(store: SessionStore) -> None:
    session = store.create(session_start())
    for record in (message("a"), reply("b"), title("t")):
        session.append(record)
    assert seqs(session) == [1, 2, 3, 4]
    session.append(compaction(3))
    assert seqs(session) == [1, 3, 4, 5]
    session.append(message("c"))
    assert seqs(session) == [1, 3, 4, 5, 6]
    session.append(compaction())
    assert seqs(session) == [1, 7]
    assert session.compaction is not None
    assert session.compaction.seq == 7


def test_what_a_compaction_has_frozen_holds_beyond_the_next(store: SessionStore) -> None:
    session = store.create(session_start())
    prompt, tools = [{"type": "text", "text": "Another prompt."}], [{"name": "another_tool"}]
    session.append(message("a"))
    session.append(reply("b"))
    session.append(compaction(system=prompt, tools=tools, provider="anthropic", model="another"))
    session.append(message("c"))
    session.append(compaction())  # it says only what it has changed
    live = session.context_records()
    for records in (live, reopen(store, session).context_records()):
        context = project(records)
        assert (context.system, context.tools) == (prompt, tools)
        assert (context.provider, context.model) == ("anthropic", "another")


def result(run: str, call_id: str, *, goes_on: bool) -> ToolResult:
    return ToolResult(tool_use_id=call_id, name="x", content=[], run=run, goes_on=goes_on)


def going(session: Session) -> ToolResult | None:
    return session.going_run


@pytest.mark.parametrize(
    "end", [RunEnd(tool_use_id="a", content=[]), result("a", "c", goes_on=False)]
)
def test_a_run_goes_on_until_its_end_is_recorded(store: SessionStore, end: AnyRecord) -> None:
    session = store.create(session_start())
    assert going(session) is None
    session.append(result("a", "a", goes_on=True))
    answer = session.append(result("a", "b", goes_on=True))
    session.append(ToolResult(tool_use_id="x", name="x", content=[]))
    session.append(RunEnd(tool_use_id="of another", content=[]))
    assert going(session) == answer
    session = reopen(store, session)
    assert going(session) == answer
    session.append(compaction(run_seq=answer.seq))  # it leaves nothing of it in the context
    assert going(session) == answer
    session = reopen(store, session)
    assert going(session) == answer
    session.append(end)
    assert going(session) is None
    assert going(reopen(store, session)) is None


@pytest.mark.parametrize(
    "changes", [{"outcome": "failed"}, {"outcome": "skipped"}, {"path": "prune", "summary": None}]
)
def test_what_made_no_summary_takes_nothing_out_of_the_context(
    store: SessionStore, changes: dict[str, Any]
) -> None:
    session = store.create(session_start())
    session.append(message("a"))
    session.append(compaction(None, **changes))
    assert seqs(session) == seqs(reopen(store, session)) == [1, 2, 3]


def test_context_records_are_a_list_of_ones_own(store: SessionStore) -> None:
    session = store.create(session_start())
    session.context_records().clear()
    assert seqs(session) == [1]


any_change: st.SearchStrategy[AnyRecord] = st.one_of(
    st.builds(message, st.text(max_size=5)),
    st.builds(reply, st.text(max_size=5)),
    st.builds(title, st.text(max_size=5)),
    st.just(Prune(compaction_id="p", pruned=[2], tokens_before=9, tokens_after=5)),
    st.builds(
        Settings,
        model=st.none() | st.sampled_from(["m1", "m2"]),
        provider=st.none() | st.just("anthropic"),
        permission_mode=st.none() | st.just("auto"),
        notebook=st.none() | st.just("moved.ipynb"),
    ),
    st.builds(
        compaction,
        st.none() | st.integers(-3, 40),
        outcome=st.sampled_from(["ok", "ok", "failed"]),
        path=st.sampled_from(["swap", "prune"]),
        model=st.none() | st.just("m3"),
        tools=st.none() | st.just([{"name": "run_code"}]),
    ),
)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(any_change, max_size=14))
def test_a_reopened_session_is_the_same(store: SessionStore, changes: list[AnyRecord]) -> None:
    with patch("os.fsync"):
        session = store.create(session_start())
        for record in changes:
            session.append(record)
        again = reopen(store, session)
    assert again is not session
    assert again.context_records() == session.context_records()
    assert derived(again) == derived(session)
    assert again.append(title("next")).seq == len(changes) + 2


def test_a_model_is_in_force_at_once_or_at_the_next_compaction(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(Settings(model="m1"))
    assert (session.model, session.chosen_model) == ("m1", "m1")
    session.append(message("hello"))
    session.append(Settings(model="m2", provider="anthropic", permission_mode="plan"))
    assert (session.model, session.chosen_model) == ("m1", "m2")
    assert (session.provider, session.chosen_provider) == ("offline", "anthropic")
    assert session.permission_mode == "plan"
    tools = [{"name": "run_code"}]
    session.append(compaction(None, model="m2", provider="anthropic", tools=tools))
    assert (session.model, session.provider, session.tools) == ("m2", "anthropic", tools)
    session.append(Settings(model="m3"))
    assert session.model == "m2", "a summary is a context too"
    session.append(title("Sales by month"))
    session.append(Settings(notebook="sales.ipynb"))
    assert (session.title, session.notebook) == ("Sales by month", "sales.ipynb")


def test_secrets_are_taken_out_of_every_string(store: SessionStore) -> None:
    session = store.create(session_start())
    session.redact = Redaction(lambda: ["sk-secret"])
    stored = session.append(
        ToolResult(
            tool_use_id="a",
            name="run_code",
            content=[{"type": "text", "text": "key=sk-secret\ud800"}],
            outputs=[{"data": {"sk-secret": ["sk-secret", 1, None]}}],
        )
    )
    assert isinstance(stored, ToolResult)
    assert stored.content == [{"type": "text", "text": "key=[key]\ufffd"}]
    assert stored.outputs == [{"data": {"[key]": ["[key]", 1, None]}}]
    assert b"sk-secret" not in session.log.path.read_bytes()
    assert session.context_records()[-1] == stored


values = st.recursive(
    st.none() | st.integers() | st.text('ab"\\n\nü/\x00\ud800'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('ab"\\n\n'), inner),
)


@given(values, st.lists(st.text('ab"\\n\nü/\x00', min_size=1, max_size=2)))
def test_a_secret_is_found_whatever_it_is_made_of(value: Any, secrets: list[str]) -> None:
    redact = Redaction(lambda: secrets)
    mended = mend(value)
    if redact.throughout(mended) != mended:
        assert redact.is_due(msgspec.json.encode(mended))


def test_large_values_without_secrets_are_not_looked_at_one_by_one(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create(session_start())
    session.redact = Redaction(lambda: ["sk-secret"])
    looked = []
    monkeypatch.setattr(Redaction, "throughout", lambda _self, value: looked.append(value))
    outputs = [{"data": {"application/json": {"rows": [str(i) for i in range(1_000)]}}}]
    session.append(ToolResult(tool_use_id="a", name="t", content=[], outputs=outputs))
    session.publish({"type": "progress", "what": "tool", "call_id": "a", "outputs": outputs})
    assert not looked


async def test_a_secret_in_what_is_put_out_is_not_shown(store: SessionStore) -> None:
    session = store.create(session_start())
    session.redact = Redaction(lambda: ['a"key'])
    async with session.subscribe() as frames:
        while (await anext(frames))["type"] != "ready":
            pass
        for text in ('an a"key', 'a\ud800 a"key'):
            outputs = [{"output_type": "stream", "name": "stdout", "text": text}]
            session.publish({"type": "progress", "what": "x", "outputs": outputs})
            assert '"key' not in str(await anext(frames))


def test_what_json_cannot_hold_is_written_as_text(store: SessionStore) -> None:
    session = store.create(session_start())
    odd = [{"a": {1: Path("/x"), "b": {2, 3}}, "c": float("nan"), "d": b"\x00"}]
    plain = session.append(ToolResult(tool_use_id="a", name="t", content=[], outputs=odd))
    session.redact = Redaction(list)
    redacted = session.append(ToolResult(tool_use_id="a", name="t", content=[], outputs=odd))
    for record in (plain, redacted):
        assert isinstance(record, ToolResult)
        (output,) = record.outputs
        assert output["a"]["1"] == "/x"
        assert sorted(output["a"]["b"]) == [2, 3]
        assert output["c"] is None
    assert reopen(store, session).log.read(1) == [plain, redacted]


def test_a_full_disk_is_told_and_changes_nothing(store: SessionStore) -> None:
    session = store.create(session_start())
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch("os.write", side_effect=full), pytest.raises(PrimeError) as caught:
        session.append(message("lost?"))
    assert (caught.value.code, caught.value.status) == ("session_not_written", 507)
    assert "No space left" in caught.value.message
    assert seqs(session) == [1]
    with patch("os.fsync", side_effect=full), pytest.raises(PrimeError):
        session.append(message("there, if not surely"), sync=True)
    assert seqs(session) == [1, 2]
    assert session.append(message("after")).seq == 3


def test_records_of_kinds(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(title("one"))
    session.append(message("a"))
    session.append(title("two"))
    assert [record.seq for record in session.records_of("title")] == [2, 4]
    assert [record.seq for record in session.records_of("title", "session_start")] == [1, 2, 4]


def test_a_log_without_a_beginning_is_refused(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(title("x"))
    store.close()
    lines = session.log.path.read_bytes().splitlines(keepends=True)
    session.log.path.write_bytes(b"{rotten\n" + lines[1])
    for _ in range(2):  # the lock is given up again
        with pytest.raises(PrimeError) as caught:
            store.get(session.id)
        assert caught.value.code == "session_damaged"
    assert store.list() == []


def test_damage_is_reported(store: SessionStore, caplog: pytest.LogCaptureFixture) -> None:
    session = store.create(session_start())
    session.append(message("a"))
    store.close()
    with session.log.path.open("ab") as file:
        file.write(b'{"kind":"user_mess')
    with caplog.at_level(logging.WARNING):
        assert seqs(store.get(session.id)) == [1, 2]
    assert "18 bytes at offset" in caplog.text
    assert "cut off while being written" in caplog.text


def test_appending_is_cheap_in_a_long_log(tmp_path: Path) -> None:
    """Bytes written for one record do not depend on how many came before."""
    log = SessionLog.open(tmp_path / "session.jsonl")
    sizes = []
    for _ in range(2_000):
        before = log.path.stat().st_size
        log.append(title("x"))
        sizes.append(log.path.stat().st_size - before)
    assert max(sizes) - min(sizes) <= 3  # the digits of seq
    log.close()
