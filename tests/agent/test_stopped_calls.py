"""Stop, pressed at the moment in which a call has been carried out and is being recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from prime_ext.agent import calls
from prime_ext.agent.calls import STOPPED
from prime_ext.agent.image_scaling import with_scaled_images
from prime_ext.agent.recovery import KernelRecovery
from prime_ext.session.records import ToolResult
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.script import call, reply


class Recording:
    """The making of a record, held up."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    held_up = Recording()

    def slowly(outcome: Any) -> Any:
        held_up.begun.set()
        assert held_up.goes_on.wait(60)
        return with_scaled_images(outcome)

    monkeypatch.setattr(calls, "with_scaled_images", slowly)
    yield held_up
    held_up.goes_on.set()


async def the_result(session: Driver) -> ToolResult:
    """The one that is recorded by the end of the turn, which was stopped."""
    await session.record("turn_end", status="interrupted")
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    return result


async def test_a_call_that_was_carried_out_does_not_count_as_not_run(
    new_session: NewSession, recording: Recording
) -> None:
    session = await new_session()
    session.api.enqueue(reply(call("run_code", code="print('it ran')")))
    await session.send("Run it.")
    await asyncio.to_thread(recording.begun.wait, 60)
    await session.stop()
    await asyncio.sleep(0)
    await session.stop()
    recording.goes_on.set()
    result = await the_result(session)
    assert "it ran" in result.content[0]["text"]
    assert not result.synthetic


async def test_a_second_stop_keeps_what_the_first_has_cut_off(
    new_session: NewSession, recording: Recording
) -> None:
    session = await new_session()
    code = "import time\nprint('going', flush=True)\ntime.sleep(600)"
    session.api.enqueue(reply(call("run_code", code=code)))
    await session.send("Run it.")
    await session.frame(lambda f: f["type"] == "progress" and bool(f.get("outputs")), after=0)
    await session.stop()
    await asyncio.to_thread(recording.begun.wait, 60)
    await session.stop()
    recording.goes_on.set()
    result = await the_result(session)
    assert STOPPED in result.content[0]["text"]
    assert result.outputs[0]["text"] == "going\n"


async def test_a_stop_while_variables_come_back_keeps_what_the_run_put_out(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    restoring = asyncio.Event()

    async def without_end(recovery: KernelRecovery, *_arguments: Any) -> None:
        if recovery.is_pending:  # asked before each call as well
            restoring.set()
            await asyncio.Event().wait()

    session = await new_session()
    code = "import os, time\nprint('it ran', flush=True)\ntime.sleep(0.5)\nos._exit(1)"
    session.api.enqueue(reply(call("run_code", code=code)))
    monkeypatch.setattr(KernelRecovery, "after_death", without_end)
    await session.send("Run it.")
    await restoring.wait()
    await session.stop()
    result = await the_result(session)
    assert "it ran" in result.content[0]["text"]
