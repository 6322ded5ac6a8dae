"""Uses a session as a person does: sends, waits for what comes, stops, approves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from prime_ext.agent.open_agents import OpenAgents
from prime_ext.agent.service import AgentService
from prime_ext.session.records import AnyRecord, TurnEnd
from prime_ext.session.session import Session
from tests.messages_api.server import MessagesAPI

PATIENCE = 60.0


class Driver:
    """One session in the hands of a test."""

    def __init__(self, service: AgentService, session: Session, api: MessagesAPI) -> None:
        self.service = service
        self.session = session
        self.api = api

    async def send(self, text: str) -> tuple[int, bool]:
        return await self.service.submit(self.session, text, None, "ada")

    async def ask(self, text: str) -> TurnEnd:
        """Send ``text`` and wait until its turn has ended."""
        after = self.session.log.last_seq
        await self.send(text)
        end = await self.record("turn_end", after=after)
        assert isinstance(end, TurnEnd)
        return end

    async def stop(self) -> None:
        assert await self.service.interrupt(self.session, "ada")

    async def end_server(self) -> None:
        """Let the server end. From here on the service is that of its successor."""
        await self.service.close()
        self.service._agents = OpenAgents(self.service._services)

    async def idle(self) -> None:
        """Return once the agent is at rest, which it is soon after the end of its turn."""
        agent = await self.service.agent(self.session)
        while agent.state()["running"]:
            await self.frame(lambda frame: frame["type"] == "state")

    async def allow(self, call_id: str, scope: str = "once") -> None:
        await self.service.decide(self.session, call_id, "allow", scope, "ada")

    async def deny(self, call_id: str) -> None:
        await self.service.decide(self.session, call_id, "deny", "once", "ada")

    async def record(self, kind: str, *, after: int = 0, **fields: Any) -> Any:
        """The first record of ``kind`` with these ``fields`` behind ``after``, once it is there."""
        frame = await self.frame(
            lambda f: (
                f["type"] == "record"
                and f["record"]["kind"] == kind
                and all(f["record"].get(key) == value for key, value in fields.items())
            ),
            after=after,
        )
        return self.session.log.get(frame["record"]["seq"])

    async def frame(
        self, wanted: Callable[[dict[str, Any]], bool], *, after: int | None = None
    ) -> dict[str, Any]:
        """The first frame that is ``wanted``, once it is there."""
        start = self.session.log.last_seq if after is None else after

        async def find() -> dict[str, Any]:
            async with self.session.subscribe(start) as frames:
                async for frame in frames:
                    if wanted(frame):
                        return frame
            raise AssertionError("The stream ended.")

        return await asyncio.wait_for(find(), PATIENCE)

    def records(self, kind: str | None = None) -> list[AnyRecord]:
        return [r for r in self.session.log.read() if kind in (None, r.kind)]

    def kinds(self) -> list[str]:
        return [record.kind for record in self.session.log.read()]

    async def requests(self, count: int) -> list[Any]:
        """The first ``count`` requests that reached the model's server."""
        return await asyncio.to_thread(self.api.wait_for_requests, count)
