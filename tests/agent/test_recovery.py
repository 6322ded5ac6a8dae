"""When variables come back by themselves, when they are offered, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent import captures
from prime_ext.agent.kernel_events import (
    DIED_AGAIN,
    RESTORE_CUT_OFF,
    RESTORE_STOPPED,
    restore_event,
)
from prime_ext.agent.recipes import with_recipes
from prime_ext.agent.recovery import KernelRecovery
from prime_ext.agent.restore_policy import (
    LASTING_SECONDS,
    decide,
    is_cut_off,
    restores_in_a_row,
)
from prime_ext.agent.service import AgentService
from prime_ext.kernel.missed_runs import Run
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    Interrupt,
    Restore,
    RestoreStart,
    Snapshot,
)
from prime_ext.state import verification
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.kernel.conftest import until
from tests.kernel.held_up import HeldUp
from tests.kernel.test_restoring import BOMB
from tests.messages_api.script import call, reply


async def ran(session: Driver, code: str) -> str:
    """Have the agent run ``code``; what the model was answered."""
    session.api.enqueue(reply(call("run_code", code=code)), reply("Done."))
    await session.ask("Run it.")
    return str(session.api.requests[-1].tool_result_text)


async def saved(session: Driver, code: str) -> Snapshot:
    after = session.session.log.last_seq
    await ran(session, code)
    record = await session.record("snapshot", after=after, outcome="ok")
    assert isinstance(record, Snapshot)
    return record


async def kernel_id(jp_serverapp: ServerApp, notebook: str) -> str:
    model = await jp_serverapp.session_manager.get_session(path=notebook)
    return str(model["kernel"]["id"])


async def kill(jp_serverapp: ServerApp, notebook: str) -> None:
    manager: Any = jp_serverapp.kernel_manager.get_kernel(await kernel_id(jp_serverapp, notebook))
    await manager.signal_kernel(9)


@pytest.mark.parametrize(
    ("mode", "crash", "others"),
    [
        ("auto", "restore", "offer"),
        ("always", "restore", "restore"),
        ("ask", "offer", "offer"),
        ("never", "leave", "leave"),
    ],
)
def test_the_setting(mode: str, crash: str, others: str) -> None:
    assert decide(mode, "crash") == crash
    assert {decide(mode, t) for t in ("restart", "shutdown", "resume")} == {others}


LOST = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)


def ago(record: AnyRecord, seconds: float) -> AnyRecord:
    """The record as it is if it was written so many seconds before the loss."""
    then = LOST - timedelta(seconds=seconds)
    ts = then.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.structs.replace(record, ts=ts)


def restore(outcome: str, trigger: str, reason: str | None = None) -> Restore:
    return Restore(outcome=outcome, mode="cold", trigger=trigger, reason=reason)


START = RestoreStart(trigger="crash", turn="t", consecutive=2)
DONE = ago(restore("ok", "crash"), 12)
STOPPED = ago(restore("offered", "crash", RESTORE_STOPPED), 12)
DIED = ago(restore("offered", "crash", DIED_AGAIN), 12)
CUT_OFF = ago(restore("offered", "resume", RESTORE_CUT_OFF), 12)
CHECK = ago(Restore(outcome="skipped", mode="hot", trigger="compaction"), 1)
SAVED = Snapshot(outcome="ok", trigger="turn")
FAILED = Snapshot(outcome="failed", trigger="turn")


def interrupt(turn: str, user: str | None) -> Interrupt:
    return Interrupt(phase="tool", turn=turn, user=user)


@pytest.mark.parametrize(
    ("later", "crash", "resume"),
    [
        # Complete, and the kernel died soon after. A save is made of each fresh process, whether
        # or not code has run in it.
        ([DONE], 2, 1),
        ([DONE, SAVED, CHECK], 2, 1),
        ([ago(restore("failed", "crash"), 12)], 2, 1),
        ([ago(DONE, LASTING_SECONDS - 1)], 2, 1),
        ([ago(DONE, LASTING_SECONDS)], 0, 0),
        # The offer in its place tells how long it lived, however long ago that was.
        ([ago(DONE, 4012), ago(DIED, 4000)], 2, 1),
        ([ago(DONE, 4000 + LASTING_SECONDS), ago(DIED, 4000)], 0, 0),
        # A person has acted.
        ([DONE, ago(restore("ok", "manual"), 5)], 0, 0),
        ([DONE, ago(restore("offered", "restart"), 5)], 0, 0),
        ([DONE, ago(restore("offered", "shutdown"), 5)], 0, 0),
        ([STOPPED, interrupt("t", "ada")], 0, 0),
        # Cut off by the end of the server, or of the session.
        ([], 2, 2),
        ([CHECK, FAILED], 2, 2),
        ([STOPPED], 2, 2),
        ([STOPPED, interrupt("t", None)], 2, 2),
        ([STOPPED, interrupt("u", "ada")], 2, 2),
        ([SAVED], 0, 0),
        # Offered instead, which the person has not taken.
        ([ago(CUT_OFF, 4000)], 2, 2),
        # They have worked on without it.
        ([ago(CUT_OFF, 4000), SAVED], 0, 0),
    ],
)
def test_restores_that_did_not_last_are_counted(
    later: list[AnyRecord], crash: int, resume: int
) -> None:
    def count(trigger: str, has_run: bool = False) -> int:
        return restores_in_a_row(START, later, trigger=trigger, lost_at=LOST, has_run=has_run)

    assert (count("crash"), count("resume")) == (crash, resume)
    assert count("crash", has_run=True) == 0
    assert count("restart") == count("shutdown") == 0


@pytest.mark.parametrize(
    ("later", "cut_off"),
    [
        ([], True),
        ([CHECK, FAILED], True),
        ([STOPPED], True),
        ([STOPPED, interrupt("t", None)], True),
        ([STOPPED, interrupt("t", "ada")], False),
        ([STOPPED, interrupt("u", "ada")], True),
        ([SAVED], False),
        ([DONE], False),
        ([CUT_OFF], False),
    ],
)
def test_a_restore_that_ended_with_its_server_is_known(
    later: list[AnyRecord], cut_off: bool
) -> None:
    assert is_cut_off(START, later) == cut_off


def test_after_two_restores_that_did_not_last_a_person_is_asked() -> None:
    for mode, trigger in (("auto", "crash"), ("always", "crash"), ("always", "resume")):
        assert [decide(mode, trigger, n) for n in range(4)] == ["restore"] * 2 + ["offer"] * 2
    assert decide("never", "crash", 2) == "leave"


async def test_asked_after_a_crash_if_a_person_wants_it_so(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session(restore="ask")
    await saved(session, "x = 7")
    await kill(jp_serverapp, notebook)
    offer = await session.record("restore")
    assert (offer.outcome, offer.trigger) == ("offered", "crash")
    assert "NameError" in await ran(session, "print(x)")
    await service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert "7" in await ran(session, "print(x)")


async def compacted(session: Driver, service: AgentService) -> CompactionEnd:
    """Compact a session that is worth it, and return the record of the end."""
    session.api.enqueue(reply("It could be said at length. " * 500))
    await session.ask("Say more.")
    after = session.session.log.last_seq
    session.api.enqueue(reply("<decisions>x is needed.</decisions>"))
    await service.compact(session.session, "Keep x.", "ada")
    record = await session.record("compaction_end", after=after)
    assert isinstance(record, CompactionEnd)
    assert record.outcome == "ok", record.reason
    return record


@pytest.mark.parametrize("restore", ["ask", "never"])
async def test_nothing_is_called_preserved_while_a_fresh_kernel_lacks_it(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    restore: str,
) -> None:
    session = await new_session(restore=restore)
    saved_before = await saved(session, "x, y, mine = 7, 8, 9")
    await kill(jp_serverapp, notebook)
    await session.record("restore")
    # A snapshot of the fresh kernel is current, and holds none of the three.
    await ran(session, "mine = 10")
    await (await service.agent(session.session)).variables.snapshot(None)
    end = await compacted(session, service)
    assert (end.kernel_state["status"], end.kernel_state["unrestored"]) == ("current", 2)
    assert end.summary is not None
    assert "2 variables of the former one are not restored" in end.summary
    assert "Nothing has to be run again" not in end.summary
    # What is set again, or restored, is there.
    await ran(session, "y = 8")
    await (await service.agent(session.session)).variables.snapshot(None)
    assert (await compacted(session, service)).kernel_state["unrestored"] == 1
    assert saved_before.snapshot_id is not None
    await service.restore(session.session, saved_before.snapshot_id, None, False, "ada")
    end = await compacted(session, service)
    assert end.kernel_state["status"] == "current"
    assert "unrestored" not in end.kernel_state


@contextlib.asynccontextmanager
async def person(jp_serverapp: ServerApp, notebook: str) -> AsyncIterator[Any]:
    """A client of the notebook's kernel, as a page of JupyterLab has one."""
    manager: Any = jp_serverapp.kernel_manager.get_kernel(await kernel_id(jp_serverapp, notebook))
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        yield client
    finally:
        client.stop_channels()


