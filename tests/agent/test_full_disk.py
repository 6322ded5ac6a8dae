"""The log cannot be written for a while: whoever watches is told, and nothing stays open."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent import loose_ends
from prime_ext.errors import PrimeError
from prime_ext.kernel.snapshot import SnapshotKeeper
from prime_ext.session.outputs import Outputs
from prime_ext.session.records import AnyRecord, CompactionEnd, Prune
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_compaction import LONG, summarising
from tests.agent.test_context_cases import SMALL, outputs_until
from tests.agent.test_recovery import kernel_id, saved
from tests.messages_api.received import Received
from tests.messages_api.script import Answer, call, reply


class Disk:
    """What the log of one session is on."""

    def __init__(self, session: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        append = session.session.log.append

        def refused_if_full(record: AnyRecord, **options: Any) -> AnyRecord:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return append(record, **options)

        monkeypatch.setattr(session.session.log, "append", refused_if_full)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again without patience."""
    monkeypatch.setattr(loose_ends, "RETRY_SECONDS", 0.05)


def told(session: Driver) -> asyncio.Task[dict[str, Any]]:
    """The error that watchers are shown without a record."""
    return asyncio.create_task(session.frame(lambda frame: frame["type"] == "error"))


async def with_much_to_compact(new_session: NewSession) -> Driver:
    session = await new_session()
    session.api.respond = summarising(reply(LONG), reply("After."))
    await session.ask("Rows.")
    await session.idle()
    return session


async def test_a_compaction_ends_once_there_is_room(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await with_much_to_compact(new_session)
    disk = Disk(session, monkeypatch)
    capture = SnapshotKeeper.capture

    async def fill(keeper: SnapshotKeeper, *arguments: Any, **options: Any) -> Any:
        disk.is_full = True
        return await capture(keeper, *arguments, **options)

    monkeypatch.setattr(SnapshotKeeper, "capture", fill)
    frame = told(session)
    asked = await session.service.compact(session.session, None, "ada")
    assert (await frame)["code"] == "session_not_written"
    await session.idle()
    assert [r.kind for r in session.records()][-1] == "compaction_start"
    with pytest.raises(PrimeError, match="No space left"):
        await session.send("Hello?")
    with pytest.raises(PrimeError, match="No space left"):
        await session.service.compact(session.session, None, "ada")
    disk.is_full = False
    end = await session.record("compaction_end", **asked)
    assert end.outcome == "failed"
    assert "No space left" in end.reason
    await session.record("error", code="session_not_written")
    assert (await session.ask("After?")).status == "ok"
    assert len(session.records("compaction_end")) == 1
    assert len(session.records("error")) == 1


class TestPrune:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ContextConfig": SMALL}

    async def test_a_prune_that_was_recorded_holds_and_its_end_says_so(
        self, new_session: NewSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = await new_session()
        append = session.session.log.append

        def no_room_for_ends(record: AnyRecord, **options: Any) -> AnyRecord:
            if isinstance(record, CompactionEnd):
                raise OSError(errno.ENOSPC, "No space left on device")
            return append(record, **options)

        monkeypatch.setattr(session.session.log, "append", no_room_for_ends)
        with pytest.raises(AssertionError):  # the turn did not end well
            await outputs_until(session, "prune")
        await session.idle()
        assert not session.records("compaction_end")
        monkeypatch.undo()
        session.api.respond = lambda _request: reply("Here.")
        assert (await session.ask("Still there?")).status == "ok"
        (prune,) = session.records("prune")
        (end,) = session.records("compaction_end")
        assert isinstance(prune, Prune)
        assert isinstance(end, CompactionEnd)
        assert (end.outcome, end.path, end.compaction_count) == ("ok", "prune", 1)
        assert end.compaction_id == prune.compaction_id
        assert end.tokens_after == prune.tokens_after
        assert "left out here" in str(session.api.requests[-1].messages)
        codes = {record.code for record in session.records("error")}  # type: ignore[union-attr]
        assert codes == {"session_not_written"}


async def test_a_compaction_that_was_not_synced_has_one_end(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await with_much_to_compact(new_session)
    sync = session.session.log.sync

    def not_after_a_summary() -> None:
        if session.session.compaction is not None:
            raise OSError(errno.EIO, "Input/output error")
        sync()

    monkeypatch.setattr(session.session.log, "sync", not_after_a_summary)
    frame = told(session)
    await session.service.compact(session.session, None, "ada")
    await session.record("compaction_end")
    await session.idle()
    monkeypatch.undo()
    assert (await session.ask("After?")).status == "ok"
    (end,) = session.records("compaction_end")
    assert isinstance(end, CompactionEnd)
    assert end.outcome == "ok"
    assert (end.summary or "nothing") in str(
        session.api.requests[-1].messages[0]["content"][0]["text"]
    )
    codes = {record.code for record in session.records("error")}  # type: ignore[union-attr]
    assert codes == {"session_not_written"}
    frame.cancel()


async def test_a_turn_ends_once_there_is_room(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await new_session()
    disk = Disk(session, monkeypatch)
    answers = [reply("Let me see.", call("list_variables")), reply("Lost."), reply("After.")]

    def respond(_request: Received) -> Answer:
        disk.is_full = len(answers) == 2
        return answers.pop(0)

    session.api.respond = respond
    frame = told(session)
    await session.send("Rows.")
    assert (await frame)["code"] == "session_not_written"
    await session.idle()
    assert not session.records("turn_end")
    disk.is_full = False
    # Whoever is faster than the next try goes behind the end of that turn, too.
    await session.send("After?")
    await session.record("turn_end", status="ok")
    assert [r.status for r in session.records("turn_end")] == ["error", "ok"]  # type: ignore[union-attr]
    assert len(session.records("error")) == 1


async def test_a_result_whose_full_text_has_no_room_is_recorded_as_far_as_it_goes(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Outputs, "keep_text", refuse)
    session = await new_session()
    code = "for i in range(50_000): print(i, 'of many')"
    session.api.enqueue(reply(call("run_code", code=code)), reply("Many."))
    assert (await session.ask("Count.")).status == "ok"
    result = await session.record("tool_result")
    text = result.content[0]["text"]
    assert "49999 of many" in text
    assert "the full text is in no file: it could not be written (No space left" in text
    assert result.output_file is None


async def test_a_kernel_is_shut_down_though_its_last_snapshot_cannot_be_recorded(
    new_session: NewSession, jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await new_session()
    await saved(session, "x = 7")
    kernel = (await session.service.agent(session.session)).kernel
    await kernel.execute("x = 8", store_history=False)
    Disk(session, monkeypatch).is_full = True
    manager = jp_serverapp.kernel_manager
    await manager.shutdown_kernel(await kernel_id(jp_serverapp, session.session.notebook))
    assert manager.list_kernel_ids() == []
