"""Handlers for sessions: create, read, change and delete them, send messages, stop the agent."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from tornado import web

from prime_ext.agent.attachment import MAX_ATTACHMENTS, Attachment
from prime_ext.errors import PrimeError
from prime_ext.events.emitter import emit_session_start
from prime_ext.handlers.base import MAX_INTEGER, PrimeHandler, authorized
from prime_ext.notebook.lease import normal_path
from prime_ext.session.stream import IDLE_STATE

if TYPE_CHECKING:
    from prime_ext.session.outline import SessionSummary
    from prime_ext.session.session import Session

PAGE_RECORDS = 1000
"""Maximum number of records in one page."""
PAGE_BYTES = 8 << 20
"""Maximum size of one page; a larger record is a page of its own."""
MAX_HITS = 100
MAX_QUERY = 1000

Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Mode = Literal["ask", "edit", "auto", "plan"]
RestoreMode = Literal["auto", "always", "ask", "never"]


class NewSession(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``POST sessions``."""

    notebook: Path
    model: Name | None = None
    permission_mode: Mode | None = None
    title: str | None = None
    restore: RestoreMode | None = None
    client: Name | None = None
    """Browser page that starts the session, by the name that it uses in ``lease`` frames."""


class SessionChanges(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``PATCH sessions/{id}``: what is left out stays as it is."""

    model: Name | None = None
    permission_mode: Mode | None = None
    title: str | None = None
    notebook: Path | None = None
    restore: RestoreMode | None = None
    snapshots: bool | None = None
    """Whether to save the notebook's variables; false deletes the snapshots."""


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``POST sessions/{id}/messages``."""

    text: str
    attachments: Annotated[list[Attachment], msgspec.Meta(max_length=MAX_ATTACHMENTS)] = []


class Compaction(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``POST sessions/{id}/compact``."""

    instructions: Annotated[str, msgspec.Meta(max_length=20_000)] | None = None


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``POST sessions/{id}/approvals/{call_id}``."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "session"] = "once"


class SessionsHandler(PrimeHandler):
    """``GET|POST sessions``."""

    @web.authenticated
    @authorized("read")
    async def get(self) -> None:
        notebook = self.get_query_argument("notebook", None)
        notebook = notebook and normal_path(notebook)
        more: dict[str, Any] = {}
        if self.query_flag("missing"):
            found = await self.agent.without_notebook()
        elif self.query_flag("active"):
            found = await self.agent.active()
            more["elsewhere"] = await self.agent.at_work_elsewhere()
        else:
            found = await asyncio.to_thread(self.sessions.list, notebook)
        lines = [line(self, one) for one in found if notebook in (None, one.notebook)]
        self.answer({"sessions": lines, **more})

    @web.authenticated
    @authorized("write")
    async def post(self) -> None:
        body = self.body(NewSession)
        session = await self.agent.start_session(
            body.notebook,
            model=body.model,
            permission_mode=body.permission_mode,
            title=body.title,
            restore=body.restore,
            user=self.user,
        )
        self.settings["prime_leases"].announce(session.notebook, by=body.client)
        emit_session_start(self.event_logger, session)
        self.set_header("Location", f"{self.request.path.rstrip('/')}/{session.id}")
        self.answer(await describe(self, session), HTTPStatus.CREATED)


class SessionHandler(PrimeHandler):
    """``GET|PATCH|DELETE sessions/{id}``."""

    @web.authenticated
    @authorized("read")
    async def get(self, session_id: str) -> None:
        self.answer(await describe(self, await self.session(session_id)))

    @web.authenticated
    @authorized("write")
    async def patch(self, session_id: str) -> None:
        session = await self.session(session_id)
        changes = self.body(SessionChanges)
        await self.agent.update(
            session,
            model=changes.model,
            permission_mode=changes.permission_mode,
            title=changes.title,
            notebook=changes.notebook,
            restore=changes.restore,
            snapshots=changes.snapshots,
            user=self.user,
        )
        self.answer(await describe(self, session))

    @web.authenticated
    @authorized("write")
    async def delete(self, session_id: str) -> None:
        await self.agent.delete_session(await self.session(session_id))
        self.answer_nothing()


def state_of(summary: SessionSummary) -> dict[str, Any]:
    """Return the state of a session without an open agent: idle, or waiting for a person."""
    turn = summary.waiting_turn
    if turn is None:
        return IDLE_STATE
    return {**IDLE_STATE, "running": True, "phase": "approval", "turn": turn}


def line(handler: PrimeHandler, summary: SessionSummary) -> dict[str, Any]:
    """Return the session as an entry of the list."""
    return {**msgspec.to_builtins(summary), "activity": handler.agent.activity(summary)}


async def describe(handler: PrimeHandler, session: Session) -> dict[str, Any]:
    """Return the session as in the list, with its settings and its state.

    This opens no agent: without one, everything that is pending is found in the log.
    """
    summary = await asyncio.to_thread(handler.sessions.summary, session)
    return {
        **line(handler, summary),
        "provider": session.provider,
        "model": session.model,
        "chosen_model": session.chosen_model,
        "permission_mode": session.permission_mode,
        "state": state_of(summary),
        "snapshots": await handler.agent.saved(session),
        **handler.agent.describe(session),
    }


class MessagesHandler(PrimeHandler):
    """``POST sessions/{id}/messages``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str) -> None:
        session = await self.session(session_id)
        message = self.body(Message)
        seq, queued = await self.agent.submit(session, message.text, message.attachments, self.user)
        self.answer({"seq": seq, "queued": queued}, HTTPStatus.ACCEPTED)


class RecordsHandler(PrimeHandler):
    """``GET sessions/{id}/records?after=&limit=``."""

    @web.authenticated
    @authorized("read")
    async def get(self, session_id: str) -> None:
        session = await self.session(session_id)
        after = self.query_integer("after", 0, 0, MAX_INTEGER)
        limit = self.query_integer("limit", 200, 1, PAGE_RECORDS)
        lines = await asyncio.to_thread(session.log.lines, after, limit, PAGE_BYTES)
        # Raw lines of the log, so that records of a newer version are passed on as well.
        records = [msgspec.Raw(line) for _, line in lines]
        self.answer({"records": records, "last_seq": session.log.last_seq})


class SearchHandler(PrimeHandler):
    """``GET sessions/{id}/search?q=&kinds=&before=&limit=``."""

    @web.authenticated
    @authorized("read")
    async def get(self, session_id: str) -> None:
        session = await self.session(session_id)
        query = self.get_query_argument("q", "").strip()
        if not query or len(query) > MAX_QUERY:
            raise PrimeError(
                f"`q` has {len(query)} characters.",
                code="invalid_request",
                hint=f"Give `q` from 1 to {MAX_QUERY} characters to search for.",
            )
        kinds = [kind for kind in self.get_query_argument("kinds", "").split(",") if kind]
        before = self.query_integer("before", 0, 0, MAX_INTEGER) or None
        limit = self.query_integer("limit", 20, 1, MAX_HITS)
        hits = await asyncio.to_thread(session.search, query, kinds or None, before, limit)
        self.answer({"hits": hits})


class InterruptHandler(PrimeHandler):
    """``POST sessions/{id}/interrupt``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str) -> None:
        session = await self.session(session_id)
        self.answer({"interrupted": await self.agent.interrupt(session, self.user)})


