"""The agents of sessions in use: opened on first use, closed when idle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.agent.lifecycle import Lifecycle, Stage, closed_meanwhile, server_stopping
from prime_ext.closing import cancelled
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


class _Life:
    """One life of a session's agent. A session that is opened again gets a new one."""

    def __init__(self) -> None:
        self.lifecycle = Lifecycle()
        self.opening: asyncio.Task[None]
        """Not set if a session is closed that had no agent."""
        self.agent: Agent | None = None

    @property
    def stage(self) -> Stage:
        return self.lifecycle.stage

    @property
    def open_agent(self) -> Agent | None:
        return self.agent if self.stage is Stage.OPEN else None


@dataclass(frozen=True)
class _Left:
    """State of a closed session that is not in its log."""

    kernel: NotebookKernel
    seen_to: int
    """Kernel generation up to which losses were handled, see ``KernelRecovery.seen``."""
    documents: Left


class OpenAgents:
    """One agent for each session in use. Iterating yields the open agents.

    This is the only place where agents are opened and closed; see ``Stage``.
    """

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self._lives: dict[str, _Life] = {}
        """By session id; removed once closed."""
        self._left: dict[str, _Left] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_stopping = False
        """Whether the server stops: no agent is opened any more, since nobody would close it."""

    def __iter__(self) -> Iterator[Agent]:
        agents = [life.open_agent for life in self._lives.values()]
        return iter([agent for agent in agents if agent is not None])

    def _open_one(self, session_id: str) -> Agent | None:
        life = self._lives.get(session_id)
        return life.open_agent if life else None

    def activity(self, session_id: str) -> Activity | None:
        """Return the activity of a session; ``None`` if it is not open."""
        agent = self._open_one(session_id)
        return agent.activity if agent else None

    def known(self, session: Session) -> Agent | None:
        """Return the agent of ``session`` if it is open, else ``None``."""
        self._look_for_idle_ones()
        return self._open_one(session.id)

    # --- opening ------------------------------------------------------------------------------

    async def get(self, session: Session) -> Agent:
        """Return the agent of ``session``, after opening it if necessary.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404) if the session was deleted or closed meanwhile;
            ``server_stopping`` (503).
        """
        self._look_for_idle_ones()
        while True:
            life = self._lives.get(session.id)
            if life is None:
                if session.is_closed:
                    raise closed_meanwhile(session.id)
                if self._is_stopping:
                    raise server_stopping()
                life = self._lives[session.id] = _Life()
                life.opening = asyncio.create_task(self._open(session, life))
            if life.stage is Stage.OPENING:
                await asyncio.shield(life.opening)
            agent = life.open_agent
            if agent is not None:
                agent.variables.used()
                return agent
            await life.lifecycle.closed()

    async def _open(self, session: Session, life: _Life) -> None:
        try:
            # Imported on first use, because this import would take a good part of the startup time.
            from prime_ext.agent.agent import Agent

            await self._services.tools.load_packages(self._services.log)
            await self._read_switch(session.notebook)
            agent = life.agent = Agent(session, self._services, life.lifecycle)
            left = self._left.pop(session.id, None)
            if left is not None:
                self._services.documents.take_up(session, left.documents)
                if left.kernel is agent.kernel:
                    agent.variables.recovery.missed_since(left.seen_to)
            await agent.open()
        except BaseException:
            async with self._ending(session.id, life):
                if life.agent is not None:
                    await life.agent.close()  # because it may be subscribed to the kernel already
            raise
        life.lifecycle.move_to(Stage.OPEN)

    async def _read_switch(self, notebook: str) -> None:
        try:
            content = await self._services.notebook_content(notebook)
        except PrimeError:  # deleted, or not a notebook
            return
        wishes = content.get("metadata", {}).get("prime")
        off = isinstance(wishes, dict) and wishes.get("snapshots") is False
        self._services.snapshot_switch.found_in_metadata(notebook, off)

    # --- closing ------------------------------------------------------------------------------

    @asynccontextmanager
    async def closed(self, session: Session) -> AsyncIterator[None]:
        """Stop all work in ``session`` and close its agent.

        Calls to ``get`` for this session wait until the block has ended.
        """
        async with self._closing(session.id) as agent:
            self._left.pop(session.id, None)
            if agent is not None:
                await agent.close()
            yield

    @asynccontextmanager
    async def _closing(self, session_id: str) -> AsyncIterator[Agent | None]:
        """Keep the session from being opened until the block, which closes its agent, has ended."""
        while (life := self._lives.get(session_id)) is not None and life.stage is not Stage.OPEN:
            if life.stage is Stage.OPENING:
                await asyncio.wait([life.opening])
            else:
                await life.lifecycle.closed()
        if life is None:
            life = self._lives[session_id] = _Life()
        async with self._ending(session_id, life):
            yield life.agent

    @asynccontextmanager
    async def _ending(self, session_id: str, life: _Life) -> AsyncIterator[None]:
        life.lifecycle.move_to(Stage.CLOSING)
        try:
            yield
        finally:
            del self._lives[session_id]
            life.lifecycle.move_to(Stage.CLOSED)

    async def close(self, save_for: float) -> None:
        """Close all agents, and open none any more. For ``save_for`` see ``Agent.close``."""
        self._is_stopping = True
        if self._looking is not None:
            await cancelled([self._looking])
        lives = self._lives.values()
        opening = [life.opening for life in lives if life.stage is Stage.OPENING]
        if opening:
            await asyncio.wait(opening, timeout=save_for)
            await cancelled(opening)
        ids = list(self._lives)
        ends = await asyncio.gather(
            *(self._close(session_id, save_for) for session_id in ids), return_exceptions=True
        )
        for session_id, end in zip(ids, ends, strict=True):
            if isinstance(end, BaseException):
                self._services.log.error(
                    "The agent of session %s did not stop well", session_id, exc_info=end
                )

    async def _close(self, session_id: str, save_for: float) -> None:
        async with self._closing(session_id) as agent:
            if agent is not None:
                await agent.close(save_for=save_for)

    # --- those that nobody uses ---------------------------------------------------------------

    def _look_for_idle_ones(self) -> None:
        if self._looking is None and not self._is_stopping:
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
            life = self._lives.get(session.id)
            stage = life.stage if life else None
            if store.used(session.id) != used or stage is Stage.CLOSING:
                continue
            agent = self._open_one(session.id)
            busy = session.watched if agent is None else not agent.is_idle
            if busy or stage is Stage.OPENING:
                # Count as used now, so that the idle time begins anew.
                await asyncio.to_thread(store.get, session.id)
                continue
            async with self._closing(session.id):
                if agent is not None:
                    await self._leave(session, agent)
                await asyncio.to_thread(store.release, session.id, used)

    async def _leave(self, session: Session, agent: Agent) -> None:
        """Close an agent, and keep its state that is not in the log for the next one."""
        documents = self._services.documents.leave(session)
        self._left[session.id] = _Left(agent.kernel, agent.variables.recovery.seen, documents)
        await agent.close()
