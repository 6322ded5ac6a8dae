"""A Jupyter server with the doors, real sessions, and an agent that only notes what it is told."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from prime_ext.errors import PrimeError
from prime_ext.handlers import handlers
from prime_ext.models.model import ModelInfo
from prime_ext.session.records import Queued, Restore, Settings, Snapshot, Title, UserMessage
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prime_ext.agent.attachment import Attachment
    from prime_ext.session.outline import SessionSummary
    from prime_ext.session.session import Session

MODES = ["ask", "edit", "auto"]


class NotedAgent:
    """In place of ``AgentService``: the same refusals, no model and no kernel."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.calls: list[tuple[Any, ...]] = []
        self.busy = False
        self.fails: Exception | None = None

    async def agent(self, session: Session) -> None:
        self.calls.append(("agent", session.id))

    async def start_session(
        self,
        notebook: str,
        *,
        model: str | None = None,
        permission_mode: str | None = None,
        title: str | None = None,
        restore: str | None = None,
        user: str | None = None,
    ) -> Session:
        if notebook != "work/analysis.ipynb":
            raise PrimeError(
                f"There is no notebook {notebook!r}.", code="notebook_not_found", status=404
            )
        if permission_mode not in (None, *MODES):
            raise PrimeError("Not here.", code="permission_mode_forbidden", status=403)
        start = session_start(
            notebook=notebook,
            model=model or "offline-1",
            permission_mode=permission_mode or "ask",
            title=title,
            restore=restore,
            user=user,
        )
        return self.store.create(start)

    async def update(self, session: Session, **changes: Any) -> None:
        self.calls.append(("update", changes))
        title, user = changes.pop("title"), changes.pop("user")
        if title is not None:
            session.append(Title(title=title, user=user))
        session.append(Settings(**changes, user=user))

    async def submit(
        self, session: Session, text: str, attached: list[Attachment], user: str | None
    ) -> tuple[int, bool]:
        attachments = msgspec.to_builtins(attached)
        if self.fails is not None:
            raise self.fails
        if not text.strip() and not attached:
            raise PrimeError("The message is empty.", code="empty_message")
        if len(text) > 1 << 20:
            raise PrimeError("The message is too long.", code="message_too_large", status=413)
        if self.busy:
            queued = session.append(Queued(text=text, attachments=attachments, user=user))
            return queued.seq, True
        content = [{"type": "text", "text": text}]
        message = UserMessage(text=text, attachments=attachments, content=content, user=user)
        return session.append(message).seq, False

    async def variables(self, notebook: str) -> dict[str, Any]:
        self.calls.append(("variables", notebook))
        return {"variables": [], "omitted": 0}

    async def interrupt(self, session: Session, user: str | None) -> bool:
        self.calls.append(("interrupt", user))
        return self.busy

    async def compact(
        self, session: Session, instructions: str | None, user: str | None
    ) -> dict[str, Any]:
        if self.busy:
            raise PrimeError("Being compacted.", code="compaction_running", status=409)
        self.calls.append(("compact", instructions, user))
        return {"compaction_id": "c1"}

    async def decide(
        self, session: Session, call_id: str, decision: str, scope: str, user: str | None
    ) -> None:
        if call_id != "toolu_1":
            raise PrimeError("No such approval.", code="approval_not_found", status=404)
        if self.busy:
            raise PrimeError("Decided already.", code="approval_decided", status=409)
        self.calls.append(("decide", call_id, decision, scope, user))

    async def send_queued(self, session: Session) -> bool:
        self.calls.append(("send_queued",))
        return not self.busy

    async def unqueue(self, session: Session, seq: int, user: str | None) -> None:
        if seq != 7:
            raise PrimeError("Not queued.", code="not_queued", status=404)
        self.calls.append(("unqueue", seq, user))

    async def snapshot(self, session: Session, user: str | None) -> dict[str, Any]:
        record = session.append(Snapshot(outcome="ok", trigger="manual", user=user))
        return dict(msgspec.to_builtins(record))

    async def snapshots(self, session: Session) -> list[dict[str, Any]]:
        return [{"id": "s1", "created": "2026-01-01T00:00:00.000Z"}]

    async def restore(
        self,
        session: Session,
        snapshot_id: str,
        names: list[str] | None,
        overwrite: bool,
        user: str | None,
    ) -> dict[str, Any]:
        if snapshot_id != "s1":
            raise PrimeError("No such snapshot.", code="snapshot_not_found", status=404)
        self.calls.append(("restore", snapshot_id, names, overwrite, user))
        record = session.append(Restore(outcome="ok", mode="hot", trigger="manual", user=user))
        return dict(msgspec.to_builtins(record))

    async def give_up_restore(self, session: Session) -> bool:
        return self.busy

    def activity(self, summary: SessionSummary) -> str:
        return "working" if self.busy else "idle"

    async def active(self) -> list[SessionSummary]:
        return self.store.list() if self.busy else []

    async def at_work_elsewhere(self) -> list[dict[str, Any]]:
        return []

    def describe(self, session: Session) -> dict[str, Any]:
        return {"queue": [], "approvals": [], "telemetry": {"compaction_count": 0}}

    async def saved(self, session: Session) -> dict[str, Any]:
        return {"on": True, "reason": None, "restore": session.restore or "auto", "bytes": 0}

    async def saved_in_all(self) -> dict[str, Any]:
        return {"enabled": True, "restore": "auto", "bytes": 0, "limit_bytes": 1 << 30}

    async def delete_session(self, session: Session) -> None:
        self.calls.append(("delete_session", session.id))
        self.store.delete(session.id)

    def status(self) -> dict[str, Any]:
        return {
            "version": "0.1.0",
            "provider": "offline",
            "model": None,
            "offline": True,
            "remote": False,
            "endpoint": None,
            "credentials": "none",
            "permission_modes": MODES,
            "default_permission_mode": "ask",
        }

    async def models(self) -> list[ModelInfo]:
        return [ModelInfo("offline", "offline", "Offline agent", default=True)]

    async def set_credentials(
        self, provider: str, api_key: str | None, base_url: str | None
    ) -> str | None:
        self.calls.append(("set_credentials", provider, api_key, base_url))
        return "It is down."

    async def clear_credentials(self) -> None:
        self.calls.append(("clear_credentials",))


