"""The REST doors: what they pass on, what they answer, and what they refuse and how."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_server.auth import Authorizer, User
from tornado.httpclient import HTTPClientError

from prime_ext.events.emitter import SCHEMA_ID, SESSION_START, register_schemas
from prime_ext.session.log import SessionLog
from prime_ext.session.records import UserMessage
from prime_ext.session.session import Session
from tests.session.conftest import title

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_server.serverapp import ServerApp

    from prime_ext.session.store import SessionStore
    from tests.handlers.conftest import NotedAgent, NotedLeases

DEEP = '{"text": "x", "attachments": [{"a": ' + "[" * 100_000
NOTEBOOK = "work/analysis.ipynb"


async def test_status_and_models(request_api: Callable[..., Any]) -> None:
    status = (await request_api("GET", "status")).json
    assert status["provider"] == "offline"
    assert status["permission_modes"] == ["ask", "edit", "auto"]
    models = (await request_api("GET", "models")).json["models"]
    assert models[0]["id"] == "offline"
    assert models[0]["default"] is True


async def test_a_session_from_start_to_end(
    request_api: Callable[..., Any], agent: NotedAgent, store: SessionStore, leases: NotedLeases
) -> None:
    body = {"notebook": NOTEBOOK, "model": "m", "permission_mode": "edit", "title": "Sales"}
    started = await request_api("POST", "sessions", {**body, "client": "page-1"})
    assert started.status == 201
    assert leases.received == [{"announced": NOTEBOOK, "by": "page-1"}]
    session_id = started.json["id"]
    assert started.headers["Location"].endswith(f"/prime/api/sessions/{session_id}")
    described = (await request_api("GET", f"sessions/{session_id}")).json
    assert described == started.json
    assert described["notebook"] == NOTEBOOK
    assert (described["model"], described["permission_mode"]) == ("m", "edit")
    assert (described["title"], described["records"]) == ("Sales", 1)
    assert described["state"]["phase"] == "idle"
    assert described["telemetry"] == {"compaction_count": 0}
    listed = (await request_api("GET", "sessions")).json["sessions"]
    assert [line["id"] for line in listed] == [session_id]
    assert (await request_api("GET", f"sessions?notebook={NOTEBOOK}")).json["sessions"] == listed
    assert (await request_api("GET", "sessions?notebook=b.ipynb")).json == {"sessions": []}
    assert (await request_api("GET", "sessions?active=true")).json["sessions"] == []
    agent.busy = True
    (active,) = (await request_api("GET", "sessions?active=true")).json["sessions"]
    assert (active["id"], active["activity"]) == (session_id, "working")
    other = await request_api("GET", "sessions?active=true&notebook=b.ipynb")
    assert other.json["sessions"] == []
    changed = await request_api("PATCH", f"sessions/{session_id}", {"title": "By month"})
    assert changed.json["title"] == "By month"
    gone = await request_api("DELETE", f"sessions/{session_id}")
    assert (gone.status, gone.text) == (204, "")
    assert ("delete_session", session_id) in agent.calls
    assert store.list() == []
    assert (await request_api("GET", f"sessions/{session_id}")).status == 404


async def test_the_event_of_a_session_that_starts(
    request_api: Callable[..., Any], jp_serverapp: ServerApp
) -> None:
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def listener(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        heard.put_nowait(data)

    assert jp_serverapp.event_logger is not None
    register_schemas(jp_serverapp.event_logger)
    jp_serverapp.event_logger.add_listener(
        schema_id=SCHEMA_ID.format(SESSION_START), listener=listener
    )
    started = await request_api("POST", "sessions", {"notebook": NOTEBOOK})
    event = await asyncio.wait_for(heard.get(), 10)
    assert (event["session_id"], event["notebook"]) == (started.json["id"], NOTEBOOK)


async def test_saving_and_restoring_are_settings_of_a_session(
    request_api: Callable[..., Any], agent: NotedAgent, session: Session
) -> None:
    changed = await request_api(
        "PATCH", f"sessions/{session.id}", {"restore": "never", "snapshots": False}
    )
    assert changed.json["snapshots"]["restore"] == "never"
    (update,) = [call for call in agent.calls if call[0] == "update"]
    assert (update[1]["restore"], update[1]["snapshots"]) == ("never", False)
    for wrong in ({"restore": "sometimes"}, {"snapshots": "no"}):
        answer = await request_api("PATCH", f"sessions/{session.id}", wrong)
        assert (answer.status, answer.json["code"]) == (400, "invalid_request")
    status = await request_api("GET", "status")
    assert status.json["snapshots"]["limit_bytes"] > 0


async def test_messages(
    request_api: Callable[..., Any], agent: NotedAgent, session: Session
) -> None:
    attachments = [{"type": "file", "value": "data.csv"}]
    sent = await request_api(
        "POST", f"sessions/{session.id}/messages", {"text": "hi", "attachments": attachments}
    )
    assert (sent.status, sent.json) == (202, {"seq": 2, "queued": False})
    agent.busy = True
    sent = await request_api("POST", f"sessions/{session.id}/messages", {"text": "more"})
    assert (sent.status, sent.json) == (202, {"seq": 3, "queued": True})
    first, second = session.log.read(1)
    assert (first.kind, second.kind) == ("user_message", "queued")
    # Who has nothing but the server's token has no name.
    assert first.user is None
    assert second.user is None


async def test_records_carry_the_name_of_who_is_known(
    request_api: Callable[..., Any],
    agent: NotedAgent,
    session: Session,
    jp_serverapp: ServerApp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ada = User("ada", "Ada", "Ada Lovelace")
    monkeypatch.setattr(jp_serverapp.identity_provider, "generate_anonymous_user", lambda _: ada)
    await request_api("POST", f"sessions/{session.id}/messages", {"text": "hi"})
    assert session.log.read(1)[0].user == "ada"


async def test_records(request_api: Callable[..., Any], session: Session) -> None:
    for i in range(5):
        session.append(title(f"Title {i}"))
    records = f"sessions/{session.id}/records"
    page = (await request_api("GET", f"{records}?after=2&limit=2")).json
    assert [record["seq"] for record in page["records"]] == [3, 4]
    assert page["last_seq"] == 6
    assert page["records"][0]["title"] == "Title 1"
    assert len((await request_api("GET", records)).json["records"]) == 6
    for limit, count in (("-5", 1), ("0", 1), ("99999999999999999999", 6), ("+2", 2)):
        page = (await request_api("GET", f"{records}?limit={limit}")).json
        assert len(page["records"]) == count
    assert (await request_api("GET", f"{records}?after=99")).json["records"] == []
    for wrong in ("limit=ten", "after=1.5", "after=1_0", "after=٣"):
        answer = await request_api("GET", f"{records}?{wrong}")
        assert answer.status == 400
        assert f"`{wrong.split('=')[0]}` is not an integer" in answer.json["message"]


async def test_records_of_a_newer_version_get_through(
    request_api: Callable[..., Any], store: SessionStore, session: Session
) -> None:
    store.close()
    line = b'{"kind":"hologram","seq":2,"id":"b","ts":"","depth":3}\n'
    with session.log.path.open("ab") as file:
        file.write(line)
    page = (await request_api("GET", f"sessions/{session.id}/records?after=1")).json
    assert page == {"records": [json.loads(line)], "last_seq": 2}


async def test_search(request_api: Callable[..., Any], session: Session) -> None:
    for text in ("a wombat", "nothing", "more wombats"):
        await request_api("POST", f"sessions/{session.id}/messages", {"text": text})
    search = f"sessions/{session.id}/search"
    hits = (await request_api("GET", f"{search}?q=wombat")).json["hits"]
    assert {hit["seq"] for hit in hits} == {2, 4}
    assert {"seq": 2, "kind": "user_message", "snippet": "a wombat"} in hits
    hits = (await request_api("GET", f"{search}?q=wombat&before=3&kinds=user_message,error")).json
    assert [hit["seq"] for hit in hits["hits"]] == [2]
    assert (await request_api("GET", f"{search}?q=wombat&kinds=error")).json["hits"] == []
    for wrong in ("q=", "q= ", f"q={'x' * 1001}", "before=x&q=a", "q=a&kinds=title"):
        answer = await request_api("GET", f"{search}?{wrong}")
        assert answer.status == 400
        assert answer.json["hint"]
    assert (await request_api("GET", search)).status == 400


@pytest.mark.parametrize(
    ("path", "reader"),
    [("records", (SessionLog, "lines")), ("search?q=sales", (Session, "search"))],
)
async def test_a_session_that_is_deleted_while_it_is_read(
    request_api: Callable[..., Any],
    store: SessionStore,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    reader: tuple[type, str],
) -> None:
    session.append(UserMessage(text="Sales", content=[]))
    read = getattr(*reader)

    def too_late(*arguments: Any) -> Any:
        store.delete(session.id)
        return read(*arguments)

    monkeypatch.setattr(*reader, too_late)
    answer = await request_api("GET", f"sessions/{session.id}/{path}")
    assert (answer.status, answer.json["code"]) == (404, "session_not_found")
    assert "may have been deleted" in answer.json["hint"]


async def test_interrupt_compact_and_unqueue(
    request_api: Callable[..., Any], agent: NotedAgent, session: Session
) -> None:
    at = f"sessions/{session.id}"
    assert (await request_api("POST", f"{at}/interrupt")).json == {"interrupted": False}
    compacted = await request_api("POST", f"{at}/compact", {"instructions": "keep paths"})
    assert (compacted.status, compacted.json) == (202, {"compaction_id": "c1"})
    assert agent.calls[-1][:2] == ("compact", "keep paths")
    assert (await request_api("POST", f"{at}/compact")).status == 202
    sent = await request_api("POST", f"{at}/queue/send")
    assert (sent.status, sent.json) == (202, {"sent": True})
    assert (await request_api("DELETE", f"{at}/queue/7")).status == 204
    assert (await request_api("DELETE", f"{at}/queue/8")).json["code"] == "not_queued"
    assert (await request_api("DELETE", f"{at}/queue/{'9' * 40}")).status == 404
    agent.busy = True
    assert (await request_api("POST", f"{at}/interrupt")).json == {"interrupted": True}
    assert (await request_api("POST", f"{at}/queue/send")).json == {"sent": False}
    refused = await request_api("POST", f"{at}/compact")
    assert (refused.status, refused.json["code"]) == (409, "compaction_running")


async def test_approvals(
    request_api: Callable[..., Any], agent: NotedAgent, session: Session
) -> None:
    at = f"sessions/{session.id}/approvals"
    answer = await request_api("POST", f"{at}/toolu_1", {"decision": "allow"})
    assert (answer.status, answer.text) == (204, "")
    assert agent.calls[-1][:4] == ("decide", "toolu_1", "allow", "once")
    await request_api("POST", f"{at}/toolu_1", {"decision": "deny", "scope": "session"})
    assert agent.calls[-1][:4] == ("decide", "toolu_1", "deny", "session")
    unknown = await request_api("POST", f"{at}/other", {"decision": "allow"})
    assert (unknown.status, unknown.json["code"]) == (404, "approval_not_found")
    agent.busy = True
    late = await request_api("POST", f"{at}/toolu_1", {"decision": "allow"})
    assert (late.status, late.json["code"]) == (409, "approval_decided")


async def test_snapshots(
    request_api: Callable[..., Any], agent: NotedAgent, session: Session
) -> None:
    at = f"sessions/{session.id}/snapshots"
    assert (await request_api("GET", at)).json["snapshots"][0]["id"] == "s1"
    assert (await request_api("POST", at)).json["outcome"] == "ok"
    assert (await request_api("POST", f"{at}/s1/restore")).json["outcome"] == "ok"
    assert agent.calls[-1][:4] == ("restore", "s1", None, False)
    body = {"names": ["df"], "overwrite": True}
    await request_api("POST", f"{at}/s1/restore", body)
    assert agent.calls[-1][:4] == ("restore", "s1", ["df"], True)
    assert (await request_api("POST", f"{at}/s2/restore")).json["code"] == "snapshot_not_found"
    for path in ("..", ".hidden", "a%2F..%2Fb"):
        answer = await request_api("POST", f"{at}/{path}/restore")
        assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert agent.calls[-1][:4] == ("restore", "s1", ["df"], True)
    for agent.busy in (False, True):
        assert (await request_api("DELETE", f"{at}/s1/restore")).json == {"given_up": agent.busy}


async def test_credentials_go_in_and_never_out(
    request_api: Callable[..., Any], agent: NotedAgent
) -> None:
    body = {"provider": "anthropic", "api_key": "sk-test", "base_url": "http://127.0.0.1:9"}
    stored = await request_api("PUT", "credentials", body)
    assert (stored.status, stored.json) == (200, {"unchecked": "It is down."})
    assert agent.calls[-1] == ("set_credentials", *body.values())
    cleared = await request_api("DELETE", "credentials")
    assert cleared.status == 204
    assert agent.calls[-1][0] == "clear_credentials"
    assert (await request_api("GET", "credentials")).status == 405


async def test_the_description_is_served(request_api: Callable[..., Any]) -> None:
    answer = await request_api("GET", "openapi.yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.text.startswith("openapi: 3.1")


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("sessions", {}, "lacks the required field `notebook`"),
        ("sessions", {"notebook": ""}, "$.notebook"),
        ("sessions", {"notebook": 7}, "expected a string, got an integer - at `$.notebook`"),
        ("sessions", {"notebook": "a", "permission_mode": "root"}, "$.permission_mode"),
        ("sessions", {"notebook": "a", "modle": "x"}, "`modle`"),
        ("sessions", [], "expected an object, got an array"),
        ("sessions/{id}/messages", {"text": None}, "expected a string, got null - at `$.text`"),
        (
            "sessions/{id}/messages",
            {"text": "x", "attachments": [1]},
            "an integer - at `$.attachments[0]`",
        ),
        (
            "sessions/{id}/messages",
            {"text": "x", "attachments": [{"type": "folder", "value": "data"}]},
            "'folder' - at `$.attachments[0].type`",
        ),
        (
            "sessions/{id}/messages",
            {"text": "x", "attachments": [{"type": "error", "value": "a.ipynb", "cells": []}]},
            "`$.attachments[0].cells`",
        ),
        (
            "sessions/{id}/messages",
            {"text": "x", "attachments": [{"type": "file", "value": "a", "text": "b"}]},
            "`text`",
        ),
        ("sessions/{id}/approvals/toolu_1", {"decision": "maybe"}, "'maybe' - at `$.decision`"),
        ("sessions/{id}/snapshots/s1/restore", {"overwrite": 1}, "true or false"),
        ("sessions/{id}/compact", {"instructions": "x" * 20_001}, "$.instructions"),
    ],
)
async def test_a_wrong_body_is_refused_by_the_name_of_its_field(
    request_api: Callable[..., Any], session: Session, path: str, body: Any, field: str
) -> None:
    answer = await request_api("POST", path.replace("{id}", session.id), body)
    assert answer.status == 400
    assert answer.json["code"] == "invalid_request"
    assert field in answer.json["message"]
    assert "openapi.yaml" in answer.json["hint"]
    assert session.log.last_seq == 1


@pytest.mark.parametrize(
    "body", ["{", "text=hello", b"\xff\xfe{}", '{"text": "\\ud800"}', "NaN", DEEP]
)
async def test_malformed_json(
    request_api: Callable[..., Any], session: Session, body: str | bytes
) -> None:
    answer = await request_api("POST", f"sessions/{session.id}/messages", body)
    assert answer.status == 400
    assert answer.json["code"] == "malformed_json"


async def test_a_query_that_is_not_unicode(
    jp_web_app: Any, http_server_client: Any, jp_auth_header: dict[str, str], jp_base_url: str
) -> None:
    response = await fetch_without_token(
        http_server_client, jp_base_url, "sessions?notebook=%FF", headers=jp_auth_header
    )
    assert response.code == 400
    refusal = json.loads(response.body)
    assert refusal["code"] == "invalid_request"
    assert "Invalid unicode in notebook" in refusal["message"]


async def test_no_body(request_api: Callable[..., Any], session: Session) -> None:
    for body in ("", "  \n"):
        answer = await request_api("POST", f"sessions/{session.id}/messages", body)
        assert answer.status == 400
        assert answer.json["message"] == "The request has no body."


async def test_empty_and_oversized_messages(
    request_api: Callable[..., Any], session: Session
) -> None:
    at = f"sessions/{session.id}/messages"
    empty = await request_api("POST", at, {"text": " \n"})
    assert (empty.status, empty.json["code"]) == (400, "empty_message")
    long = await request_api("POST", at, {"text": "x" * (2 << 20)})
    assert (long.status, long.json["code"]) == (413, "message_too_large")
    huge = await request_api("POST", at, {"text": "x", "attachments": [{"a": "x" * (33 << 20)}]})
    assert (huge.status, huge.json["code"]) == (413, "request_too_large")
    assert session.log.last_seq == 1


@pytest.mark.parametrize("name", ["nope", "20260101-000000-000000000000", "..%2F..", "%00", "ä"])
async def test_unknown_sessions(request_api: Callable[..., Any], name: str) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", "{}"),
        ("DELETE", "", None),
        ("POST", "/messages", {"text": "hi"}),
        ("GET", "/records", None),
        ("GET", "/search?q=x", None),
        ("POST", "/interrupt", None),
        ("POST", "/compact", None),
        ("POST", "/approvals/x", {"decision": "allow"}),
        ("POST", "/queue/send", None),
        ("DELETE", "/queue/1", None),
        ("GET", "/snapshots", None),
        ("POST", "/snapshots/s1/restore", None),
        ("DELETE", "/snapshots/s1/restore", None),
    ):
        answer = await request_api(method, f"sessions/{name}{path}", body)
        assert (answer.status, answer.json["code"]) == (404, "session_not_found")
        assert "start a new one" in answer.json["hint"]


async def test_unknown_paths_and_verbs(request_api: Callable[..., Any], session: Session) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = await request_api(method, "nowhere/at/all")
        assert (answer.status, answer.json["code"]) == (404, "not_found")
    for method, path, allowed in (
        ("PUT", "sessions", "GET, POST"),
        ("POST", f"sessions/{session.id}", "GET, PATCH, DELETE"),
        ("GET", f"sessions/{session.id}/messages", "POST"),
        ("HEAD", "status", "GET"),
    ):
        answer = await request_api(method, path)
        assert answer.status == 405
        assert answer.headers["Allow"] == allowed
        if method != "HEAD":
            assert answer.json["code"] == "method_not_allowed"
            assert allowed in answer.json["hint"]


async def test_an_unexpected_error_tells_nothing(
    request_api: Callable[..., Any],
    agent: NotedAgent,
    session: Session,
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent.fails = RuntimeError("secret inside")
    with caplog.at_level(logging.ERROR):
        answer = await request_api("POST", f"sessions/{session.id}/messages", {"text": "x"})
    assert (answer.status, answer.json["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "secret inside" in caplog.text


async def fetch_without_token(
    http_server_client: Any, jp_base_url: str, path: str, **fetch: Any
) -> Any:
    try:
        url = f"{jp_base_url}prime/api/{path}"
        return await http_server_client.fetch(url, follow_redirects=False, **fetch)
    except HTTPClientError as error:
        return error.response


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["status", "sessions", "nowhere", "sessions/x/messages"])
async def test_without_a_token(
    jp_web_app: Any, http_server_client: Any, jp_base_url: str, method: str, path: str
) -> None:
    body = "{}" if method == "POST" else None
    response = await fetch_without_token(
        http_server_client, jp_base_url, path, method=method, body=body
    )
    assert response.code == 403
    refusal = json.loads(response.body)
    assert refusal["code"] == "not_authenticated"
    assert "Authorization: token" in refusal["hint"]


async def test_with_a_cookie_but_without_xsrf(
    jp_web_app: Any, log_in: Callable[[], Any], http_server_client: Any, jp_base_url: str
) -> None:
    headers = await log_in()
    looked = await fetch_without_token(http_server_client, jp_base_url, "status", headers=headers)
    assert looked.code == 200
    response = await fetch_without_token(
        http_server_client, jp_base_url, "sessions", method="POST", body="{}", headers=headers
    )
    assert response.code == 403
    refusal = json.loads(response.body)
    assert refusal["code"] == "xsrf_missing"
    assert "X-XSRFToken" in refusal["hint"]
    response = await fetch_without_token(
        http_server_client,
        jp_base_url,
        "sessions",
        method="POST",
        body="{}",
        headers={**headers, "X-XSRFToken": "0123456789abcdef"},
    )
    assert response.code == 400


async def test_another_host_name(request_api: Callable[..., Any]) -> None:
    answer = await request_api("GET", "status", headers={"Host": "evil.example"})
    assert (answer.status, answer.json["code"]) == (403, "host_not_allowed")
    assert "allow_remote_access" in answer.json["hint"]


class Asked(Authorizer):
    """Allows some actions and notes what it was asked."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        handler.settings.setdefault("asked", []).append((action, resource))
        return action in handler.settings["allowed_actions"]