async def die(session: Driver, jp_serverapp: ServerApp, notebook: str) -> Restore:
    """Let the kernel die while no code runs, and return the record of what was done about it."""
    after = session.session.log.last_seq
    await kill(jp_serverapp, notebook)
    record = await session.record("restore", after=after, trigger="crash")
    assert isinstance(record, Restore)
    return record


async def test_at_the_third_death_in_a_row_a_person_is_asked_and_the_model_knows(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    snapshot = await saved(session, "x = 7")
    assert snapshot.snapshot_id is not None
    assert [(await die(session, jp_serverapp, notebook)).outcome for _ in range(2)] == ["ok"] * 2
    # The row is in the records.
    await service.close_session(session.session)
    agent = await service.agent(session.session)
    offer = await die(session, jp_serverapp, notebook)
    assert (offer.outcome, offer.snapshot_id) == ("offered", snapshot.snapshot_id)
    assert offer.reason == DIED_AGAIN
    assert "False" in await ran(session, "print('x' in dir())")
    told = str(session.api.requests[-1].messages)
    assert f"({DIED_AGAIN}). The user is offered to restore the last snapshot" in told
    # A person who wants it all the same gets it, and the count begins anew.
    await service.restore(session.session, snapshot.snapshot_id, None, False, "ada")
    await agent.variables.snapshot(None)
    assert (await die(session, jp_serverapp, notebook)).outcome == "ok"
    starts = [r.consecutive for r in session.records("restore_start")]  # type: ignore[union-attr]
    assert starts == [1, 2, 1]


async def test_a_cell_that_crashes_again_and_again_with_nothing_in_between(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    answers = [await ran(session, "import os; os._exit(1)") for _ in range(3)]
    assert "restored from the last snapshot" in answers[0]
    assert "restored from the last snapshot" in answers[1]
    assert DIED_AGAIN in answers[2]
    outcomes = [r.outcome for r in session.records("restore")]  # type: ignore[union-attr]
    assert outcomes == ["ok", "ok", "offered"]


@pytest.mark.parametrize("by_agent", [True, False], ids=["by the agent", "by a person"])
async def test_a_run_that_ends_between_two_crashes_begins_a_new_row(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str, by_agent: bool
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    agent = await session.service.agent(session.session)
    for _ in range(4):
        crashed = await ran(session, "import os; os._exit(1)")
        assert "restored from the last snapshot" in crashed
        if by_agent:
            assert "7" in await ran(session, "print(x)")
            continue
        async with person(jp_serverapp, notebook) as client:
            await client.execute_interactive("y = x", timeout=60, output_hook=print)
        # The person's client may have heard of the end before the server has.
        await until(lambda: agent.kernel.state == "idle")


async def test_what_ran_after_the_last_snapshot_is_told_after_a_crash(
    new_session: NewSession,
    jp_serverapp: ServerApp,
    notebook: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(captures, "SETTLED_SECONDS", 3600)
    session = await new_session()
    await saved(session, "a = 1; b = 2")
    agent = await session.service.agent(session.session)
    connection = agent.kernel._connection
    assert connection is not None
    heard = asyncio.Event()

    def hear(run: Run) -> None:
        if "It goes." in run.code:
            heard.set()

    connection.on_run.append(hear)
    async with person(jp_serverapp, notebook) as client:
        await client.execute_interactive("b = 77\nlate = 1", timeout=60, output_hook=print)
        code = "print('It goes.', flush=True); import time; time.sleep(600)"
        running = asyncio.create_task(client.execute_interactive(code, output_hook=print))
        # The person's client hears of it apart from the server, and what the server has not heard
        # when the process ends it cannot tell.
        await asyncio.wait_for(heard.wait(), 60)
        await kill(jp_serverapp, notebook)
        restored = await session.record("restore")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    (entry, *_) = await session.service.snapshots(session.session)
    assert restored.outcome == "ok"
    assert restored.behind["as_of"] == entry["created"]
    assert restored.behind["runs"] == 2
    assert restored.behind["code"][0] == "b = 77 …"
    assert restored.behind["cut_off"]
    answer = await ran(session, "print(b)")
    told = str(session.api.requests[-1].messages)
    assert "2" in answer
    assert f"as they were at {entry['created'][:19].replace('T', ' ')} UTC; what ran after" in told
    assert "is not in it (2 runs): `b = 77 …`, `print(" in told
    assert "time.sleep(600)` (the code that ran when it died). Names set or changed since" in told
    # It is told once: what is live now is what the snapshot holds.
    await agent.variables.snapshot(None)
    await kill(jp_serverapp, notebook)
    again = await session.record("restore", after=restored.seq)
    assert again.behind == {}


@pytest.mark.parametrize("code", ["x", "y = 8"], ids=["changes nothing", "is saved"])
async def test_nothing_is_told_to_be_missing_where_all_was_saved(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    code: str,
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    agent = await session.service.agent(session.session)
    async with person(jp_serverapp, notebook) as client:
        await client.execute_interactive(code, timeout=60, output_hook=print)
        await agent.kernel.follow()
        # The person's client may have heard of the end before the server has.
        await until(lambda: agent.kernel.state == "idle")
        await agent.variables.snapshot(None)
        await kill(jp_serverapp, notebook)
        restored = await session.record("restore")
    assert restored.outcome == "ok"
    assert restored.behind == {}


async def test_an_offer_says_what_ran_after_the_snapshot(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(captures, "SETTLED_SECONDS", 3600)
    session = await new_session()
    await saved(session, "x = 7")
    async with person(jp_serverapp, notebook) as client:
        await client.execute_interactive("x = 8", timeout=60, output_hook=print)
        await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
        offer = await session.record("restore")
    assert (offer.outcome, offer.behind["code"]) == ("offered", ["x = 8"])
    assert "cut_off" not in offer.behind
    # What is run in the fresh process is saved, and no loss.
    await saved(session, "fresh = 1")
    await service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert "7 1" in await ran(session, "print(x, fresh)")
    told = str(session.api.requests[-1].messages)
    assert "snapshot that the user was offered" in told
    assert "what ran after that is not in it (1 run): `x = 8`." in told


async def test_never_leaves_the_fresh_kernel_and_says_so(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    await service.update(session.session, restore="never", user="ada")
    await saved(session, "x = 7")
    await kill(jp_serverapp, notebook)
    left = await session.record("restore")
    assert left.outcome == "skipped"
    assert "NameError" in await ran(session, "print(x)")
    assert "None of the earlier variables is defined" in str(session.api.requests[-1].messages)
    # A person can still have it.
    (entry, *_) = await service.snapshots(session.session)
    done = await service.restore(session.session, entry["id"], ["x"], False, "ada")
    assert done["names"]["x"]["action"] == "loaded"


async def test_what_was_left_out_is_loaded_for_who_asks_at_the_price_of_a_kernel_at_most(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    tmp_path: Path,
) -> None:
    session = await new_session()
    flag = tmp_path / "flag"
    flag.touch()
    await saved(
        session, BOMB.format(flag=str(flag), effect="os._exit(1)") + "bomb = Bomb(7); x = 7"
    )
    found = verification.path(session.session.folder)
    await until(lambda: found.exists() and any(json.loads(found.read_text())["results"].values()))
    after = session.session.log.last_seq
    await kill(jp_serverapp, notebook)
    restored = await session.record("restore", after=after)
    assert restored.names["bomb"]["left_out"] == "ended"

    async def ask() -> dict[str, Any]:
        at = restored.snapshot_id
        done: dict[str, Any] = await service.restore(session.session, at, ["bomb"], False, "ada")
        return done

    # What it ends with the kernel comes back by itself, as after any crash.
    ended = await ask()
    assert ended["asked"] == ["bomb"]
    assert ended["names"]["bomb"]["action"] == "none"
    await session.record("restore", after=restored.seq, trigger="crash")
    assert "7" in await ran(session, "print(x)")
    flag.unlink()
    assert (await ask())["outcome"] == "ok"
    assert "7 7" in await ran(session, "print(bomb.number, x)")
    told = str(session.api.requests[-1].messages)
    assert "The user asked for these variables of" in told
    assert "nothing else was touched. Live again: bomb." in told


async def test_the_first_snapshot_of_all_is_waited_for(
    new_session: NewSession,
    jp_serverapp: ServerApp,
    notebook: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel dies while it is written: there is nothing to restore yet, and will be."""
    session = await new_session()
    held_up = HeldUp(tmp_path, monkeypatch)
    await ran(session, f"{held_up.code}\nx = 7")
    await held_up.reached()
    await kill(jp_serverapp, notebook)
    restored = await session.record("restore")
    assert (restored.outcome, restored.trigger) == ("ok", "crash")
    assert "7" in await ran(session, "print(x)")


@pytest.mark.parametrize("reopened", [False, True], ids=["no kernel yet", "a page's own kernel"])
async def test_a_snapshot_that_a_killed_server_did_not_record_is_offered(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str, reopened: bool
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    await session.service.close_session(session.session)
    model = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.session_manager.delete_session(model["id"])
    # As it is if the server dies while its kernel's process goes on writing.
    file = session.session.folder / "session.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if json.loads(line)["kind"] == "snapshot")
    jp_serverapp.web_app.settings["prime_sessions"].close()
    file.write_text("".join(lines[:cut]))
    if reopened:
        await jp_serverapp.session_manager.create_session(
            path=notebook, name=notebook, type="notebook", kernel_name="python3"
        )

    again = session.service
    await again.agent(jp_serverapp.web_app.settings["prime_sessions"].get(session.session.id))
    (offer,) = [
        record
        for line in file.read_text().splitlines()
        if (record := json.loads(line))["kind"] == "restore"
    ]
    assert (offer["outcome"], offer["trigger"]) == ("offered", "resume")


async def test_nothing_is_offered_where_nothing_was_saved(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    snapshot = await saved(session, "1 + 1")
    await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
    agent = await service.agent(session.session)
    await until(lambda: agent.kernel.loss is not None and not agent.variables.recovery.is_pending)
    assert session.records("restore") == []
    assert snapshot.snapshot_id is not None
    done = await service.restore(session.session, snapshot.snapshot_id, None, False, "ada")
    assert (done["outcome"], done["empty"]) == ("unchanged", True)
    snapshot = await saved(session, "x = 7")
    assert snapshot.snapshot_id is not None
    done = await service.restore(session.session, snapshot.snapshot_id, None, False, "ada")
    assert (done["outcome"], "empty" in done) == ("unchanged", False)


async def restarted(session: Driver, jp_serverapp: ServerApp, notebook: str) -> Restore:
    """Restart the kernel as a person does; the offer that follows."""
    after = session.session.log.last_seq
    await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
    offer = await session.record("restore", after=after)
    assert isinstance(offer, Restore)
    return offer


@pytest.mark.parametrize("mode", ["auto", "always"])
async def test_behind_empty_snapshots_the_last_variables_are_offered(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    mode: str,
) -> None:
    session = await new_session(restore="ask")
    full = await saved(session, "x = 7")
    created = (await service.snapshots(session.session))[0]["created"]
    assert (await restarted(session, jp_serverapp, notebook)).saved is None
    await service.update(session.session, restore=mode, user="ada")
    # More empty processes than there are states kept of former ones.
    for _ in range(6):
        assert (await saved(session, "1 + 1")).names == {}
        offer = await restarted(session, jp_serverapp, notebook)
        assert (offer.outcome, offer.trigger) == ("offered", "restart")
        assert (offer.snapshot_id, offer.saved) == (full.snapshot_id, created)
    assert offer.snapshot_id is not None
    assert "NameError" in await ran(session, "print(x)")
    told = str(session.api.requests[-1].messages)
    assert f"offered to restore an older snapshot, saved {created}, the last one with" in told
    done = await service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert done["outcome"] == "ok"
    assert "7" in await ran(session, "print(x)")


async def test_a_crash_of_an_emptied_kernel_only_offers_what_was_there_before(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    full = await saved(session, "x = 7")
    await saved(session, "del x")
    await kill(jp_serverapp, notebook)
    offer = await session.record("restore")
    assert (offer.outcome, offer.trigger) == ("offered", "crash")
    assert (offer.snapshot_id, bool(offer.saved)) == (full.snapshot_id, True)


async def test_always_after_a_restart_by_a_person(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session(restore="always")
    await saved(session, "x = 7")
    await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
    restored = await session.record("restore")
    assert (restored.outcome, restored.trigger) == ("ok", "restart")
    assert "7" in await ran(session, "print(x)")


async def test_always_when_the_notebook_gets_another_kernel(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session(restore="always")
    await saved(session, "x = 7")
    model = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.session_manager.delete_session(model["id"])
    # As JupyterLab does when the notebook is opened again.
    await jp_serverapp.session_manager.create_session(
        path=notebook, name=notebook, type="notebook", kernel_name="python3"
    )
    restored = await session.record("restore")
    assert (restored.outcome, restored.trigger) == ("ok", "shutdown")
    assert "7" in await ran(session, "print(x)")


async def test_always_starts_the_kernel_for_the_agents_own_code(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session(restore="always")
    await saved(session, "x = 7")
    await service.close_session(session.session)
    model = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.session_manager.delete_session(model["id"])
    await service.agent(session.session)
    assert session.records("restore") == []
    answer = await ran(session, "print(x)")
    assert "7" in answer
    assert "Live again: x" in answer
    (restored,) = session.records("restore")
    assert isinstance(restored, Restore)
    assert (restored.outcome, restored.trigger) == ("ok", "resume")


class TestCulling:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {
            "AsyncMappingKernelManager": {
                "cull_idle_timeout": 2,
                "cull_interval": 1,
                "cull_connected": True,
            }
        }

    async def test_a_culled_kernel_is_offered_once_and_following_it_does_not_keep_it_alive(
        self, new_session: NewSession, service: AgentService, jp_serverapp: ServerApp
    ) -> None:
        session = await new_session()
        await saved(session, "x = 7")
        offer = await session.record("restore")
        assert (offer.outcome, offer.trigger) == ("offered", "shutdown")
        assert list(jp_serverapp.kernel_manager.list_kernel_ids()) == []
        answer = await ran(session, "print('x' in globals())")
        assert "False" in answer
        assert "has not done so yet" in str(session.api.requests[-1].messages)
        assert len(session.records("restore")) == 1
        done = await service.restore(session.session, offer.snapshot_id, None, False, "ada")
        assert done["outcome"] == "ok"


async def test_snapshots_are_listed_without_opening_the_agent(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    before = await service.snapshots(session.session)
    await session.idle()
    await service.close_session(session.session)
    records = len(session.session.log)
    listed = await service.snapshots(session.session)
    assert [entry["id"] for entry in listed] == [entry["id"] for entry in before] != []
    assert len(session.session.log) == records
    assert "state" not in service.describe(session.session), "the agent was opened"


async def test_saved_before_the_kernel_is_shut_down(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str, tmp_path: Path
) -> None:
    session = await new_session()
    code = (
        "import pathlib, threading, time\nlate = []\n"
        f"def wait(folder=pathlib.Path({str(tmp_path)!r})):\n"
        "    while not (folder / 'go').exists(): time.sleep(0.01)\n"
        "    late.append(1)\n    (folder / 'gone').touch()\n"
        "threading.Thread(target=wait, daemon=True).start()"
    )
    await saved(session, code)
    (tmp_path / "go").touch()
    while not (tmp_path / "gone").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    model = await jp_serverapp.session_manager.get_session(path=notebook)
    await jp_serverapp.session_manager.delete_session(model["id"])
    last = session.records("snapshot")[-1]
    assert isinstance(last, Snapshot)
    assert (last.trigger, last.outcome) == ("shutdown", "ok")
    offer = await session.record("restore")
    assert offer.snapshot_id == last.snapshot_id


async def test_the_server_ends_though_a_kernel_dies_at_that_moment(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    await saved(session, "x = 1")
    manager: Any = jp_serverapp.kernel_manager.get_kernel(await kernel_id(jp_serverapp, notebook))
    await kill(jp_serverapp, notebook)
    await jp_serverapp.cleanup_extensions()
    await jp_serverapp.cleanup_kernels()
    assert not await manager.is_alive()


async def test_what_people_run_is_saved_though_nobody_watches(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    other = await new_session()
    session = await new_session()
    # The kernel comes later, and not through us.
    model = await jp_serverapp.session_manager.create_session(
        path=notebook, name=notebook, type="notebook", kernel_name="python3"
    )
    manager: Any = jp_serverapp.kernel_manager.get_kernel(model["kernel"]["id"])
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        agent = await service.agent(session.session)
        await agent.kernel.follow()
        client.execute("mine = 7")
        snapshot = await session.record("snapshot", outcome="ok")
    finally:
        client.stop_channels()
    assert "mine" in snapshot.names
    # One session saves, not each that there is.
    assert other.records("snapshot") == []


async def test_what_is_typed_during_a_restore_is_sent_behind_it(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str, tmp_path: Path
) -> None:
    session = await new_session()
    gate = tmp_path / "gate"
    code = (
        "class Slow:\n    def __reduce__(self): return (slow, ())\n"
        f"def slow(path={str(gate)!r}):\n"
        "    import os, time\n"
        "    while os.path.exists(path): time.sleep(0.01)\n"
        "    return object.__new__(type('Slow', (), {}))\n"
        "slowly = Slow(); x = 7"
    )
    await saved(session, code)
    gate.touch()
    watching = asyncio.ensure_future(
        session.frame(lambda f: f["type"] == "progress" and f.get("what") == "kernel")
    )
    await kill(jp_serverapp, notebook)
    await watching
    session.api.enqueue(reply(call("run_code", code="print(x)")), reply("Seven."))
    _, queued = await session.send("Is it there?")
    assert queued
    gate.unlink()
    end = await session.record(
        "turn_end",
        after=session.records("restore")[-1:][0].seq
        if session.records("restore")
        else session.session.log.last_seq,
    )
    assert end.status == "ok"
    kinds = [k for k in session.kinds() if k in ("restore", "queued", "unqueued", "user_message")]
    assert kinds[-4:] == ["queued", "restore", "unqueued", "user_message"]
    assert "kernel-event" in str(session.api.requests[-1].messages)
    assert "7" in session.api.requests[-1].tool_result_text


async def test_a_restore_that_is_stopped_is_offered_and_the_model_knows(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str, tmp_path: Path
) -> None:
    session = await new_session()
    gate = tmp_path / "gate"
    code = (
        "class Slow:\n    def __reduce__(self): return (slow, ())\n"
        f"def slow(path={str(gate)!r}):\n"
        "    import os, time\n"
        "    while os.path.exists(path): time.sleep(0.01)\n"
        "    return object.__new__(type('Slow', (), {}))\n"
        "slowly = Slow(); x = 7"
    )
    snapshot = await saved(session, code)
    gate.touch()
    restoring = asyncio.ensure_future(
        session.frame(lambda f: f["type"] == "progress" and f.get("what") == "kernel")
    )
    after = session.session.log.last_seq
    session.api.enqueue(reply(call("run_code", code="import os; os._exit(1)")))
    await session.send("Run it.")
    await restoring
    await session.stop()
    offer = await session.record("restore", after=after)
    assert (offer.outcome, offer.trigger) == ("offered", "crash")
    assert offer.snapshot_id == snapshot.snapshot_id
    await session.record("turn_end", after=after, status="interrupted")
    await session.idle()
    # The kernel does not go on with the loading, which would last as long as the gate is there.
    assert "True" in await ran(session, "print('x' not in dir())")
    told = str(session.api.requests[-1].messages)
    assert "was stopped: check which are defined" in told
    gate.unlink()
    await session.service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert "7" in await ran(session, "print(x)")


async def test_a_missing_name_comes_with_the_code_that_made_it(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str, tmp_path: Path
) -> None:
    session = await new_session()
    flag = tmp_path / "flag"
    code = (
        "class Fragile:\n    def __reduce__(self): return (fragile, ())\n"
        f"def fragile(path={str(flag)!r}):\n"
        "    import os\n"
        "    if os.path.exists(path): raise OSError('the cable was pulled')\n"
        "    return 1\n"
        "probe = Fragile(); x = 7"
    )
    await saved(session, code)
    flag.touch()
    await kill(jp_serverapp, notebook)
    restored = await session.record("restore")
    assert restored.outcome == "partial"
    entry = restored.names["probe"]
    assert "the cable was pulled" in entry["reason"]
    assert "probe = Fragile()" in entry["recipe"]["source"]
    session.api.enqueue(reply("I see."))
    await session.ask("What happened?")
    told = str(session.api.requests[-1].messages[-1])
    assert "the cable was pulled" in told
    assert "probe = Fragile()" in told
    assert "Live again" in told


def test_recipes_come_from_cells_before_what_the_agent_ran() -> None:
    record = Restore(
        outcome="partial",
        mode="cold",
        trigger="crash",
        names={
            "a": {"status": "skipped", "action": "none"},
            "b": {"status": "degraded", "action": "loaded", "type": "Thing"},
            "c": {"status": "verified", "action": "loaded"},
            "d": {"status": "skipped", "action": "kept"},
        },
    )
    ran = AssistantMessage(
        model="m",
        content=[
            {"type": "tool_use", "id": "1", "name": "run_code", "input": {"code": "a = 1; b = 1"}}
        ],
    )
    found = with_recipes(record, ["a = 2", "%time a = 3\nc = 1", "def f(:"], [ran])
    assert found.names["a"]["recipe"]["source"] == "a = 2"
    assert found.names["b"]["recipe"] == {"type": "Thing", "source": "a = 1; b = 1"}
    assert "recipe" not in found.names["c"]
    assert "recipe" not in found.names["d"]


def test_the_model_is_told_what_is_live_what_a_placeholder_and_what_missing() -> None:
    names: dict[str, dict[str, Any]] = {
        "frame": {"status": "verified", "action": "loaded"},
        "mine": {"status": "verified", "action": "kept", "reason": "it was changed since"},
        "stream": {"status": "degraded", "action": "loaded", "reason": "generator"},
        "socket": {
            "status": "skipped",
            "action": "none",
            "reason": "cannot be saved",
            "recipe": {"source": "socket = connect()"},
        },
    }
    text = restore_event(Restore(outcome="partial", mode="cold", trigger="crash", names=names))
    assert text.startswith("The kernel died and was started anew.")
    assert "Live again: frame." in text
    assert "set since: mine." in text
    assert "placeholder that raises when used: stream (generator)." in text
    assert "do not use: socket (cannot be saved)." in text
    assert "socket = connect()" in text
    unchanged = Restore(outcome="unchanged", mode="hot", trigger="compaction")
    assert restore_event(unchanged) == ""


def test_the_model_is_told_what_ran_after_the_snapshot() -> None:
    behind = {"as_of": "2026-11-30T12:00:03.000+00:00", "runs": 12, "code": ["a = 1", "b = 2"]}
    record = Restore(outcome="ok", mode="cold", trigger="crash", behind=behind)
    told = (
        "They are as they were at 2026-11-30 12:00:03 UTC; what ran after that is not in it "
        "(12 runs, the last 2 of them): `a = 1`, `b = 2`. Names set or changed since have to be "
        "made again."
    )
    assert told in restore_event(record)
    # Nothing had to be loaded; what is lost is lost all the same.
    assert told in restore_event(msgspec.structs.replace(record, outcome="unchanged"))
    assert "ran" not in restore_event(msgspec.structs.replace(record, behind={}))
    older = msgspec.structs.replace(record, saved="2026-11-30T12:00:03.000+00:00")
    assert "what was done since is lost" in restore_event(older)
    assert told not in restore_event(older)
    cut_off = msgspec.structs.replace(record, behind={**behind, "cut_off": True})
    assert "`b = 2` (the code that ran when it died)." in restore_event(cut_off)


def damage(head: Path) -> None:
    content = bytearray(head.read_bytes())
    content[30] ^= 4
    head.unlink()
    head.write_bytes(content)


async def test_the_model_is_told_that_an_older_snapshot_was_restored_and_what_it_lacks(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    older = await saved(session, "k = 1")
    await saved(session, "k = 2; late = k * 3")
    damage(session.session.folder / "kernel-state.dill")
    await kill(jp_serverapp, notebook)
    restored = await session.record("restore")
    assert (restored.outcome, restored.snapshot_id) == ("partial", older.snapshot_id)
    assert restored.names["late"]["status"] == "skipped"
    answer = await ran(session, "print(k)")
    told = str(session.api.requests[-1].messages)
    assert "1" in answer
    assert f"from an older snapshot, saved {restored.saved}" in told
    assert "the newest snapshot was altered after it was saved" in told
    assert "do not use: late (set later)" in told
    assert "late = k * 3" in told
    assert "from the last snapshot" not in told


async def test_an_offer_that_is_taken_late_is_not_told_as_an_older_state(
    new_session: NewSession, service: AgentService, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
    offer = await session.record("restore")
    # What is run meanwhile is saved as well: there is a newer snapshot than the one offered.
    await saved(session, "fresh = 1")
    await service.restore(session.session, offer.snapshot_id, None, False, "ada")
    assert "7 1" in await ran(session, "print(x, fresh)")
    told = str(session.api.requests[-1].messages)
    assert "from the snapshot that the user was offered" in told
    assert "is lost" not in told
    assert "Live again: x." in told


async def test_with_both_snapshots_damaged_each_name_is_told_and_how_it_was_made(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    await saved(session, "good = list(range(3))")
    await saved(session, "k = 2")
    folder = session.session.folder
    damage(folder / "kernel-state.dill")
    damage(folder / "kernel-state.d" / "previous.dill")
    await kill(jp_serverapp, notebook)
    restored = await session.record("restore")
    assert restored.outcome == "failed"
    assert restored.names["good"]["recipe"]["source"] == "good = list(range(3))"
    assert restored.names["k"]["status"] == "skipped"
    session.api.enqueue(reply("I see."))
    await session.ask("What happened?")
    told = str(session.api.requests[-1].messages[-1])
    assert "neither the newest snapshot nor the one before it can be loaded)" in told
    assert "They were: good, k." in told
    assert "good = list(range(3))" in told
    assert "import" not in told


@pytest.mark.parametrize("told_before", [False, True])
async def test_an_offer_is_taken_back_when_saving_is_switched_off(
    new_session: NewSession,
    service: AgentService,
    jp_serverapp: ServerApp,
    notebook: str,
    told_before: bool,
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    await jp_serverapp.kernel_manager.restart_kernel(await kernel_id(jp_serverapp, notebook))
    offer = await session.record("restore")
    assert offer.outcome == "offered"
    if told_before:
        session.api.enqueue(reply("I see."))
        await session.ask("What now?")
        assert "has not done so yet" in str(session.api.requests[-1].messages[-1])
    await service.update(session.session, snapshots=False, user="ada")
    session.api.enqueue(reply("I see."))
    await session.ask("And now?")
    told = str(session.api.requests[-1].messages[-1])
    assert "has not done so yet" not in told
    assert "the user has switched saving off for this notebook" in told


async def test_a_message_on_the_heels_of_a_death_finds_the_variables(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    agent = await session.service.agent(session.session)
    noticed = asyncio.Event()
    before = agent.kernel.generation

    def changed(_state: str) -> None:
        if agent.kernel.generation != before:
            noticed.set()

    agent.kernel.on_state.append(changed)
    await kill(jp_serverapp, notebook)
    await asyncio.wait_for(noticed.wait(), 60)
    agent.kernel.on_state.remove(changed)
    assert "7" in await ran(session, "print(x)")
    assert [r.outcome for r in session.records("restore")] == ["ok"]  # type: ignore[union-attr]


async def test_a_snapshot_that_falls_due_at_a_death_does_not_save_the_empty_process(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    session = await new_session()
    first = await saved(session, "x = 7")
    agent = await session.service.agent(session.session)
    noticed = asyncio.Event()
    agent.kernel.on_state.append(lambda _: noticed.set())
    await kill(jp_serverapp, notebook)
    await asyncio.wait_for(noticed.wait(), 60)
    due = await agent.variables.snapshot(None)
    assert isinstance(due, Snapshot)
    assert due.outcome == "skipped"
    restored = await session.record("restore")
    assert (restored.outcome, restored.snapshot_id) == ("ok", first.snapshot_id)
    assert "7" in await ran(session, "print(x)")


async def test_a_snapshot_that_was_put_off_is_made_once_the_loss_is_seen_to(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "SETTLED_SECONDS", 0.01)
    answers = iter([True, True, True])
    pending = property(lambda _: next(answers, False))
    monkeypatch.setattr(KernelRecovery, "is_pending", pending)
    session = await new_session()
    snapshot = await saved(session, "x = 7")
    assert list(snapshot.names) == ["x"]
    assert next(answers, None) is None


async def test_sessions_about_one_notebook_restore_it_side_by_side(
    new_session: NewSession, jp_serverapp: ServerApp, notebook: str
) -> None:
    one, two = await new_session(), await new_session()
    await saved(one, "x = 7")
    await saved(two, "y = [8]")
    await kill(jp_serverapp, notebook)
    for session in (one, two):
        restored = await session.record("restore")
        assert restored.outcome in ("ok", "unchanged"), restored
    assert "7 [8]" in await ran(two, "print(x, y)")
