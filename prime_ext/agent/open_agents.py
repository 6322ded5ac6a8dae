"""The agents of sessions in use: opened on first use, closed when idle."""

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
"""Seconds after which an unused session is closed, because it keeps files open and its context in
memory."""

IDLE_LOOK_SECONDS = 60.0
"""Seconds between two checks for idle sessions."""


@dataclass(frozen=True)
class _Left:
    """State of a closed session that is not in its log."""

    kernel: NotebookKernel
    seen_to: int
    """Kernel generation up to which losses were handled, see ``KernelRecovery.seen``."""
    documents: Left


class OpenAgents:
    """One agent for each session in use. Iterating yields the open agents."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self._agents: dict[str, Agent] = {}
        self._opening: dict[str, asyncio.Task[Agent]] = {}
        self._closing: dict[str, asyncio.Event] = {}
        """For each session that is being closed, an event that is set when it is closed."""
        self._left: dict[str, _Left] = {}
        self._looking: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[Agent]:
        return iter(list(self._agents.values()))

    def activity(self, session_id: str) -> Activity | None:
        """Return the activity of a session; ``None`` if it is not open."""
        agent = self._agents.get(session_id)
        return agent.activity if agent else None

    def known(self, session: Session) -> Agent | None:
        """Return the agent of ``session`` if it is open, else ``None``."""
        self._look_for_idle_ones()
        return self._agents.get(session.id)

    async def get(self, session: Session) -> Agent:
        """Return the agent of ``session``, after opening it if necessary.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404) if the session was deleted or closed meanwhile.
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
            # Imported on first use, because this import would take a good part of the startup time.
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
                await agent.close()  # because it may already be subscribed to the kernel
                raise
            self._agents[session.id] = agent
            agent.variables.used()
            return agent
        finally:
            self._opening.pop(session.id, None)

    async def _read_switch(self, notebook: str) -> None:
        try:
            content = await self._services.notebook_content(notebook)
        except PrimeError:  # deleted, or not a notebook
            return
        wishes = content.get("metadata", {}).get("prime")
        off = isinstance(wishes, dict) and wishes.get("snapshots") is False
        self._services.snapshot_switch.found_in_metadata(notebook, off)

    @asynccontextmanager
    async def closed(self, session: Session) -> AsyncIterator[None]:
        """Stop all work in ``session`` and close its agent.

        Calls to ``get`` for this session wait until the block has ended.
        """
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
        """Wait until the session is not being closed."""
        while session.id in self._closing:
            await self._closing[session.id].wait()

    async def close(self, save_for: float) -> None:
        """Close all agents. For ``save_for`` see ``Agent.close``."""
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
            except Exception:  # the next attempt may succeed
                self._services.log.warning("Closing idle sessions failed", exc_info=True)

    async def close_idle(self, seconds: float) -> None:
        """Close the sessions that have not been used for ``seconds``. The next use reopens them.

        A session stays open while work goes on or is pending in it, while somebody watches it, and
        while it is the one that saves and restores a live kernel. The number of open sessions is
        thus bounded by kernels, pending approvals, watchers and recent use.
        """
        store = self._services.store
        # Disk access happens in threads, including for requests that want the session meanwhile.
        for session, used in await asyncio.to_thread(store.unused, seconds):
            if store.used(session.id) != used or session.id in self._closing:
                continue
            agent = self._agents.get(session.id)
            busy = session.watched if agent is None else not agent.is_idle
            if busy or session.id in self._opening:
                # Count as used now, so that the idle time begins anew.
                await asyncio.to_thread(store.get, session.id)
                continue
            async with self._closed(session):
                if agent is not None:
                    await self._leave(session, agent)
                await asyncio.to_thread(store.release, session.id, used)

    async def _leave(self, session: Session, agent: Agent) -> None:
        """Close an agent, and keep its state that is not in the log for the next one."""
        documents = self._services.documents.leave(session)
        self._left[session.id] = _Left(agent.kernel, agent.variables.recovery.seen, documents)
        del self._agents[session.id]
        await agent.close()
