"""The agents of the sessions in use: opened with the first use, closed when nobody needs them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prime_ext.agent.agent import Agent
    from prime_ext.agent.services import AgentServices
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.notebook.documents import Left
    from prime_ext.session.session import Session

IDLE_SECONDS = 30 * 60.0
"""After so long a session that nobody uses is closed: it holds files open, and what its context
holds in memory."""

IDLE_LOOK_SECONDS = 60.0
"""How often that is looked for."""


@dataclass(frozen=True)
class _Left:
    """What of a closed session is not in its log."""

    kernel: NotebookKernel
    seen_to: int
    """Losses of the kernel that the session knows of, see ``KernelRecovery.seen``."""
    documents: Left


class OpenAgents:
    """One agent for each session that is in use. Iterating gives those that are open."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self._agents: dict[str, Agent] = {}
        self._opening: dict[str, asyncio.Task[Agent]] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self._left: dict[str, _Left] = {}
        self._looking: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[Agent]:
        return iter(list(self._agents.values()))

    def known(self, session: Session) -> Agent | None:
        """The agent of ``session`` if it is open."""
        self._look_for_idle_ones()
        return self._agents.get(session.id)

    async def get(self, session: Session) -> Agent:
        """The agent of ``session``; opened, and its past taken in, if it is not open."""
        if session.id in self._closing:
            await self._closing[session.id]
        agent = self.known(session)
        if agent is not None:
            agent.variables.used()
            return agent
        task = self._opening.get(session.id)
        if task is None:
            task = asyncio.create_task(self._open(session))
            self._opening[session.id] = task
        return await asyncio.shield(task)

    async def _open(self, session: Session) -> Agent:
        try:
            # The loop and what it takes along is a good part of what the server's start would cost.
            from prime_ext.agent.agent import Agent

            await self._services.tools.load_packages(self._services.log)
            await self._read_switch(session.notebook)
            agent = Agent(session, self._services)
            left = self._left.pop(session.id, None)
            if left is not None:
                self._services.documents.take_up(session, left.documents)
                if left.kernel is agent.kernel:
                    agent.variables.recovery.missed_since(left.seen_to)
            await agent.open()
            self._agents[session.id] = agent
            agent.variables.used()
            return agent
        finally:
            self._opening.pop(session.id, None)

    async def _read_switch(self, notebook: str) -> None:
        try:
            content = await self._services.notebook_content(notebook)
        except PrimeError:  # deleted, or no notebook: there is nothing to respect
            return
        wishes = content.get("metadata", {}).get("prime")
        off = isinstance(wishes, dict) and wishes.get("snapshots") is False
        self._services.snapshot_switch.found_in_metadata(notebook, off)

    async def close_one(self, session: Session) -> None:
        """Stop whatever goes on in ``session``, for good."""
        opening = self._opening.get(session.id)
        if opening is not None:
            await asyncio.wait([opening])
        self._left.pop(session.id, None)
        agent = self._agents.pop(session.id, None)
        if agent is not None:
            await agent.close()

    async def close(self, save_for: float) -> None:
        """Stop them all; ``save_for``: see ``Agent.close``."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        agents = list(self)
        self._agents.clear()
        await asyncio.gather(
            *(agent.close(save_for=save_for) for agent in agents), return_exceptions=True
        )

    # --- those that nobody uses ---------------------------------------------------------------

    def _look_for_idle_ones(self) -> None:
        if self._looking is None:
            self._looking = asyncio.create_task(self._close_idle_ones())

    async def _close_idle_ones(self) -> None:
        while True:
            await asyncio.sleep(IDLE_LOOK_SECONDS)
            try:
                await self.close_idle(IDLE_SECONDS)
            except Exception:  # the next look may succeed
                self._services.log.warning("Closing idle sessions failed", exc_info=True)

    async def close_idle(self, seconds: float) -> None:
        """Close the sessions that nobody has used for so long; the next use opens them again.

        One stays open while something goes on or waits in it, while somebody watches, and while it
        is the one that saves and restores a kernel that lives. So no more are open than there are
        kernels, questions and watchers, and what was used lately.
        """
        store = self._services.store
        for session, used in store.unused(seconds):
            if store.used(session.id) != used:
                continue
            agent = self._agents.get(session.id)
            busy = session.watched if agent is None else not agent.is_idle
            if busy or session.id in self._opening:
                store.get(session.id)  # idle from now on at the earliest
                continue
            closed = self._closing[session.id] = asyncio.get_running_loop().create_future()
            try:
                if agent is not None:
                    await self._leave(session, agent)
                await asyncio.to_thread(store.release, session.id, used)
            finally:
                del self._closing[session.id]
                closed.set_result(None)

    async def _leave(self, session: Session, agent: Agent) -> None:
        """Close an agent; what it knows beyond its log is kept for the next."""
        documents = self._services.documents.leave(session)
        self._left[session.id] = _Left(agent.kernel, agent.variables.recovery.seen, documents)
        del self._agents[session.id]
        await agent.close()
