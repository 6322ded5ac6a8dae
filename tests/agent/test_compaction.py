"""Compaction in a live session: what triggers it, what it leaves, and how it fails."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.attachment import Attachment
from prime_ext.errors import PrimeError
from prime_ext.events.emitter import SCHEMA_ID
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.session.records import CompactionEnd, Snapshot
from tests.agent.conftest import NewSession
from tests.messages_api.received import Received
from tests.messages_api.script import (
    Answer,
    Failure,
    Fault,
    Thinking,
    call,
    reply,
    server_error,
    too_long,
)

LONG = " ".join(f"Row {i} has {i * 7919 % 10007}." for i in range(400))
SUMMARY = "## Goal\nFind the mean of x.\n## State of work\nmean_x is defined."


def summarising(*answers: Answer) -> Any:
    """Answers in order; a request for a summary gets ``SUMMARY`` whenever it comes."""
    queue = list(answers)

    def respond(request: Received) -> Answer:
        if "replaced by a summary" in request.user_text:
            return reply(SUMMARY)
        return queue.pop(0)

    return respond


def is_summary_request(request: Received) -> bool:
    return "replaced by a summary" in request.user_text


async def test_manual_compaction_replaces_the_history_and_keeps_the_kernel(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = summarising(
        reply(call("run_code", code="mean_x = 4.25")),
        reply(f"It is 4.25. {LONG}"),
        reply(call("run_code", code="print(mean_x * 2)")),
        reply("8.5"),
    )
    await session.ask("What is the mean of x?")
    # One capture at a time: a compaction does without its own while that of the turn is under way.
    await session.record("snapshot", trigger="turn")
    before = session.api.requests[-1]
    answer = await session.service.compact(session.session, "Keep the mean.", "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.trigger, end.path) == ("ok", "manual", "single_pass")
    assert end.compaction_id == answer["compaction_id"]
    assert end.tokens_after < end.tokens_before
    assert end.compaction_count == 1
    assert end.kernel_state["status"] == "current"
    assert end.summary is not None
    assert end.summary.startswith("<compaction-summary>")
    assert "mean_x is defined." in end.summary
    assert "<recovery_hint>" in end.summary
    assert "session.jsonl" in end.summary
    assert "- mean_x: float" in end.summary
    (snapshot,) = [
        r
        for r in session.records("snapshot")
        if isinstance(r, Snapshot) and r.trigger == "compaction"
    ]
    assert snapshot.outcome in ("ok", "unchanged")
    asked = session.api.requests[-1]
    assert is_summary_request(asked)
    assert "Keep the mean." in asked.user_text
    assert asked.begins_with(before)
    assert asked.system_bytes == before.system_bytes
    assert asked.tools_bytes == before.tools_bytes

    await session.ask("And twice that?")
    request = session.api.requests[-1]
    assert "8.5" in request.tool_result_text
    first = request.messages[0]["content"][0]["text"]
    assert first == end.summary


async def test_it_names_the_snapshot_that_a_turn_has_made_where_it_made_none(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await new_session()
    session.api.respond = summarising(reply(call("run_code", code="x = 1")), reply(LONG))
    await session.ask("Set x.")
    of_turn = await session.record("snapshot", trigger="turn")

    async def put_off(_self: SnapshotKeeper, trigger: str) -> Snapshot:
        return Snapshot(outcome="skipped", trigger=trigger, reason="being saved already")

    monkeypatch.setattr(SnapshotKeeper, "capture", put_off)
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert (end.outcome, end.kernel_state["status"]) == ("ok", "current")
    assert end.kernel_state["snapshot_seq"] == of_turn.seq
    assert end.kernel_state["snapshot_id"] == of_turn.snapshot_id


async def test_records_of_snapshots_that_only_another_version_can_read_are_passed_over(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = summarising(reply(LONG))
    await session.ask("Rows.")
    await session.idle()
    line = {
        "kind": "snapshot",
        "seq": session.session.log.last_seq + 1,
        "outcome": {"new": "shape"},
    }
    with session.session.log.path.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert (end.outcome, end.reason) == ("ok", None)


async def test_an_event_that_cannot_be_emitted_fails_nothing(
    new_session: NewSession, jp_serverapp: ServerApp
) -> None:
    def refuse(schema_id: str, data: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(f"No {schema_id} here, with {len(data)} fields.")

    events = jp_serverapp.event_logger
    assert events is not None
    events.register_handler(logging.NullHandler())
    for kind in ("session_start", "session_activity", "compaction_start", "compaction_end"):
        events.add_modifier(schema_id=SCHEMA_ID.format(kind), modifier=refuse)
    session = await new_session()
    session.api.respond = summarising(reply(LONG))
    await session.ask("Rows.")
    await session.idle()
    await session.service.compact(session.session, None, "ada")
    await session.record("compaction_end", outcome="ok")
    await session.idle()
    assert len(session.records("compaction_end")) == 1


async def test_a_long_last_message_is_cut_in_a_summary_and_its_record_named(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = summarising(reply(LONG))
    await session.ask("First line. " + " ".join(f"word{i}" for i in range(6_000)) + " Last line.")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    (asked,) = session.records("user_message")
    last = end.summary.partition("<last_user_message>")[2].partition("</last_user_message>")[0]
    assert last.strip().startswith("First line.")
    assert last.strip().endswith("Last line.")
    assert f"the full text is in record {asked.seq}, which session_read gives" in last
    assert len(last) < 16_000


async def test_a_message_without_words_is_named_in_a_summary_by_what_was_attached(
    new_session: NewSession, jp_root_dir: Path
) -> None:
    (jp_root_dir / "prices.csv").write_text("day,price\n1,2\n")
    session = await new_session()
    session.api.respond = summarising(reply(LONG))
    attached = msgspec.convert([{"type": "file", "value": "prices.csv"}], list[Attachment])
    await session.service.submit(session.session, "", attached, "ada")
    await session.record("turn_end", status="ok")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    (asked,) = session.records("user_message")
    words = "(without text) attached: file prices.csv"
    assert f"<last_user_message>\n{words}\n</last_user_message>" in end.summary
    assert f"- [{asked.seq}] {words}" in end.summary


async def test_what_code_adds_to_a_summary_is_exact_and_what_it_doubts_is_flagged(
    new_session: NewSession,
) -> None:
    session = await new_session()
    invented = "## Goal\nFind `mean_x` with --alpha=0.35; it was 4.26 in data/other.csv."
    answers: list[Answer] = [
        reply(call("edit_file", path="conf.py", old="a", new="b")),
        reply(f"mean_x is 4.25. {LONG}"),
    ]

    def respond(request: Received) -> Answer:
        return reply(invented) if is_summary_request(request) else answers.pop(0)

    session.api.respond = respond
    await session.ask("Find mean_x. Use --alpha=0.35.")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert end.outcome == "ok"
    doubts = end.summary.partition("<unverified>")[2].partition("</unverified>")[0]
    assert "`4.26`" in doubts
    assert "`data/other.csv`" in doubts
    assert "mean_x" not in doubts
    assert "0.35" not in doubts
    ledger = end.summary.partition("<ledger>")[2].partition("</ledger>")[0]
    (asked,) = session.records("user_message")
    (failed,) = session.records("tool_result")
    assert f"- [{asked.seq}] Find mean_x. Use --alpha=0.35." in ledger
    assert f"- [{failed.seq}] There is no file" in ledger or f"[{failed.seq}]" in ledger
    assert "conf.py" in ledger
    assert (session.session.folder / "ledger.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("refusals", "path"),
    [((400, 400, 400, 400), "digest"), ((401,), "digest"), ((413,), "single_pass")],
)
async def test_what_was_doubted_is_doubted_on_whoever_makes_the_next_summary(
    new_session: NewSession, refusals: tuple[int, ...], path: str
) -> None:
    session = await new_session()
    invented = "## Goal\nCount the rows.\n\n## Commands and values\n- `src/made_up.py` gave 987.654"
    failures: list[Failure] = []

    def respond(request: Received) -> Answer:
        if not is_summary_request(request):
            return reply(LONG)
        return failures.pop(0) if failures else reply(invented)

    async def compacted(text: str) -> CompactionEnd:
        before = session.session.log.last_seq
        await session.ask(text)
        await session.service.compact(session.session, None, "ada")
        end = await session.record("compaction_end", after=before)
        assert isinstance(end, CompactionEnd)
        return end

    def doubts(end: CompactionEnd) -> str:
        return str(end.summary).partition("<unverified>")[2].partition("</unverified>")[0]

    session.api.respond = respond
    first = await compacted("Count the rows.")
    failures += [Failure(status) for status in refusals]
    second = await compacted("Go on.")
    assert second.path == path
    for end in (first, second):
        assert "`987.654`" in doubts(end)
        assert "`src/made_up.py`" in doubts(end)
    # Until it turns up in a record.
    assert doubts(await compacted("src/made_up.py gave 987.654 indeed.")) == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            reply("Let me look first.", call("session_search", query="mean")),
            "went on with the work",
        ),
        (reply("## Goal\nFind the me", stop_reason="max_tokens"), "cut off"),
        (reply("I can't help with that.", stop_reason="refusal"), "declined"),
    ],
)
async def test_what_is_no_summary_does_not_become_one(
    new_session: NewSession, answer: Answer, reason: str
) -> None:
    session = await new_session()

    def respond(request: Received) -> Answer:
        return answer if is_summary_request(request) else reply(f"It is 4.25. {LONG}")

    session.api.respond = respond
    await session.ask("What is the mean of x?")
    before = session.service.describe(session.session)["telemetry"]["input_tokens"]
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.path) == ("ok", "digest")
    assert reason in str(end.reason)
    assert "What is the mean of x?" in str(end.summary)
    # What was asked in vain was paid for all the same.
    asked = [r for r in session.api.requests if is_summary_request(r)]
    spent = sum(
        r.usage[key]
        for r in asked
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    assert end.request_tokens == spent > 0
    telemetry = session.service.describe(session.session)["telemetry"]
    assert telemetry["input_tokens"] == before + spent
    assert end.cost_usd


async def test_a_model_that_goes_on_is_asked_again_with_nothing_to_go_on_with(
    new_session: NewSession,
) -> None:
    session = await new_session()
    answers: list[Answer] = [reply("Let me look.", call("list_variables")), reply(SUMMARY)]

    def respond(request: Received) -> Answer:
        return answers.pop(0) if is_summary_request(request) else reply(LONG)

    session.api.respond = respond
    await session.ask("Hi")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert (end.outcome, end.path, end.reason) == ("ok", "single_pass", None)
    assert SUMMARY.splitlines()[1] in end.summary


async def test_what_the_person_asks_the_summary_to_keep_is_not_doubted(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = lambda request: (
        reply("## Goal\nLook after run_4711 at 0.815.")
        if is_summary_request(request)
        else reply(LONG)
    )
    await session.ask("Hi")
    await session.service.compact(session.session, "Look after run_4711 at 0.815.", "ada")
    end = await session.record("compaction_end")
    assert "<unverified>" not in end.summary


async def test_a_compaction_asked_for_in_a_turn_that_is_stopped_is_not_lost_silently(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply("Thinking about it.", fault=Fault("pause", after=4)))
    await session.send("Hello")
    await session.frame(lambda f: f["type"] == "delta", after=0)
    asked = await session.service.compact(session.session, None, "ada")
    await session.stop()
    end = await session.record("compaction_end")
    assert (end.compaction_id, end.outcome) == (asked["compaction_id"], "cancelled")


async def test_every_fifth_summary_is_set_right_by_the_raw_records(
    new_session: NewSession,
) -> None:
    session = await new_session()

    def respond(request: Received) -> Answer:
        return reply(SUMMARY) if is_summary_request(request) else reply(LONG)

    session.api.respond = respond
    for number in range(5):
        await session.ask(f"The limit is {4711 + number} units.")
        await session.service.compact(session.session, None, "ada")
        await session.record("compaction_end", outcome="ok", compaction_count=number + 1)
    asked = [r for r in session.api.requests if is_summary_request(r)]
    assert ["<extraction>" in r.user_text for r in asked] == [False] * 4 + [True]
    assert "The limit is 4711 units." in asked[-1].user_text


async def test_a_compaction_of_nothing_is_skipped(new_session: NewSession) -> None:
    session = await new_session()
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert end.outcome == "skipped"
    assert end.reason
    assert session.api.requests == []


async def test_a_compaction_of_very_little_sends_no_request(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(reply("Hello."))
    await session.ask("Hi")
    await session.service.compact(session.session, None, "ada")
    record = await session.record("compaction_end")
    assert record.outcome == "skipped"
    assert len(session.api.requests) == 1


async def test_compaction_asked_for_while_busy_waits_for_the_step(new_session: NewSession) -> None:
    session = await new_session()
    session.api.respond = summarising(
        reply("An answer that takes its time.", fault=Fault("pause", after=4))
    )
    await session.send("Hello")
    await session.frame(lambda f: f["type"] == "delta", after=0)
    await session.service.compact(session.session, None, "ada")
    with pytest.raises(PrimeError) as error:
        await session.service.compact(session.session, None, "ada")
    assert error.value.code == "compaction_pending"
    session.api.resume()
    await session.record("turn_end", status="ok")
    kinds = session.kinds()
    assert (
        kinds.index("assistant_message") < kinds.index("compaction_end") < kinds.index("turn_end")
    )


async def test_the_model_can_ask_for_it_and_goes_on_from_the_summary(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = summarising(
        reply(f"Tidying up. {LONG}", call("compact_context", instructions="Keep it short.")),
        reply("On we go."),
    )
    end = await session.ask("Tidy up.")
    assert end.status == "ok"
    (record,) = session.records("compaction_end")
    assert isinstance(record, CompactionEnd)
    assert (record.outcome, record.trigger) == ("ok", "model")
    last = session.api.requests[-1].messages
    assert last[0]["content"][0]["text"] == record.summary


async def test_stop_during_compaction_leaves_the_context_as_it_was(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply(LONG))
    await session.ask("Hi")
    before = session.api.requests[-1]
    session.api.enqueue(reply(SUMMARY, fault=Fault("pause", after=4)))
    await session.service.compact(session.session, None, "ada")
    await session.requests(2)
    await session.stop()
    end = await session.record("compaction_end")
    assert end.outcome == "cancelled"
    session.api.enqueue(reply("Still here."))
    await session.ask("Again")
    assert session.api.requests[-1].begins_with(before)


async def test_when_the_model_cannot_summarise_an_extraction_does(new_session: NewSession) -> None:
    session = await new_session()
    session.api.enqueue(
        reply(call("run_code", code="k = 1\nprint('seen')")), reply(f"Ran it. {LONG}")
    )
    await session.ask("Set k to 1 please, in memory of 1867.")
    session.api.respond = lambda _request: Failure(400, "Nothing to be done.")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert (end.outcome, end.path) == ("ok", "digest")
    assert "1867" in end.summary
    assert "k = 1" in end.summary
    assert end.tokens_after < end.tokens_before
    error = await session.record("error")
    assert error.where == "compaction"


async def test_a_summary_as_long_as_what_it_replaces_does_not_replace_it(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = lambda _request: reply(LONG)
    await session.ask("What is the mean of x?")
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.path) == ("ok", "digest")
    assert end.request_tokens > 0
    assert "What is the mean of x?" in str(end.summary)
    await session.ask("Well?")
    sizes = [len(request.messages_bytes) for request in session.api.requests]
    assert sizes[-1] < 0.9 * sizes[1]


async def test_a_model_that_takes_too_long_for_a_summary_is_not_waited_for(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await new_session()
    session.api.respond = lambda _request: reply(LONG)
    await session.ask("What is the mean of x?")
    monkeypatch.setattr("prime_ext.compaction.replacement.WAIT_SECONDS", 0.2)
    session.api.respond = lambda _request: reply(SUMMARY, fault=Fault("stall", after=2))
    await session.service.compact(session.session, None, "ada")
    end = await session.record("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.path) == ("ok", "digest")
    assert "What is the mean of x?" in str(end.summary)
    assert (await session.record("error")).code == "stalled"


class TestThreshold:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {"max_context_tokens": 24_000, "tool_result_cap_tokens": 4_000}}

    async def test_crossing_it_with_the_last_reply_compacts_before_the_turn_ends(
        self, new_session: NewSession, jp_root_dir: Path
    ) -> None:
        session = await new_session()
        long = "\n".join(f"row {i}: {i * 7919 % 10007}" for i in range(6_000))
        session.api.respond = summarising(
            reply(call("run_code", code="kept = 1")),
            reply(long),
            reply("Going on."),
        )
        await session.send("Tell me all.")
        complete = await session.frame(lambda f: f["type"] == "message_complete", after=0)
        end = await session.record("turn_end")
        record = await session.record("compaction_end")
        assert (record.outcome, record.trigger) == ("ok", "turn_end")
        checkpoint = await session.record("checkpoint")
        assert complete["seq"] < record.seq < checkpoint.seq < end.seq
        saved = session.records("snapshot")[-1]
        assert isinstance(saved, Snapshot)
        assert checkpoint.snapshot_id == saved.snapshot_id is not None
        content = (jp_root_dir / session.session.notebook).read_bytes()
        assert checkpoint.notebook_hash == hashlib.sha256(content).hexdigest()
        assert end.context_tokens is None
        assert record.tokens_after < 12_000
        assert record.kernel_state["status"] == "current"
        await session.ask("Go on.")
        assert session.api.requests[-1].messages[0]["content"][0]["text"] == record.summary
        assert len(session.records("compaction_end")) == 1

    async def test_crossing_it_between_two_requests_compacts_and_the_turn_goes_on(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        code = "print('\\n'.join(f'row {i}: {i * 7919 % 10007}' for i in range(4000)))"
        session.api.respond = summarising(
            *(reply(Thinking("Hm."), call("run_code", code=code)) for _ in range(6)),
            reply("Enough rows."),
        )
        end = await session.ask("Print rows.")
        assert end.status == "ok"
        records = session.records("compaction_end")
        assert {(r.outcome, r.trigger) for r in records if isinstance(r, CompactionEnd)} == {
            ("ok", "threshold")
        }
        # What the person wants outlives every summary of a long turn.
        summaries = [r.summary for r in records if isinstance(r, CompactionEnd) and r.summary]
        assert all("Print rows." in summary for summary in summaries)
        assert not session.records("error")

    async def test_one_that_fails_is_tried_again_once_the_context_has_grown_by_a_tenth(
        self, new_session: NewSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fail(*_: object, **__: object) -> None:
            raise RuntimeError("Scripted.")

        monkeypatch.setattr("prime_ext.compaction.compactor.Replacing.make", fail)
        session = await new_session()
        long = " ".join(f"Row {i} has {i * 7919 % 10007}." for i in range(1_500))
        session.api.respond = summarising(
            reply(long, call("list_files")),
            *(reply(call("list_files")) for _ in range(5)),
            reply(long[: len(long) // 4], call("list_files")),
            reply("Enough."),
        )
        end = await session.ask("Rows.")
        assert (end.status, end.requests) == ("ok", 8)
        records = session.records("compaction_end")
        assert [r.outcome for r in records if isinstance(r, CompactionEnd)] == ["failed"] * 2
        first, second = (r.tokens_before for r in records if isinstance(r, CompactionEnd))
        assert second >= first + 2_400


class TestImpossibleThreshold:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {"max_context_tokens": 1_000}}

    async def test_a_threshold_under_the_overhead_is_one_clear_error(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.enqueue(reply(call("list_variables")), reply("None."))
        end = await session.ask("What is defined?")
        assert end.status == "ok"
        errors = session.records("error")
        assert len(errors) == 1
        assert not session.records("compaction_start")


async def test_a_prompt_over_the_window_is_compacted_and_sent_again(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply(LONG))
    await session.ask("Hi")
    session.api.enqueue(too_long(205_030, 200_000), reply(SUMMARY), reply("Here I am."))
    end = await session.ask("Still there?")
    assert end.status == "ok"
    (record,) = session.records("compaction_end")
    assert isinstance(record, CompactionEnd)
    assert (record.outcome, record.trigger) == ("ok", "overflow")
    assert session.api.requests[-1].user_text.endswith("Still there?")


@pytest.mark.parametrize(
    "refusal",
    [Failure(413), Failure(400, "messages: Too many images: 101 > 100")],
    ids=["bytes", "images"],
)
async def test_a_request_that_is_too_large_is_compacted_and_sent_again(
    new_session: NewSession, refusal: Failure
) -> None:
    session = await new_session()
    session.api.enqueue(reply(LONG))
    await session.ask("Hi")
    session.api.enqueue(refusal, reply(SUMMARY), reply("Here I am."))
    assert (await session.ask("Still there?")).status == "ok"
    (record,) = session.records("compaction_end")
    assert isinstance(record, CompactionEnd)
    assert (record.outcome, record.trigger) == ("ok", "overflow")
    assert not session.records("error")


async def test_a_first_message_that_is_too_long_does_not_block_the_session(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.set_window(session.session.model, 60_000)
    session.api.respond = lambda request: reply(SUMMARY if is_summary_request(request) else "Yes.")
    numbers = " ".join(str(i * 7919) for i in range(40_000))
    assert (await session.ask(f"What about these? {numbers}")).status == "error"
    assert session.records("error")[0].code == "context_overflow"  # type: ignore[union-attr]
    assert (await session.ask("And without them?")).status == "ok"
    record = session.records("compaction_end")[-1]
    assert isinstance(record, CompactionEnd)
    assert record.outcome == "ok"


async def test_errors_of_the_model_do_not_repeat_compaction_for_ever(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.enqueue(reply(LONG))
    await session.ask("Hi")
    session.api.respond = lambda _request: too_long(205_030, 200_000)
    end = await session.ask("Still there?")
    assert end.status == "error"
    assert len(session.records("compaction_end")) == 1
    # Two of the conversation, four for the summary, the conversation once more.
    assert len(session.api.requests) <= 7


async def test_a_model_chosen_later_comes_in_with_the_compaction(new_session: NewSession) -> None:
    session = await new_session()
    session.api.respond = summarising(reply(LONG), reply("Hi again."), reply("New here."))
    await session.ask("Hi")
    await session.service.update(session.session, model="claude-sonnet-4-6", user="ada")
    await session.ask("And?")
    assert session.api.requests[-1].model != "claude-sonnet-4-6"
    await session.service.compact(session.session, None, "ada")
    await session.record("compaction_end", outcome="ok")
    await session.ask("Who are you?")
    assert session.api.requests[-1].model == "claude-sonnet-4-6"


async def test_system_prompt_and_tools_of_a_new_version_come_in_with_the_compaction(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = await new_session()
    session.api.respond = summarising(*[reply(LONG)] * 4)
    await session.ask("Rows.")
    (before,) = session.api.requests
    new = [{"type": "text", "text": "The prompt of a new version."}]
    monkeypatch.setattr("prime_ext.agent.session_model.system_prompt", lambda *_: new)
    tools = session.service._services.tools
    fewer = tools.definitions()[:-1]
    monkeypatch.setattr(tools, "definitions", lambda: fewer)
    await session.service.close_session(session.session)
    await session.ask("And more.")
    await session.service.compact(session.session, None, "ada")
    await session.record("compaction_end", outcome="ok")
    for request in session.api.requests:
        assert request.system_bytes == before.system_bytes
        assert request.tools_bytes == before.tools_bytes
    await session.ask("And now?")
    sent = session.api.requests[-1].body
    assert [block["text"] for block in sent["system"]] == ["The prompt of a new version."]
    assert [tool["name"] for tool in sent["tools"]] == [tool["name"] for tool in fewer]
    await session.ask("And then?")
    assert session.records("error") == []
    assert "Prompt cache missed" not in caplog.text


async def test_a_failing_server_does_not_lose_the_session(new_session: NewSession) -> None:
    session = await new_session(model="claude-sonnet-4-6")
    session.api.enqueue(*(server_error() for _ in range(1)), reply("Up again."))
    assert (await session.ask("Hi")).status == "ok"
