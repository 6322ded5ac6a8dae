"""What passes by itself is tried again: refusals for a while, connections that break."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prime_ext.models.model import ModelError, Reply, Retry
from tests.messages_api.script import Failure, Fault, overloaded, rate_limited, reply, server_error
from tests.messages_api.server import MessagesAPI
from tests.models.conftest import MakeModel, Waits, ask, collect, texts


@pytest.mark.parametrize(
    ("failure", "code", "reason"),
    [
        (rate_limited(), "rate_limited", "rate limited"),
        (overloaded(), "overloaded", "overloaded"),
        (server_error(), "server_error", "server error"),
        (Failure(408), "server_error", "server error"),
        (Failure(409), "server_error", "server error"),
        (Failure(503), "server_error", "server error"),
    ],
    ids=["429", "529", "500", "408", "409", "503"],
)
async def test_what_passes_is_tried_again_and_said(
    messages_api: MessagesAPI,
    make_model: MakeModel,
    waits: Waits,
    failure: Failure,
    code: str,
    reason: str,
) -> None:
    model = make_model(max_attempts=3)
    messages_api.enqueue(failure, failure, reply("at last"))
    events = await collect(model, ask())
    retries = [event for event in events if isinstance(event, Retry)]
    assert [(r.attempt, r.max_attempts, r.reason) for r in retries] == [
        (1, 3, reason),
        (2, 3, reason),
    ]
    assert waits.seconds == [r.delay_s for r in retries]
    assert 0.75 <= waits.seconds[0] <= 1 < waits.seconds[1] <= 2
    assert texts(events) == "at last"

    messages_api.enqueue(failure, failure, failure)
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    assert caught.value.code == code
    assert caught.value.hint
    assert len(messages_api.requests) == 6


async def test_retry_after_is_honoured(messages_api: MessagesAPI, model: Any, waits: Waits) -> None:
    messages_api.enqueue(rate_limited(retry_after=17), reply("ok"))
    events = await collect(model, ask())
    assert waits.seconds == [17.0]
    assert [event.delay_s for event in events if isinstance(event, Retry)] == [17.0]


async def test_a_very_long_retry_after_is_not_waited_for(
    messages_api: MessagesAPI, model: Any
) -> None:
    messages_api.enqueue(rate_limited(retry_after=3_600))
    with pytest.raises(ModelError, match="limits the rate") as caught:
        await collect(model, ask())
    assert caught.value.hint == "Try again in 60 minutes."


@pytest.mark.parametrize(
    "fault",
    [Fault("cut", after=5), Fault("malformed", after=5), Fault("error", after=5)],
    ids=lambda fault: fault.kind,
)
async def test_a_stream_that_breaks_is_started_anew(
    messages_api: MessagesAPI, model: Any, fault: Fault
) -> None:
    said = "A sentence that is long enough to be cut in the middle of it."
    messages_api.enqueue(reply(said, fault=fault), reply(said))
    events = await collect(model, ask())
    at = next(i for i, event in enumerate(events) if isinstance(event, Retry))
    assert 0 < len(texts(events[:at])) < len(said), "some of it had been streamed"
    assert texts(events[at:]) == said
    last = events[-1]
    assert isinstance(last, Reply)
    assert last.content == [{"type": "text", "text": said}]
    first, second = messages_api.requests
    assert first.messages_bytes == second.messages_bytes


async def test_a_connection_cut_before_any_event(messages_api: MessagesAPI, model: Any) -> None:
    messages_api.enqueue(reply("x", fault=Fault("cut", after=0)), reply("ok"))
    events = await collect(model, ask())
    assert [e.reason for e in events if isinstance(e, Retry)] == ["connection lost"]
    assert texts(events) == "ok"


async def test_a_silent_stream_is_taken_for_dead(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    model = make_model(stall_seconds=1.0)
    messages_api.enqueue(reply("Some text.", fault=Fault("stall", after=4)), reply("ok"))
    events = await collect(model, ask())
    assert [e.reason for e in events if isinstance(e, Retry)] == ["no answer"]
    assert texts(events).endswith("ok")
    closed = messages_api.requests[0].closed
    assert await asyncio.to_thread(closed.wait, 10), "the dead connection was closed"


async def test_stopping_ends_the_wait_for_the_next_attempt(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    model = make_model()
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    model._sleep = forever
    messages_api.enqueue(overloaded())
    task = asyncio.create_task(collect(model, ask()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(messages_api.requests) == 1
