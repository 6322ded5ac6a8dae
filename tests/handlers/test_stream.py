"""The WebSocket door, spoken to over a real connection."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClientConnection

from prime_ext.handlers import stream
from prime_ext.notebook.lease import LeaseHub
from prime_ext.session import stream as session_stream
from tests.handlers.test_rest import Asked
from tests.session.conftest import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prime_ext.session.session import Session
    from prime_ext.session.store import SessionStore
    from tests.handlers.conftest import NotedAgent, NotedLeases


class Client:
    """A browser's end of the stream."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self.connection = connection

    async def next(self) -> dict[str, Any]:
        message = await asyncio.wait_for(self.connection.read_message(), 10)
        assert message is not None, f"closed: {self.connection.close_code}"
        frame = json.loads(message)
        assert isinstance(frame, dict)
        return frame

    async def until(self, kind: str) -> list[dict[str, Any]]:
        frames = [await self.next()]
        while frames[-1]["type"] != kind:
            frames.append(await self.next())
        return frames

    async def closed(self) -> tuple[int | None, str | None]:
        while await asyncio.wait_for(self.connection.read_message(), 10) is not None:
            pass
        return self.connection.close_code, self.connection.close_reason

    async def send(self, frame: Any) -> None:
        await self.connection.write_message(
            frame if isinstance(frame, (str, bytes)) else json.dumps(frame),
            binary=isinstance(frame, bytes),
        )


@pytest.fixture
def connect(jp_web_app: Any, jp_ws_fetch: Any) -> Iterator[Callable[..., Any]]:
    """``await connect(session_id, after=…)``; closed at the end."""
    clients = []

    async def open_stream(session_id: str, **params: Any) -> Client:
        headers = params.pop("headers", None)
        connection = await jp_ws_fetch(
            "prime",
            "api",
            "sessions",
            session_id,
            "stream",
            params=params,
            headers=headers,
            compression_options={},
        )
        clients.append(connection)
        return Client(connection)

    yield open_stream
    for connection in clients:
        connection.close()


async def test_replay_then_live(
    connect: Callable[..., Any], session: Session, agent: NotedAgent
) -> None:
    session.append(title("one"))
    client = await connect(session.id)
    frames = await client.until("ready")
    assert [frame["type"] for frame in frames] == ["record", "record", "ready"]
    assert frames[1]["record"]["title"] == "one"
    assert frames[2]["last_seq"] == 2
    assert agent.calls == [("agent", session.id)]
    session.append(title("zwei ☃ \u2028"))
    assert (await client.next())["record"]["title"] == "zwei ☃ \u2028"
    delta = {"type": "delta", "turn": "t", "message": "m", "index": 0, "block": "text", "text": "h"}
    session.publish(delta)
    assert await client.next() == delta
    other = await connect(session.id, after=2)
    frames = await other.until("delta")
    assert [frame["type"] for frame in frames] == ["record", "ready", "delta"]


async def test_only_what_is_new(connect: Callable[..., Any], session: Session) -> None:
    session.append(title("before"))
    client = await connect(session.id, after=2**53 - 1)
    ready = await client.next()
    assert (ready["type"], ready["last_seq"]) == ("ready", 2)
    session.append(title("new"))
    assert (await client.next())["record"]["title"] == "new"


async def test_the_connection_is_compressed(connect: Callable[..., Any], session: Session) -> None:
    client = await connect(session.id)
    assert "permessage-deflate" in client.connection.headers["Sec-Websocket-Extensions"]


async def test_an_unknown_session(connect: Callable[..., Any]) -> None:
    client = await connect("nope")
    frame = await client.next()
    assert (frame["type"], frame["code"]) == ("error", "session_not_found")
    code, reason = await client.closed()
    assert code == stream.CLOSE_UNKNOWN_SESSION
    assert reason == "There is no session 'nope'."


async def test_a_long_reason_is_cut(connect: Callable[..., Any]) -> None:
    client = await connect("ä" * 200)
    assert "ä" * 60 in (await client.next())["message"]
    code, reason = await client.closed()
    assert code == stream.CLOSE_UNKNOWN_SESSION
    assert (reason or "").startswith("There is no session 'äää")


async def test_a_failure_on_opening(
    connect: Callable[..., Any],
    session: Session,
    agent: NotedAgent,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: Session) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(agent, "agent", fail)
    client = await connect(session.id)
    code, reason = await client.closed()
    assert code == stream.CLOSE_FAILED
    assert "secret" not in (reason or "")
    assert "secret inside" in caplog.text


async def test_a_wrong_after(connect: Callable[..., Any], session: Session) -> None:
    client = await connect(session.id, after="yesterday")
    assert "`after` is not an integer" in (await client.next())["message"]
    assert (await client.closed())[0] == stream.CLOSE_MALFORMED


async def test_leases_and_acknowledgements(
    connect: Callable[..., Any], session: Session, leases: NotedLeases
) -> None:
    client = await connect(session.id)
    await client.until("ready")
    claim = {"type": "lease", "action": "claim", "notebook": "work/analysis.ipynb"}
    await client.send(claim)
    assert (await client.next())["held"] is True
    ack = {"type": "ack", "op_id": "o1", "ok": True, "result": {"cells": [{"id": "a"}]}}
    await client.send(ack)
    await client.next()
    refused = {"type": "ack", "op_id": "o2", "ok": False, "error": {"code": "conflict"}}
    await client.send(refused)
    await client.next()
    frames: list[dict[str, Any]] = [claim, ack, refused]
    for sent, received in zip(frames, leases.received, strict=True):
        assert sent.items() <= received.items()
    await client.send({**claim, "notebook": "forbidden.ipynb"})
    assert (await client.next())["code"] == "lease_refused"


