"""Handlers for the snapshots of a session's kernel."""

from __future__ import annotations

from typing import Annotated

import msgspec
from tornado import web

from prime_ext.handlers.base import PrimeHandler, authorized


class Restoring(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``POST sessions/{id}/snapshots/{snapshot_id}/restore``."""

    names: Annotated[list[str], msgspec.Meta(max_length=10_000)] | None = None
    """Names of the variables to restore; all if left out."""
    overwrite: bool = False
    """Whether to overwrite variables that have changed since."""


class SnapshotsHandler(PrimeHandler):
    """``GET|POST sessions/{id}/snapshots``."""

    @web.authenticated
    @authorized("read")
    async def get(self, session_id: str) -> None:
        session = await self.session(session_id)
        self.answer({"snapshots": await self.agent.snapshots(session)})

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str) -> None:
        session = await self.session(session_id)
        self.answer(await self.agent.snapshot(session, self.user))


class RestoreHandler(PrimeHandler):
    """``POST|DELETE sessions/{id}/snapshots/{snapshot_id}/restore``."""

    @web.authenticated
    @authorized("execute")
    async def post(self, session_id: str, snapshot_id: str) -> None:
        session = await self.session(session_id)
        body = self.body(Restoring, optional=True)
        self.answer(
            await self.agent.restore(session, snapshot_id, body.names, body.overwrite, self.user)
        )

    @web.authenticated
    @authorized("execute")
    async def delete(self, session_id: str, snapshot_id: str) -> None:
        session = await self.session(session_id)
        self.answer({"given_up": await self.agent.give_up_restore(session)})
