"""Stop while the context is compacted: nothing is half done, and what was paid for is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from prime_ext.agent.session_model import SessionModel
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.session.records import CompactionEnd
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_compaction import SUMMARY, is_summary_request
from tests.agent.test_context_cases import SMALL, outputs_until
from tests.agent.test_prefire import (
    CONTEXT,
    Model,
    ask_until,
    background_done,
    compacted,
    note_made,
    rows,
)
from tests.messages_api.received import Received
from tests.messages_api.script import Answer, Failure, Fault, Reply, Text, call, reply

PAID = ("compaction_end", "prefire_end")
"""Records of what summaries have cost."""

Held = Callable[[type, str], asyncio.Event]


@pytest.fixture
def prime_config() -> dict[str, Any]:
    return {"ContextConfig": CONTEXT}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """``held(cls, name)``: that method waits for ever; the event says that it was called."""

    def hold(owner: type, name: str) -> asyncio.Event:
        reached = asyncio.Event()

        async def wait(*_arguments: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(owner, name, wait)
        return reached

    return hold


def summary_requests(session: Driver) -> list[Received]:
    return [r for r in session.api.requests if is_summary_request(r)]


def conversation(session: Driver) -> list[Received]:
    return [r for r in session.api.requests if not is_summary_request(r)]


async def ask_until_reached(session: Driver, reached: asyncio.Event) -> None:
    """Ask for rows until the turn stands still at ``reached``, and stop it there."""
    for number in range(20):
        after = session.session.log.last_seq
        await session.send(f"Rows, later part {number}.")
        ended = asyncio.create_task(session.record("turn_end", after=after))
        stands = asyncio.create_task(reached.wait())
        await asyncio.wait({ended, stands}, return_when=asyncio.FIRST_COMPLETED)
        stands.cancel()
        if reached.is_set():
            await session.stop()
            assert (await ended).status == "interrupted"
            return
        await background_done(session)
    raise AssertionError("It was not reached.")


async def stopped(session: Driver) -> CompactionEnd:
    """The one compaction so far, which was stopped."""
    (end,) = session.records("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert (end.outcome, end.tokens_after) == ("cancelled", end.tokens_before)
    return end


async def test_a_single_pass_in_a_turn(new_session: NewSession) -> None:
    session = await new_session()
    model = Model(Failure(400, "Not now."))
    session.api.respond = model
    await note_made(session)
    model.summary = Reply((Text(SUMMARY),), fault=Fault("pause", after=3))
    for number in range(20):
        after = session.session.log.last_seq
        await session.send(f"Rows, later part {number}.")
        frame = await session.frame(
            lambda f: (
                f["type"] == "record" and f["record"]["kind"] in ("compaction_start", "turn_end")
            ),
            after=after,
        )
        if frame["record"]["kind"] == "compaction_start":
            break
    await session.frame(lambda f: f["type"] == "progress" and "Summarising" in f["message"])
    before = conversation(session)[-1]
    await session.stop()
    await session.record("turn_end", status="interrupted")
    await stopped(session)
    model.summary = reply(SUMMARY)
    end = await session.ask("Again.")
    assert end.status == "ok"
    assert conversation(session)[-1].messages[0]["content"] != before.messages[0]["content"]
    done = session.records("compaction_end")[1]
    assert isinstance(done, CompactionEnd)
    assert (done.outcome, done.path) == ("ok", "single_pass")
    assert not session.records("error")


async def test_a_swap_before_it_is_done(
    new_session: NewSession, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await new_session()
    session.api.respond = Model()
    assert (await note_made(session)).outcome == "ok"
    await ask_until_reached(session, held(SnapshotKeeper, "capture"))
    await stopped(session)
    monkeypatch.undo()
    await session.ask("Again.")
    done = session.records("compaction_end")[1]
    assert isinstance(done, CompactionEnd)
    assert (done.outcome, done.path, done.request_tokens) == ("ok", "swap", 0)
    # No other note was made for it. The next one may be under way by now.
    assert len([start for start in session.records("prefire_start") if start.seq < done.seq]) == 1
    assert not session.records("error")


async def test_a_turn_while_its_note_is_being_made(new_session: NewSession) -> None:
    session = await new_session()
    model = Model(Reply((Text(SUMMARY),), fault=Fault("pause", after=3)))
    session.api.respond = model
    for number in range(20):
        await session.ask(f"Rows, part {number}.")
        if session.records("prefire_start"):
            break
    session.api.respond = lambda request: (
        model(request)
        if is_summary_request(request)
        else reply("Let me see.", fault=Fault("pause", after=4))
    )
    await session.send("And?")
    await session.frame(lambda f: f["type"] == "delta", after=session.session.log.last_seq)
    await session.stop()
    await session.record("turn_end", status="interrupted")
    session.api.respond = Model()
    session.api.resume()
    assert (await session.record("prefire_end")).outcome == "ok"
    assert (await compacted(session)).path == "swap"
    assert len(summary_requests(session)) == 1


async def test_a_note_being_made_ends_when_a_person_says_what_to_keep(
    new_session: NewSession,
) -> None:
    session = await new_session()
    model = Model(Reply((Text(SUMMARY),), fault=Fault("pause", after=3)))
    session.api.respond = model
    await ask_until(session, "prefire_start", patient=False)
    await session.requests(len(conversation(session)) + 1)
    model.summary = reply(SUMMARY)
    await session.idle()
    await session.service.compact(session.session, "Keep the numbers.", "ada")
    done = await session.record("compaction_end")
    assert (done.outcome, done.path) == ("ok", "single_pass")
    note = await session.record("prefire_end")
    # Before the summary was asked for, which replaces all that the note was about.
    assert (note.outcome, note.seq < done.seq) == ("cancelled", True)
    assert len(session.records("prefire_start")) == 1


@pytest.mark.parametrize("instructions", [None, "Keep the numbers."])
async def test_a_summary_that_was_made_serves_the_next_one(
    new_session: NewSession,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    instructions: str | None,
) -> None:
    session = await new_session()
    session.api.respond = Model()
    for number in range(3):
        await session.ask(f"Rows, part {number}.")
    reached = held(SnapshotKeeper, "check")
    await session.service.compact(session.session, instructions, "ada")
    await reached.wait()
    await session.stop()
    await session.record("compaction_end")
    end = await stopped(session)
    assert end.request_tokens > 0
    (paid,) = [r for r in session.records() if r.kind in PAID and r.cost_usd]  # type: ignore[union-attr]
    assert paid.kind == ("compaction_end" if instructions else "prefire_end")
    monkeypatch.undo()
    await session.idle()
    # Kept with the session, not in memory alone.
    await session.service.close_session(session.session)
    await session.service.compact(session.session, instructions, "ada")
    done = await session.record("compaction_end", outcome="ok")
    asked = len(summary_requests(session))
    if instructions is None:
        assert (done.path, done.request_tokens, asked) == ("swap", 0, 1)
        assert SUMMARY in done.summary
    else:
        assert (done.path, asked) == ("single_pass", 2)


async def test_a_server_that_stops_is_nobody_who_stopped_it(
    new_session: NewSession, held: Held
) -> None:
    session = await new_session()
    session.api.respond = Model()
    await session.ask("Rows.")
    await session.idle()
    reached = held(SnapshotKeeper, "check")
    await session.service.compact(session.session, None, "ada")
    await reached.wait()
    await session.service.close_session(session.session)
    assert (await stopped(session)).reason == "It was stopped before it finished."


class TestLeap:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": {**CONTEXT, "prefire_margin_tokens": 1_000}}

    async def test_a_note_that_is_waited_for(self, new_session: NewSession) -> None:
        session = await new_session()

        def respond(request: Received) -> Answer:
            if is_summary_request(request):
                return Reply((Text(SUMMARY),), fault=Fault("pause", after=3))
            many = 1_600 if len(session.api.requests) == 1 else 400
            return reply(rows(many), call("list_variables"))

        session.api.respond = respond
        await session.send("Rows, very many.")
        await session.record("compaction_start")
        await session.stop()
        await session.record("turn_end", status="interrupted")
        await stopped(session)
        session.api.respond = lambda _request: reply("Done.")
        session.api.resume()
        assert (await session.record("prefire_end")).outcome == "ok"
        await session.ask("Again.")
        done = session.records("compaction_end")[1]
        assert isinstance(done, CompactionEnd)
        assert (done.outcome, done.path, done.request_tokens) == ("ok", "swap", 0)
        assert len(summary_requests(session)) == 1


class TestPrune:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": SMALL}

    async def test_a_prune_is_whole_or_not_at_all(
        self, new_session: NewSession, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = await new_session()
        reached = held(SnapshotKeeper, "kernel_state")
        waiting = asyncio.create_task(outputs_until(session, "compaction_end"))
        await reached.wait()
        await session.stop()
        with pytest.raises(AssertionError):  # the turn did not end well
            await waiting
        await stopped(session)
        assert not session.records("prune")
        monkeypatch.undo()
        session.api.respond = lambda _request: reply("Done.")
        assert (await session.ask("Again.")).status == "ok"
        assert session.records("compaction_end")[1].path == "prune"  # type: ignore[union-attr]
        assert not session.records("error")


async def test_what_a_person_asked_for_before_it_began(new_session: NewSession, held: Held) -> None:
    session = await new_session()
    session.api.respond = Model()
    await session.ask("Rows.")
    reached = held(SessionModel, "frozen_next")
    asked = await session.service.compact(session.session, None, "ada")
    await reached.wait()
    await session.stop()
    end = await session.record("compaction_end")
    assert (end.compaction_id, end.outcome) == (asked["compaction_id"], "cancelled")
    assert not session.records("compaction_start")
