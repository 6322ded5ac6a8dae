"""Subscribers: everything once and in order, whenever they join and however slow they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_ext.session import stream
from prime_ext.session.records import (
    AssistantMessage,
    CompactionEnd,
    RunEnd,
    ToolResult,
    TurnEnd,
)
from tests.session.conftest import session_start, title

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.session.session import Session
    from prime_ext.session.store import SessionStore

Frame = dict[str, Any]


async def read_until_ready(subscription: stream.Subscription) -> list[Frame]:
    frames: list[Frame] = []
    async for frame in subscription:
        frames.append(frame)
        if frame["type"] == "ready":
            return frames
    raise AssertionError(f"ended ({subscription.ended}) before it was ready")


async def read(subscription: stream.Subscription, count: int) -> list[Frame]:
    return [await asyncio.wait_for(anext(subscription), 10) for _ in range(count)]


async def joined_late(session: Session) -> list[Frame]:
    """What someone who joins now gets behind ``ready``."""
    async with session.subscribe(session.log.last_seq) as subscription:
        assert [frame["type"] for frame in await read_until_ready(subscription)] == ["ready"]
        session.publish({"type": "end of test"})
        frames: list[Frame] = []
        async for frame in subscription:
            if frame["type"] == "end of test":
                return frames
            frames.append(frame)
    raise AssertionError


def delta(index: int, block: str, text: str | None = None, message: str = "m1") -> Frame:
    frame: Frame = {
        "type": "delta",
        "turn": "t1",
        "message": message,
        "index": index,
        "block": block,
    }
    if block == "start":
        return {**frame, "start": {"type": "text", "text": ""}}
    return {**frame, "text": text}


def reply(**changes: Any) -> AssistantMessage:
    return AssistantMessage(content=[], model="offline-1", **changes)


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "join", "yield"]), st.integers(0, 9)),
        max_size=40,
    ),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_no_gap_and_no_duplicate(
    store: SessionStore, steps: list[tuple[str, int]], slice_size: int, delay: int
) -> None:
    """Records appended at any moment, subscribers joining at any other.

    A slice of the replay takes ``delay`` rounds of the event loop, where in reality a thread
    reads it, so that every interleaving can be tried, and tried again.
    """

    async def in_some_rounds(read: Callable[..., Any], *args: Any) -> Any:
        lines = read(*args)
        for _ in range(delay):
            await asyncio.sleep(0)
        return lines

    async def run() -> None:
        session = store.create(session_start())
        readers: list[asyncio.Task[None]] = []
        received: list[tuple[int, list[int]]] = []
        last = 0

        async def follow(after: int, seqs: list[int]) -> None:
            async with session.subscribe(after) as subscription:
                async for frame in subscription:
                    if frame["type"] == "record":
                        seqs.append(frame["record"]["seq"])
                        if seqs[-1] == last:
                            return

        for what, number in steps:
            if what == "append":
                session.append(title("x"))
            elif what == "join":
                after, seqs = min(number, session.log.last_seq), list[int]()
                received.append((after, seqs))
                readers.append(asyncio.create_task(follow(after, seqs)))
            else:
                await asyncio.sleep(0)
        last = session.log.last_seq + 1
        session.append(title("the last"))
        await asyncio.wait_for(asyncio.gather(*readers), 30)
        for after, seqs in received:
            assert seqs == list(range(after + 1, last + 1))
        assert not session._stream.subscribers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "REPLAY_RECORDS", slice_size)
        patch.setattr(asyncio, "to_thread", in_some_rounds)
        asyncio.run(run())


async def test_replay_then_ready_then_live(store: SessionStore) -> None:
    session = store.create(session_start())
    session.append(title("one"))
    session.set_state({"running": True})
    async with session.subscribe(1) as subscription:
        first = await read_until_ready(subscription)
        assert [frame["type"] for frame in first] == ["record", "ready"]
        assert first[0]["record"]["title"] == "one"
        assert first[1] == {"type": "ready", "last_seq": 2, "state": {"running": True}}
        stored = session.append(title("two"))
        session.set_state({"running": False})
        live = await read(subscription, 2)
        assert live[0]["record"]["seq"] == stored.seq == 3
        assert live[0]["record"]["kind"] == "title"
        assert live[1] == {"type": "state", "state": {"running": False}}


async def test_a_replayed_record_equals_the_live_one(store: SessionStore) -> None:
    session = store.create(session_start())
    async with session.subscribe(1) as subscription:
        await read_until_ready(subscription)
        session.append(reply(usage={"input_tokens": 3}, turn="t\ud800", first_token_ms=5))
        (live,) = await read(subscription, 1)
    async with session.subscribe(1) as subscription:
        (replayed,) = await read(subscription, 1)
    assert live == replayed
    assert live["record"]["turn"] == "t\ufffd"


async def test_after_beyond_the_end_is_live_at_once(store: SessionStore) -> None:
    session = store.create(session_start())
    async with session.subscribe(99) as subscription:
        (ready,) = await read_until_ready(subscription)
        assert ready["last_seq"] == 1


async def test_joining_in_mid_message(store: SessionStore) -> None:
    session = store.create(session_start())
    session.publish(delta(0, "start"))
    session.publish(delta(0, "text", "Hel"))
    session.publish(delta(0, "text", "lo"))
    session.publish(delta(1, "start"))
    session.publish(delta(2, "input", '{"co'))
    expected = [delta(0, "start"), delta(0, "text", "Hello"), delta(1, "start")]
    expected.append(delta(2, "input", '{"co'))
    async with session.subscribe(0) as subscription:
        frames = await read_until_ready(subscription)
        assert [frame["type"] for frame in frames] == ["record", "ready"]
        assert await read(subscription, 4) == expected
        session.publish(delta(0, "text", " world"))
        assert await read(subscription, 1) == [delta(0, "text", " world")]
    session.publish({"type": "delta_reset", "turn": "t1", "message": "m0"})
    assert len(await joined_late(session)) == 4
    session.publish({"type": "delta_reset", "turn": "t1", "message": "m1"})
    assert await joined_late(session) == []
    session.publish(delta(0, "start", message="m2"))
    assert len(await joined_late(session)) == 1
    session.append(reply())
    assert await joined_late(session) == []


async def test_a_late_joiner_learns_what_is_going_on(store: SessionStore) -> None:
    session = store.create(session_start())

    def progress(what: str, **more: Any) -> Frame:
        frame = {"type": "progress", "what": what, **more}
        session.publish(frame)
        return frame

    async def going_on() -> list[str]:
        return [frame["what"] for frame in await joined_late(session)]

    progress("tool", call_id="a", outputs=[1])
    newest = progress("tool", call_id="a", outputs=[1, 2])
    assert await joined_late(session) == [newest]
    progress("retry", attempt=1)
    progress("compaction")
    assert await going_on() == ["tool", "retry", "compaction"]
    session.publish(delta(0, "start"))
    session.publish({"type": "delta_reset", "turn": "t1", "message": "m1"})
    assert await going_on() == ["tool", "compaction"]
    session.append(
        CompactionEnd(
            compaction_id="c", outcome="skipped", trigger="manual", tokens_before=1, tokens_after=1
        )
    )
    assert await going_on() == ["tool"]
    progress("tool", call_id="b")
    session.append(ToolResult(tool_use_id="a", name="run_code", content=[]))
    assert [frame["call_id"] for frame in await joined_late(session)] == ["b"]
    session.append(TurnEnd(status="interrupted"))
    assert await going_on() == []


async def test_a_late_joiner_sees_a_run_that_outlasts_its_call_and_its_turn(
    store: SessionStore,
) -> None:
    session = store.create(session_start())

    def result(call_id: str, *, goes_on: bool) -> None:
        result = ToolResult(
            tool_use_id=call_id, name="x", content=[], run="a", goes_on=goes_on, turn="t1"
        )
        session.append(result)

    async def calls() -> list[str]:
        return [frame["call_id"] for frame in await joined_late(session)]

    for end in ("run_end", "tool_result"):
        for call_id in ("a", "wait", "other"):
            session.publish({"type": "progress", "what": "tool", "call_id": call_id})
        result("a", goes_on=True)
        result("wait", goes_on=True)
        assert await calls() == ["a", "other"]
        session.append(TurnEnd(status="interrupted", turn="t1"))
        assert await calls() == ["a"]
        if end == "run_end":
            session.append(RunEnd(tool_use_id="a", content=[], turn="t1"))
        else:
            result("wait again", goes_on=False)
        assert await calls() == []


async def test_a_slow_subscriber_is_dropped_and_can_resume(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "QUEUE_FRAMES", 10)
    session = store.create(session_start())
    seen = 0
    async with session.subscribe(0) as slow, session.subscribe(0) as quick:
        await read_until_ready(slow)
        await read_until_ready(quick)
        for _ in range(11):
            session.append(title("x"))
            (frame,) = await read(quick, 1)
        assert frame["record"]["seq"] == 12
        assert slow.ended == "slow"
        assert [frame async for frame in slow] == []
        assert quick.ended is None
    async with session.subscribe(1) as again:
        frames = await read_until_ready(again)
        seen = sum(frame["type"] == "record" for frame in frames)
    assert seen == 11


async def test_the_queue_is_bounded_in_bytes_too(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "QUEUE_BYTES", 1_000)
    session = store.create(session_start())
    async with session.subscribe(1) as subscription:
        await read_until_ready(subscription)
        session.append(title("x" * 5_000))
        (frame,) = await read(subscription, 1)
        assert len(frame["record"]["title"]) == 5_000, "one large record always fits"
        session.append(title("x" * 600))
        session.publish({"type": "progress", "what": "tool", "outputs": ["y" * 600]})
        assert subscription.ended == "slow"


async def test_closing_ends_subscriptions_after_what_was_sent(store: SessionStore) -> None:
    session = store.create(session_start())
    async with session.subscribe(1) as live, session.subscribe(0) as replaying:
        await read_until_ready(live)
        session.append(title("last words"))
        store.close()
        assert [frame["record"]["title"] async for frame in live] == ["last words"]
        assert live.ended == "closed"
        kinds = [frame["record"]["kind"] async for frame in replaying]
        assert kinds == ["session_start", "title"]
        assert replaying.ended == "closed"


async def test_deleting_ends_subscriptions(store: SessionStore) -> None:
    session = store.create(session_start())
    async with session.subscribe(1) as live, session.subscribe(0) as replaying:
        await read_until_ready(live)
        store.delete(session.id)
        assert [frame async for frame in live] == []
        assert [frame async for frame in replaying] == []
        assert live.ended == replaying.ended == "deleted"


async def test_leaving_while_waiting(store: SessionStore) -> None:
    session = store.create(session_start())
    live = asyncio.Event()

    async def follow() -> None:
        async with session.subscribe(0) as subscription:
            async for frame in subscription:
                if frame["type"] == "ready":
                    live.set()

    task = asyncio.create_task(follow())
    await live.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not session._stream.subscribers