async def test_a_page_that_was_cut_off_goes_before_one_that_waits(
    connect: Callable[..., Any], session: Session, jp_web_app: Any
) -> None:
    hub = jp_web_app.settings["prime_leases"] = LeaseHub(handover_s=60.0)
    disconnected = asyncio.Event()

    async def claims(page: str) -> tuple[Client, bool]:
        client = await connect(session.id, after=1)
        await client.until("ready")
        path = "work/analysis.ipynb"
        await client.send({"type": "lease", "action": "claim", "notebook": path, "client": page})
        return client, (await client.next())["held"]

    first, held = await claims("page-1")
    assert held
    _, held = await claims("page-2")
    assert not held
    epoch = hub.epoch("work/analysis.ipynb")
    disconnect = hub.disconnect

    def noticed(client: Any) -> None:
        disconnect(client)
        disconnected.set()

    hub.disconnect = noticed  # type: ignore[method-assign]
    first.connection.close()
    await asyncio.wait_for(disconnected.wait(), 10)
    _, held = await claims("page-1")
    assert held
    assert hub.epoch("work/analysis.ipynb") == epoch, "a run under way is known to it"


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        "null",
        b"\xff\xfe",
        {"type": "delta"},
        {"type": "lease", "action": "steal", "notebook": "a"},
        {"type": "ack", "ok": True},
        "[" * 100_000,
    ],
)
async def test_a_malformed_frame_is_answered_and_changes_nothing(
    connect: Callable[..., Any], session: Session, leases: NotedLeases, frame: Any
) -> None:
    client = await connect(session.id)
    await client.until("ready")
    await client.send(frame)
    error = await client.next()
    assert (error["type"], error["code"]) == ("error", "malformed_frame")
    assert error["hint"]
    session.append(title("still there"))
    assert (await client.next())["record"]["title"] == "still there"
    assert leases.received == []


async def test_too_many_malformed_frames(connect: Callable[..., Any], session: Session) -> None:
    client = await connect(session.id)
    await client.until("ready")
    for _ in range(stream.MAX_ERRORS + 1):
        await client.send("{")
    assert (await client.closed())[0] == stream.CLOSE_MALFORMED


async def test_deleted_under_a_client(
    connect: Callable[..., Any], request_api: Callable[..., Any], session: Session
) -> None:
    client = await connect(session.id)
    await client.until("ready")
    assert (await request_api("DELETE", f"sessions/{session.id}")).status == 204
    assert await client.closed() == (stream.CLOSE_DELETED, "the session was deleted")


async def test_the_server_stops(
    connect: Callable[..., Any], store: SessionStore, session: Session
) -> None:
    client = await connect(session.id)
    await client.until("ready")
    store.close()
    assert (await client.closed())[0] == stream.CLOSE_GOING_AWAY


async def test_a_slow_client_is_told_to_come_back(
    connect: Callable[..., Any], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_stream, "QUEUE_FRAMES", 5)
    client = await connect(session.id)
    await client.until("ready")
    for _ in range(50):  # at once: the server cannot send in between
        session.append(title("x"))
    code, reason = await client.closed()
    assert code == stream.CLOSE_TOO_SLOW
    assert "reconnect" in (reason or "")
    again = await connect(session.id, after=1)
    assert len(await again.until("ready")) == 51


async def test_a_client_that_leaves_gives_up_its_lease(
    connect: Callable[..., Any], session: Session, leases: NotedLeases
) -> None:
    client = await connect(session.id)
    await client.until("ready")
    assert leases.connected == 1
    gone = asyncio.Event()
    disconnect = leases.disconnect

    def noticed() -> None:
        disconnect()
        gone.set()

    leases.disconnect = noticed  # type: ignore[method-assign]
    client.connection.close()
    await asyncio.wait_for(gone.wait(), 10)
    assert leases.connected == 0
    assert not session._stream.subscribers


async def refusal(connecting: Any) -> int:
    with pytest.raises(HTTPClientError) as caught:
        await connecting
    return int(caught.value.code)


async def test_who_may_not_connect(
    connect: Callable[..., Any],
    jp_web_app: Any,
    jp_serverapp: Any,
    log_in: Callable[[], Any],
    session: Session,
) -> None:
    wrong = {"Authorization": "token wrong"}
    assert await refusal(connect(session.id, headers={**wrong})) == 403
    # A page of another site can use the cookie, but not the token.
    cookie = {"Authorization": "none", **await log_in()}
    await (await connect(session.id, headers={**cookie})).until("ready")
    foreign = {**cookie, "Origin": "http://evil.example"}
    assert await refusal(connect(session.id, headers=foreign)) == 403
    settings = jp_web_app.settings
    settings["authorizer"] = Asked(parent=jp_serverapp)
    settings["allowed_actions"] = {"read", "write"}
    assert await refusal(connect(session.id)) == 403
    assert settings["asked"] == [("execute", "prime")]
    settings["allowed_actions"].add("execute")
    await (await connect(session.id)).until("ready")


async def test_not_a_websocket(request_api: Callable[..., Any], session: Session) -> None:
    answer = await request_api("GET", f"sessions/{session.id}/stream")
    assert answer.status == 400