async def test_what_is_asked_of_the_authorizer(
    request_api: Callable[..., Any], jp_web_app: Any, jp_serverapp: Any, session: Session
) -> None:
    settings = jp_web_app.settings
    settings["authorizer"] = Asked(parent=jp_serverapp)
    settings["allowed_actions"] = {"read"}
    at = f"sessions/{session.id}"
    expected = [
        ("GET", "status", "read"),
        ("GET", "models", "read"),
        ("GET", "sessions", "read"),
        ("GET", at, "read"),
        ("GET", f"{at}/records", "read"),
        ("GET", f"{at}/search?q=x", "read"),
        ("GET", f"{at}/snapshots", "read"),
        ("GET", "openapi.yaml", "read"),
        ("POST", "sessions", "write"),
        ("PATCH", at, "write"),
        ("DELETE", at, "write"),
        ("PUT", "credentials", "write"),
        ("DELETE", "credentials", "write"),
        ("POST", f"{at}/messages", "execute"),
        ("POST", f"{at}/interrupt", "execute"),
        ("POST", f"{at}/compact", "execute"),
        ("POST", f"{at}/approvals/toolu_1", "execute"),
        ("POST", f"{at}/queue/send", "execute"),
        ("DELETE", f"{at}/queue/7", "execute"),
        ("POST", f"{at}/snapshots", "execute"),
        ("POST", f"{at}/snapshots/s1/restore", "execute"),
        ("DELETE", f"{at}/snapshots/s1/restore", "execute"),
    ]
    for method, path, action in expected:
        settings["asked"] = []
        answer = await request_api(method, path)
        assert settings["asked"] == [(action, "prime")]
        if action == "read":
            assert answer.status == 200
        else:
            assert (answer.status, answer.json["code"]) == (403, "not_authorized")
    assert session.log.last_seq == 1
