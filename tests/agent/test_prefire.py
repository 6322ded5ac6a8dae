"""The note made ahead: when, from what, and how it takes the prefix's place without a wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prime_ext.session.records import AnyRecord, CompactionEnd, PrefireEnd, PrefireStart
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_compaction import SUMMARY, is_summary_request
from tests.messages_api.received import Received
from tests.messages_api.script import Answer, Failure, Fault, Reply, Text, call, reply
from tests.messages_api.server import MessagesAPI


def rows(count: int) -> str:
    return "\n".join(f"row {i}: {i * 7919 % 10007}" for i in range(count))


CONTEXT = {
    "max_context_tokens": 24_000,
    "prefire_margin_tokens": 8_000,
    "keep_tail_tokens": 13_000,
    "landing_share": 0.8,
    "tool_result_cap_tokens": 4_000,
}


@pytest.fixture
def prime_config() -> dict[str, Any]:
    """A note at 16,000 tokens, the swap at 24,000, and a tail as long as all between."""
    return {"ContextConfig": CONTEXT}


class Model:
    """Answers every question with rows, and a request for a summary with ``summary``."""

    def __init__(self, summary: Answer | None = None) -> None:
        self.summary = summary or reply(SUMMARY)

    def __call__(self, request: Received) -> Answer:
        if is_summary_request(request):
            return self.summary
        return reply(rows(200))


async def background_done(session: Driver) -> None:
    """Wait until no note is being made: between two questions a person leaves it the time."""
    context = (await session.service.agent(session.session))._context
    task = context._prefire._task
    if task is not None:
        await asyncio.wait({task})


async def ask_until(session: Driver, kind: str, *, patient: bool = True) -> Any:
    """Ask for rows until there is a record of ``kind``."""
    for number in range(20):
        await session.ask(f"Rows, part {number}.")
        if patient:
            await background_done(session)
        if session.records(kind):
            return session.records(kind)[0]
    raise AssertionError(f"No {kind} came.")


async def note_made(session: Driver) -> PrefireEnd:
    """Ask until a note is begun, and wait until it has ended."""
    await ask_until(session, "prefire_start")
    end = await session.record("prefire_end")
    assert isinstance(end, PrefireEnd)
    return end


async def compacted(session: Driver, *, patient: bool = True) -> CompactionEnd:
    end = await ask_until(session, "compaction_end", patient=patient)
    assert isinstance(end, CompactionEnd)
    assert end.outcome == "ok"
    return end


async def test_the_swap_needs_no_request_and_keeps_what_came_since(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = Model()
    assert (await note_made(session)).outcome == "ok"
    (start,) = session.records("prefire_start")
    assert isinstance(start, PrefireStart)
    (asked,) = [r for r in session.api.requests if is_summary_request(r)]
    conversation = [r for r in session.api.requests if not is_summary_request(r)]
    assert asked.begins_with(conversation[1])
    assert asked.system_bytes == conversation[0].system_bytes
    assert asked.tools_bytes == conversation[0].tools_bytes

    end = await compacted(session)
    assert (end.path, end.request_tokens) == ("swap", 0)
    assert len([r for r in session.api.requests if is_summary_request(r)]) == 1
    assert end.tokens_after < end.tokens_before
    assert end.kept_from_seq is not None
    assert end.kept_from_seq > start.through_seq

    telemetry = session.service.describe(session.session)["telemetry"]
    assert (telemetry["notes_made"], telemetry["notes_used"]) == (1, 1)

    await session.ask("And now?")
    messages = [r for r in session.api.requests if not is_summary_request(r)][-1].messages
    assert messages[0]["content"][0]["text"] == end.summary
    assert SUMMARY in (end.summary or "")
    assert messages[-2]["content"][0]["text"] == rows(200)


async def test_a_tail_that_is_too_large_for_the_server_does_not_stay(
    new_session: NewSession,
) -> None:
    session = await new_session()
    session.api.respond = Model()
    await note_made(session)
    session.api.enqueue(Failure(413), Failure(413))
    assert (await session.ask("And now?")).status == "ok"
    ends = [r for r in session.records("compaction_end") if isinstance(r, CompactionEnd)]
    assert [(end.trigger, end.path) for end in ends] == [
        ("overflow", "swap"),
        ("overflow", "single_pass"),
    ]
    assert not session.records("error")


async def test_once_a_note_is_ready_nothing_is_pruned(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def would_do(*_: object) -> None:
        raise AssertionError("No prune is looked for.")

    monkeypatch.setattr("prime_ext.compaction.compactor.choose_prune", would_do)
    session = await new_session()
    session.api.respond = Model()
    await note_made(session)
    assert (await compacted(session)).path == "swap"


@pytest.mark.parametrize("every", [1, 2])
async def test_a_note_too_is_set_right_by_the_raw_records_when_that_is_due(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr("prime_ext.compaction.extraction.REBUILD_EVERY", every)
    session = await new_session()
    session.api.respond = Model()
    await note_made(session)
    (asked,) = [r for r in session.api.requests if is_summary_request(r)]
    extraction = asked.user_text.partition("<extraction>")[2]
    assert ("Rows, part 0." in extraction) == (every == 1)


async def test_a_note_that_fails_leaves_a_single_pass(new_session: NewSession) -> None:
    session = await new_session()
    model = Model(Failure(400, "Not now."))
    session.api.respond = model
    assert (await note_made(session)).outcome == "failed"
    model.summary = reply(SUMMARY)
    assert (await compacted(session)).path == "single_pass"
    assert not session.records("error")


async def test_a_note_that_is_late_is_not_waited_for(new_session: NewSession) -> None:
    session = await new_session()
    model = Model(Reply((Text(SUMMARY),), fault=Fault("stall", after=3)))
    session.api.respond = model
    await ask_until(session, "prefire_start", patient=False)
    asked = len(session.api.requests)
    await session.requests(asked + (not any(map(is_summary_request, session.api.requests))))
    model.summary = reply(SUMMARY)
    assert (await compacted(session, patient=False)).path == "single_pass"
    assert (await session.record("prefire_end")).outcome == "cancelled"


async def test_a_ready_note_survives_a_restart_of_the_server(new_session: NewSession) -> None:
    session = await new_session()
    session.api.respond = Model()
    await note_made(session)
    await session.service.close_session(session.session)
    done = await compacted(session)
    assert done.path == "swap"
    # No other note was made for it.
    assert len([start for start in session.records("prefire_start") if start.seq < done.seq]) == 1


async def test_a_note_that_is_late_is_ready_a_few_requests_later(new_session: NewSession) -> None:
    session = await new_session()
    crossed = 0

    def respond(request: Received) -> Answer:
        nonlocal crossed
        if is_summary_request(request):
            return Reply((Text(SUMMARY),), fault=Fault("pause", after=3))
        # What a request has cached is what the next one reads.
        size = max(r.usage.get("cache_read_input_tokens", 0) for r in session.api.requests)
        if size < 24_000:
            return reply(rows(100 if size < 20_000 else 10), call("list_variables"))
        crossed += 1
        if crossed == 1:
            session.api.resume()
        return reply(call("list_variables")) if crossed < 20 else reply("Done.")

    session.api.respond = respond
    assert (await session.ask("Rows, little by little.")).status == "ok"
    (note,) = session.records("prefire_end")
    assert isinstance(note, PrefireEnd)
    assert note.outcome == "ok"
    (end,) = session.records("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.path, end.trigger, end.request_tokens) == ("swap", "threshold", 0)
    assert len([r for r in session.api.requests if is_summary_request(r)]) == 1


class TestLongTail:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {**CONTEXT, "keep_tail_tokens": 500}}

    async def test_a_tail_that_is_too_long_is_merged_without_reading_the_rest_again(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = Model()
        await note_made(session)
        end = await compacted(session)
        assert end.path == "merge"
        merge = [r for r in session.api.requests if is_summary_request(r)][-1]
        assert SUMMARY in merge.messages[0]["content"][0]["text"]
        assert "Rows, part 0." not in str(merge.messages)
        assert 0 < end.request_tokens < end.tokens_before


class TestLeap:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {**CONTEXT, "prefire_margin_tokens": 1_000}}

    async def test_a_leap_over_the_threshold_makes_nobody_wait(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        # Not outputs, which would be pruned: what the model itself writes.
        leap = [reply(rows(1_600), call("list_variables"))]
        note = reply(SUMMARY)

        def respond(request: Received) -> Answer:
            if is_summary_request(request):
                return note
            return leap.pop() if leap else reply("Done.")

        session.api.respond = respond
        await session.ask("Rows, very many.")
        kinds = session.kinds()
        assert kinds.count("assistant_message") == 2  # the turn went on over the threshold
        assert kinds.count("prefire_start") == 1
        # Which of the two begins first does not matter: the compaction waits for the note.
        assert kinds.index("prefire_end") < kinds.index("compaction_end")
        (end,) = session.records("compaction_end")
        assert isinstance(end, CompactionEnd)
        assert (end.trigger, end.path, end.outcome) == ("turn_end", "swap", "ok")
        (asked,) = [r for r in session.api.requests if is_summary_request(r)]
        conversation = [r for r in session.api.requests if not is_summary_request(r)]
        assert asked.begins_with(conversation[1])
        assert asked.usage["cache_read_input_tokens"] > 0.9 * end.tokens_before
        assert end.tokens_after < end.tokens_before / 2

    async def test_it_goes_on_for_as_long_as_there_is_room(self, new_session: NewSession) -> None:
        session = await new_session()
        asked = 0

        def respond(request: Received) -> Answer:
            nonlocal asked
            if is_summary_request(request):
                return Reply((Text(SUMMARY),), fault=Fault("pause", after=3))
            asked += 1
            if asked == 8:
                session.api.resume()
            if asked == 1:
                return reply(rows(1_600), call("list_variables"))
            return reply(call("list_variables")) if asked < 20 else reply("Done.")

        session.api.respond = respond
        await session.ask("Rows, very many.")
        (note,) = session.records("prefire_end")
        (end,) = session.records("compaction_end")
        assert isinstance(end, CompactionEnd)
        assert (end.path, end.request_tokens) == ("swap", 0)
        since = [r for r in session.records("assistant_message") if note.seq > r.seq]
        assert len(since) >= 8

    async def test_where_it_grows_further_the_note_is_waited_for(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        end = await note_waited_for(session)
        assert (end.outcome, end.path) == ("ok", "swap")
        assert end.request_tokens > 24_000
        assert len(session.records("assistant_message")) >= 2


class TestLeapBeforeALongTail:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {
            "ContextConfig": {**CONTEXT, "prefire_margin_tokens": 1_000, "keep_tail_tokens": 500}
        }

    async def test_a_note_that_was_waited_for_is_part_of_what_was_sent(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        end = await note_waited_for(session, merge=Failure(400, "Not now."))
        assert (end.outcome, end.path) == ("ok", "digest")
        assert end.request_tokens > 24_000


async def note_waited_for(session: Driver, merge: Answer | None = None) -> Any:
    """Have a turn leap over the threshold and grow further; the compaction that ends it.

    ``merge`` answers requests for a summary that do not begin as the conversation does.
    """

    def respond(request: Received) -> Answer:
        if is_summary_request(request):
            if merge is not None and not request.begins_with(session.api.requests[0]):
                return merge
            return Reply((Text(SUMMARY),), fault=Fault("pause", after=3))
        if len(session.api.requests) == 1:
            return reply(rows(1_600), call("list_variables"))
        return reply(rows(400), call("list_variables"))

    session.api.respond = respond
    await session.send("Rows, very many.")
    await session.record("compaction_start")
    session.api.resume()
    end = await session.record("compaction_end")
    await session.stop()
    await session.record("turn_end")
    return end


async def test_a_reply_that_the_windows_end_cuts_off_goes_on_behind_a_summary(
    new_session: NewSession, messages_api: MessagesAPI
) -> None:
    # Before the session, which asks the model for its limits once.
    messages_api.set_window("claude-sonnet-5-5", 24_000, max_output=20_000)
    session = await new_session()
    answers: list[Answer] = [reply(rows(2_000)), reply("Those were the rows.")]

    def respond(request: Received) -> Answer:
        return reply(SUMMARY) if is_summary_request(request) else answers.pop(0)

    session.api.respond = respond
    end = await session.ask("Rows, very many.")
    assert end.status == "ok"
    assert not session.records("error")
    first, second = session.records("assistant_message")
    assert first.stop_reason == "model_context_window_exceeded"  # type: ignore[union-attr]
    assert second.content[0]["text"] == "Those were the rows."  # type: ignore[union-attr]
    (compaction,) = session.records("compaction_end")
    assert (compaction.outcome, compaction.trigger) == ("ok", "overflow")  # type: ignore[union-attr]


class TestRolling:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {**CONTEXT, "keep_tail_tokens": 6_000}}

    async def test_a_note_is_rolled_forward_by_what_came_since(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        session.api.respond = Model()
        first = await note_made(session)
        session.api.respond = Model(reply("## Goal\nRows, rolled."))
        for number in range(20):
            await session.ask(f"Rows, later part {number}.")
            await background_done(session)
            rolls = [r for r in session.records("prefire_start") if is_rolled(r)]
            if rolls:
                break
        (roll,) = rolls
        assert isinstance(roll, PrefireStart)
        end = await session.record("prefire_end", after=roll.seq)
        assert (end.outcome, end.note) == ("ok", "## Goal\nRows, rolled.")
        asked = [r for r in session.api.requests if is_summary_request(r)][-1]
        assert first.note in asked.messages[0]["content"][0]["text"]
        assert "Rows, part 0." not in str(asked.messages)
        assert len(asked.messages) > 2

        record = await compacted(session)
        assert (record.path, record.request_tokens) == ("swap", 0)
        assert "Rows, rolled." in str(record.summary)
        telemetry = session.service.describe(session.session)["telemetry"]
        assert (telemetry["notes_made"], telemetry["notes_used"]) == (1, 1)
        assert telemetry["notes_wasted"] == 0
        assert telemetry["compactions"]["swap"]["count"] == 1

    async def test_a_tail_that_leaps_is_rolled_while_requests_go_on(
        self, new_session: NewSession
    ) -> None:
        session = await new_session()
        leapt = after = 0

        def respond(request: Received) -> Answer:
            nonlocal leapt, after
            if is_summary_request(request):
                return reply(SUMMARY)
            if not session.records("prefire_end"):
                return reply(rows(100), call("list_variables"))
            leapt += 1
            if leapt == 1:
                return reply(rows(900), call("list_variables"))
            if session.records("compaction_end") or leapt == 30:
                after += 1
            return reply("Done.") if after else reply(call("list_variables"))

        session.api.respond = respond
        assert (await session.ask("Rows, very many.")).status == "ok"
        (end,) = session.records("compaction_end")
        assert isinstance(end, CompactionEnd)
        assert (end.path, end.trigger, end.request_tokens) == ("swap", "threshold", 0)
        first, *rolls = session.records("prefire_start")
        assert not is_rolled(first)
        assert rolls
        assert all(map(is_rolled, rolls))
        outcomes = {r.outcome for r in session.records("prefire_end") if isinstance(r, PrefireEnd)}
        assert outcomes == {"ok"}


def is_rolled(record: AnyRecord) -> bool:
    return isinstance(record, PrefireStart) and record.rolled


async def test_what_the_person_asks_for_is_not_swapped_for_a_note(new_session: NewSession) -> None:
    session = await new_session()
    session.api.respond = Model()
    await note_made(session)
    await session.service.compact(session.session, "Keep row 12.", "ada")
    end = await session.record("compaction_end")
    assert (end.outcome, end.path) == ("ok", "single_pass")
    assert "Keep row 12." in session.api.requests[-1].user_text


async def test_calls_and_their_results_stay_together_through_a_swap(
    new_session: NewSession,
) -> None:
    session = await new_session()
    code = "print('\\n'.join(f'row {i}: {i * 7919 % 10007}' for i in range(300)))"
    answers: list[Answer] = [
        reply("Running.", call("run_code", code=code), call("list_variables")) for _ in range(8)
    ]

    def respond(request: Received) -> Answer:
        if is_summary_request(request):
            return reply(SUMMARY)
        return answers.pop(0) if answers else reply("Done.")

    session.api.respond = respond
    end = await session.ask("Print rows, often.")
    assert end.status == "ok"
    paths = {r.path for r in session.records("compaction_end") if isinstance(r, CompactionEnd)}
    assert paths <= {"prune", "swap", "merge", "single_pass"}
    assert paths
    assert not session.records("error")