class NotedLeases:
    """In place of ``LeaseHub``."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.send: Callable[[dict[str, Any]], None] | None = None
        self.connected = 0

    def announce(self, path: str, *, by: str | None) -> None:
        self.received.append({"announced": path, "by": by})

    def connect(self, send: Callable[[dict[str, Any]], None]) -> NotedLeases:
        self.send = send
        self.connected += 1
        return self

    def receive(self, frame: dict[str, Any]) -> None:
        if frame.get("notebook") == "forbidden.ipynb":
            raise PrimeError("Held by another.", code="lease_refused", hint="Wait.")
        self.received.append(frame)
        if self.send is not None:
            self.send({"type": "lease", "notebook": "work/analysis.ipynb", "held": True})

    def disconnect(self) -> None:
        self.connected -= 1


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_server_terminals": False},
            "allow_unauthenticated_access": False,
        }
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "sessions", logging.getLogger("prime.tests"))
    yield store
    store.close()


@pytest.fixture
def session(store: SessionStore) -> Session:
    return store.create(session_start())


@pytest.fixture
def agent(store: SessionStore) -> NotedAgent:
    return NotedAgent(store)


@pytest.fixture
def leases() -> NotedLeases:
    return NotedLeases()


@pytest.fixture
def jp_web_app(
    jp_serverapp: Any, store: SessionStore, agent: NotedAgent, leases: NotedLeases
) -> Any:
    app = jp_serverapp.web_app
    app.settings.update(prime_agent=agent, prime_sessions=store, prime_leases=leases)
    app.add_handlers(".*$", handlers(app.settings["base_url"]))
    return app


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"].startswith("application/json")
        return json.loads(self.text)


@pytest.fixture
def request_api(jp_web_app: Any, jp_fetch: Any) -> Callable[..., Any]:
    """``await request_api(method, path, body, **fetch)``: the answer, whatever its status."""

    async def request(method: str, path: str, body: Any = None, **fetch: Any) -> Answer:
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        path, _, query = path.partition("?")
        if query:
            fetch["params"] = dict(part.split("=", 1) for part in query.split("&"))
        response = await jp_fetch(
            "prime",
            "api",
            *path.split("/"),
            method=method,
            body=body,
            allow_nonstandard_methods=True,
            raise_error=False,
            **fetch,
        )
        return Answer(response.code, dict(response.headers), response.body.decode())

    return request


@pytest.fixture
def log_in(
    jp_serverapp: Any, http_server_client: Any, jp_base_url: str, jp_http_port: int
) -> Callable[[], Any]:
    """``await log_in()``: headers of a browser that has logged in, with an XSRF cookie."""

    async def cookies() -> dict[str, str]:
        host = {"Host": f"127.0.0.1:{jp_http_port}"}  # the cookie's name depends on it
        response = await http_server_client.fetch(
            f"{jp_base_url}login?token={jp_serverapp.identity_provider.token}",
            headers=host,
            follow_redirects=False,
            raise_error=False,
        )
        given = [cookie.split(";")[0] for cookie in response.headers.get_list("Set-Cookie")]
        return {**host, "Cookie": "; ".join([*given, "_xsrf=0123456789abcdef"])}

    return cookies
