"""The agents of the sessions in use: opened with the first use, closed when nobody needs them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from prime_ext.agent.agent import Agent
    from prime_ext.agent.services import AgentServices
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.notebook.documents import Left
    from prime_ext.session.session import Session
    from prime_ext.session.stream import Activity

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
        self._closing: dict[str, asyncio.Event] = {}
        """Sessions that are being closed; set once they are."""
        self._left: dict[str, _Left] = {}
        self._looking: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[Agent]:
        return iter(list(self._agents.values()))

    def activity(self, session_id: str) -> Activity | None:
        """What goes on in a session; ``None`` if it is not open."""
        agent = self._agents.get(session_id)
        return agent.activity if agent else None

    def known(self, session: Session) -> Agent | None:
        """The agent of ``session`` if it is open."""
        self._look_for_idle_ones()
        return self._agents.get(session.id)

    async def get(self, session: Session) -> Agent:
        """The agent of ``session``; opened, and its past taken in, if it is not open.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404): it was deleted or closed meanwhile.
        """
        await self._settled(session)
        agent = self.known(session)
        if agent is not None:
            agent.variables.used()
            return agent
        if session.is_closed:
            raise PrimeError(
                f"Session {session.id} was closed meanwhile.",
                code="session_not_found",
                hint="Ask for it again; it may have been deleted.",
                status=404,
            )
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
            try:
                await agent.open()
            except BaseException:
                await agent.close()  # it follows the kernel already
                raise
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

    @asynccontextmanager
    async def closed(self, session: Session) -> AsyncIterator[None]:
        """Stop whatever goes on in ``session``, for good. Whoever wants to use it waits until the
        block has ended."""
        async with self._closed(session):
            opening = self._opening.get(session.id)
            if opening is not None:
                await asyncio.wait([opening])
            self._left.pop(session.id, None)
            agent = self._agents.pop(session.id, None)
            if agent is not None:
                await agent.close()
            yield

    @asynccontextmanager
    async def _closed(self, session: Session) -> AsyncIterator[None]:
        await self._settled(session)
        closed = self._closing[session.id] = asyncio.Event()
        try:
            yield
        finally:
            del self._closing[session.id]
            closed.set()

    async def _settled(self, session: Session) -> None:
        """Return when nobody closes the session."""
        while session.id in self._closing:
            await self._closing[session.id].wait()

    async def close(self, save_for: float) -> None:
        """Stop them all; ``save_for``: see ``Agent.close``."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        opening = list(self._opening.values())
        if opening:
            await asyncio.wait(opening, timeout=save_for)
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
        agents = list(self)
        self._agents.clear()
        ends = await asyncio.gather(
            *(agent.close(save_for=save_for) for agent in agents), return_exceptions=True
        )
        for agent, end in zip(agents, ends, strict=True):
            if isinstance(end, BaseException):
                self._services.log.error(
                    "The agent of session %s did not stop well", agent.session.id, exc_info=end
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
        # In threads: closing waits for the disk, and so does who wants the session meanwhile.
        for session, used in await asyncio.to_thread(store.unused, seconds):
            if store.used(session.id) != used or session.id in self._closing:
                continue
            agent = self._agents.get(session.id)
            busy = session.watched if agent is None else not agent.is_idle
            if busy or session.id in self._opening:
                # Idle from now on at the earliest.
                await asyncio.to_thread(store.get, session.id)
                continue
            async with self._closed(session):
                if agent is not None:
                    await self._leave(session, agent)
                await asyncio.to_thread(store.release, session.id, used)

    async def _leave(self, session: Session, agent: Agent) -> None:
        """Close an agent; what it knows beyond its log is kept for the next."""
        documents = self._services.documents.leave(session)
        self._left[session.id] = _Left(agent.kernel, agent.variables.recovery.seen, documents)
        del self._agents[session.id]
        await agent.close()