class CompactHandler(PrimeHandler):
    """``POST sessions/{id}/compact``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str) -> None:
        session = await self.session(session_id)
        body = self.body(Compaction, optional=True)
        started = await self.agent.compact(session, body.instructions, self.user)
        self.answer(started, HTTPStatus.ACCEPTED)


class ApprovalHandler(PrimeHandler):
    """``POST sessions/{id}/approvals/{call_id}``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str, call_id: str) -> None:
        session = await self.session(session_id)
        body = self.body(Decision)
        await self.agent.decide(session, call_id, body.decision, body.scope, self.user)
        self.answer_nothing()


class RevertHandler(PrimeHandler):
    """``POST sessions/{id}/turns/{turn}/revert``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str, turn: str) -> None:
        session = await self.session(session_id)
        self.answer(await self.agent.revert(session, turn, self.user))


class SendQueuedHandler(PrimeHandler):
    """``POST sessions/{id}/queue/send``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str) -> None:
        session = await self.session(session_id)
        self.answer({"sent": await self.agent.send_queued(session)}, HTTPStatus.ACCEPTED)


class QueueHandler(PrimeHandler):
    """``DELETE sessions/{id}/queue/{seq}``."""

    @web.authenticated
    @authorized("execute")
    async def delete(self, session_id: str, seq: str) -> None:
        session = await self.session(session_id)
        await self.agent.unqueue(session, int(seq), self.user)
        self.answer_nothing()
