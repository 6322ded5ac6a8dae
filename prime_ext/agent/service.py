"""The interface that the HTTP handlers call: sessions, their agents, kernels and models."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext import __version__
from prime_ext.agent.consent import is_local
from prime_ext.agent.open_agents import IDLE_SECONDS, OpenAgents
from prime_ext.agent.permissions import in_force
from prime_ext.agent.prompts import system_prompt
from prime_ext.agent.services import AgentServices
from prime_ext.agent.titles import clean_title
from prime_ext.errors import PrimeError
from prime_ext.kernel.newest import newest_recorded
from prime_ext.kernel.snapshot_files import SWITCHED_OFF, stored_bytes
from prime_ext.models.model import ModelInfo
from prime_ext.notebook.lease import moved_path, normal_path
from prime_ext.session.records import AnyRecord, SessionStart, Settings, Title
from prime_ext.session.session import Session

if TYPE_CHECKING:
    from prime_ext.agent.agent import Agent
    from prime_ext.agent.attachment import Attachment
    from prime_ext.session.outline import SessionSummary
    from prime_ext.session.stream import Activity

SERVER_END_SECONDS = 20.0
"""Seconds that a stopping server waits for its kernels' variables to be saved."""

KERNEL_END_SECONDS = 10.0
"""Seconds that the shutdown of a kernel waits for its variables to be saved."""

MAX_TEXT_BYTES = 1 << 20
"""Maximum size of a message in bytes. Longer text belongs in a file, which the agent reads."""


class AgentService:
    """Operations on the sessions of the server and their agents."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self._agents = OpenAgents(services)

    # --- sessions -----------------------------------------------------------------------------

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
        """Create a session for a notebook and open its agent.

        Raises
        ------
        PrimeError
            ``notebook_not_found`` (404), ``permission_mode_forbidden`` (403), ``model_not_found``
            (400).
        """
        notebook = normal_path(notebook)
        mode = self._allowed_mode(permission_mode)
        kernel = await self._services.kernel_name(notebook)
        provider, model = await self._choose_model(model)
        await self._services.tools.load_packages(self._services.log)
        start = SessionStart(
            version=__version__,
            notebook=notebook,
            provider=provider,
            model=model,
            permission_mode=mode,
            system=system_prompt(notebook, kernel),
            tools=self._services.tools.definitions(),
            title=clean_title(title and self._services.redact(title)),
            restore=restore,
            user=user,
        )
        session = await asyncio.to_thread(self._services.store.create, start)
        await self.agent(session)
        return session

    async def agent(self, session: Session) -> Agent:
        """Return the agent of ``session``. See ``OpenAgents.get``."""
        return await self._agents.get(session)

    async def update(
        self,
        session: Session,
        *,
        model: str | None = None,
        permission_mode: str | None = None,
        title: str | None = None,
        notebook: str | None = None,
        restore: str | None = None,
        snapshots: bool | None = None,
        user: str | None = None,
    ) -> None:
        """Change the settings of a session. A parameter that is ``None`` stays as it is.

        Parameters
        ----------
        model:
            Takes effect at the next compaction, or at once while the context is empty.
        notebook:
            Path of the notebook that the session is about from now on.
        snapshots:
            Whether variables are saved, for all sessions of the notebook. ``False`` also deletes
            the existing snapshots.

        Raises
        ------
        PrimeError
            ``turn_running`` (409) if ``notebook`` changes while the agent or its code is at work,
            unless the notebook itself was moved; and the errors of `start_session`.
        """
        agent = await self.agent(session)
        # All arguments are checked before anything is changed.
        mode = self._allowed_mode(permission_mode) if permission_mode else None
        provider = None
        if model:
            provider, model = await self._choose_model(model)
        notebook = notebook and normal_path(notebook)
        if notebook == session.notebook:
            notebook = None
        if notebook is not None:
            await self._services.kernel_name(notebook)
        moved = notebook is not None and await self._services.notebook_is_gone(session.notebook)
        if notebook is not None and not moved:
            agent.refuse_at_work()
        if snapshots is not None:
            await self._switch_snapshots(session, snapshots, user)
        if notebook is not None and moved:
            # A client reports a rename, possibly before the contents manager's own event. A turn
            # that is running goes on.
            await self.renamed(session.notebook, notebook, user)
            notebook = None
        if title is not None:
            session.append(Title(title=clean_title(title) or "", user=user))
        if mode or model or notebook or restore:
            session.append(
                Settings(
                    permission_mode=mode,
                    model=model,
                    provider=provider,
                    notebook=notebook,
                    restore=restore,
                    user=user,
                ),
                sync=True,
            )
            (await self.agent(session)).publish_state()
        if notebook is not None:
            # The agent is opened anew, for the other notebook and its kernel.
            await self.close_session(session)
            await self.agent(session)

    async def _switch_snapshots(self, session: Session, on: bool, user: str | None) -> None:
        """Switch snapshots on or off for the session's notebook.

        Switching them off deletes the existing snapshots of all sessions of the notebook.
        """
        switch = self._services.snapshot_switch
        if (switch.reason(session.notebook) is None) == on:
            return
        await asyncio.to_thread(switch.switch, session.notebook, on)
        session.append(Settings(snapshots=on, user=user), sync=True)
        if not on:
            for summary in await asyncio.to_thread(self._services.store.list, session.notebook):
                with contextlib.suppress(PrimeError):  # in use by another server, or damaged
                    other = await asyncio.to_thread(self._services.store.get, summary.id)
                    await (await self.agent(other)).variables.forget(user)
            await self.agent(session)  # so that it remains the one that was used last
        for agent in self._agents:
            if agent.session.notebook == session.notebook:
                agent.publish_state()

    def activity(self, summary: SessionSummary) -> Activity:
        """Return the activity of a session.

        A session without an open agent is idle, or it waits for a person.
        """
        known = self._agents.activity(summary.id)
        return known or ("idle" if summary.waiting_turn is None else "waiting")

    async def active(self) -> list[SessionSummary]:
        """Return the sessions in which the agent works, or waits for a person.

        Waiting sessions are left out if another server holds them, or their notebook is gone.
        """
        summaries = await asyncio.to_thread(self._services.store.list)
        found = []
        for summary in summaries:
            if self.activity(summary) == "idle":
                continue
            if self._agents.activity(summary.id) is None and (
                await asyncio.to_thread(self._services.store.is_held_elsewhere, summary.id)
                or await self._services.notebook_is_gone(summary.notebook)
            ):
                continue
            found.append(summary)
        return found

    async def at_work_elsewhere(self) -> list[dict[str, Any]]:
        """Return the notebooks below the root that agents of other processes work on.

        Returns
        -------
        list
            One dictionary per notebook, with the fields of ``Holder``. ``host`` is ``None`` if the
            process runs on this machine.
        """
        locks, root = self._services.locks, self._services.root
        holders = await asyncio.to_thread(locks.elsewhere, root)
        return [
            {
                "notebook": notebook,
                "url": holder.url,
                "pid": holder.pid,
                "host": None if holder.is_here else holder.host,
                "since": holder.since,
            }
            for notebook, holder in holders.items()
        ]

    async def without_notebook(self) -> list[SessionSummary]:
        """Return the sessions whose notebook was deleted, or moved outside of Jupyter."""
        summaries = await asyncio.to_thread(self._services.store.list)
        gone = {
            notebook: await self._services.notebook_is_gone(notebook)
            for notebook in {summary.notebook for summary in summaries}
        }
        return [summary for summary in summaries if gone[summary.notebook]]

    async def renamed(self, old: str, new: str, user: str | None = None) -> None:
        """Update all sessions after a notebook, or a folder above it, was renamed."""
        self._services.documents.rename(old, new)
        self._services.locks.rename(self._services.root / old, self._services.root / new)
        await asyncio.to_thread(self._services.snapshot_switch.rename, old, new)
        for summary in await asyncio.to_thread(self._services.store.list):
            moved = moved_path(summary.notebook, old, new)
            if moved is None:
                continue
            # Jupyter updates its own session only if a page has the notebook open.
            await self._services.kernels.move_along(summary.notebook, moved)
            self._services.kernels.rename(summary.notebook, moved)
            with contextlib.suppress(PrimeError):  # in use by another server, or damaged
                session = await asyncio.to_thread(self._services.store.get, summary.id)
                if session.notebook != moved:
                    session.append(Settings(notebook=moved, user=user))

    async def close_session(self, session: Session) -> None:
        """Stop all work in a session and close its agent. The next use opens it again."""
        async with self._agents.closed(session):
            pass

    async def delete_session(self, session: Session) -> None:
        """Stop all work in a session, and delete the session with all of its files.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404) if it was deleted already.
        """
        async with self._agents.closed(session):
            session.close("deleted")  # on the event loop, because its subscribers run there
            await asyncio.to_thread(self._services.store.delete, session.id)

    async def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Close idle sessions. See ``OpenAgents.close_idle``."""
        await self._agents.close_idle(seconds)

    async def before_shutdown(self, kernel_id: str) -> None:
        """Save the variables of a kernel that the server is about to shut down."""
        agents = [a for a in self._agents if a.kernel.kernel_id == kernel_id]
        await asyncio.gather(*(a.variables.save_before_end(KERNEL_END_SECONDS) for a in agents))

    async def close(self) -> None:
        """Save the kernels' variables and stop all agents, because the server stops."""
        await self._agents.close(save_for=SERVER_END_SECONDS)
        await self._services.snapshot_limit.close()

    def describe(self, session: Session) -> dict[str, Any]:
        """Return what ``GET sessions/{id}`` adds to the session's summary."""
        agent = self._agents.known(session)
        permissions = self._services.permission_config
        mode = in_force(
            session.permission_mode, permissions.allowed_modes, permissions.default_mode
        )
        return {"permission_mode": mode, **(agent.describe() if agent else {})}

    async def saved(self, session: Session) -> dict[str, Any]:
        """Return what ``GET sessions/{id}`` says about the session's snapshots."""
        config = self._services.snapshot_config
        off = self._services.snapshot_switch.reason(session.notebook)
        return {
            "on": config.enabled and off is None,
            "reason": off if config.enabled else SWITCHED_OFF,
            "restore": session.restore or config.restore,
            "bytes": await asyncio.to_thread(stored_bytes, session.folder),
        }

    async def saved_in_all(self) -> dict[str, Any]:
        """Return what ``GET status`` says about the snapshots of all sessions."""
        config, limit = self._services.snapshot_config, self._services.snapshot_limit
        stored = await asyncio.to_thread(limit.stored)
        return {
            "enabled": config.enabled,
            "restore": config.restore,
            "bytes": sum(entry.bytes for entry in stored),
            "limit_bytes": limit.bytes,
        }

    # --- what a person does in a session ------------------------------------------------------

    async def submit(
        self,
        session: Session,
        text: str,
        attachments: list[Attachment] | None,
        user: str | None,
    ) -> tuple[int, bool]:
        """Send or queue a message. See ``Agent.submit``.

        Raises
        ------
        PrimeError
            ``empty_message`` (400), ``message_too_large`` (413).
        """
        if not text.strip() and not attachments:
            raise PrimeError(
                "The message is empty.",
                code="empty_message",
                hint="Type or attach something first.",
            )
        size = len(text.encode("utf-8", "replace"))
        if size > MAX_TEXT_BYTES:
            raise PrimeError(
                f"The message has {size / 1e6:.1f} MB, the limit is {MAX_TEXT_BYTES / 1e6:.1f} MB.",
                code="message_too_large",
                hint="Save long text to a file next to the notebook and name the file instead.",
                status=413,
            )
        agent = await self.agent(session)
        return await agent.submit(text, attachments or [], user)

    async def interrupt(self, session: Session, user: str | None) -> bool:
        """Stop the work under way; return ``False`` if there is none."""
        return (await self.agent(session)).interrupt(user)

    async def compact(
        self, session: Session, instructions: str | None, user: str | None
    ) -> dict[str, Any]:
        """Compact now or at the next step, and return ``{compaction_id}``."""
        agent = await self.agent(session)
        return {"compaction_id": agent.compact(instructions, user)}

    async def decide(
        self, session: Session, call_id: str, decision: str, scope: str, user: str | None
    ) -> None:
        """Answer an approval request. See ``Approvals.decide``."""
        (await self.agent(session)).approvals.decide(call_id, decision, scope, user)

    async def revert(self, session: Session, turn: str, user: str | None) -> dict[str, Any]:
        """Revert the agent's changes in a turn, and return the ``revert`` record."""
        return _as_dict(await (await self.agent(session)).revert(turn, user))

    def summary_of(self, name: str, arguments: Any) -> str:
        """Return one line that describes a tool call to a person.

        This is the tool's name if the tool gives no summary, or does not exist.
        """
        try:
            return self._services.tools.get(name).summary(arguments) or name
        except Exception:  # unknown tool, invalid arguments, or a bug in a package's tool
            return name

    async def send_queued(self, session: Session) -> bool:
        """Send the queued messages now. See ``Agent.send_queued``."""
        return await (await self.agent(session)).send_queued()

    async def unqueue(self, session: Session, seq: int, user: str | None) -> None:
        """Remove a message from the queue. See ``Agent.unqueue``."""
        (await self.agent(session)).unqueue(seq, user)

    # --- the kernel ---------------------------------------------------------------------------

    async def variables(self, notebook: str) -> dict[str, Any]:
        """Return ``{variables, omitted}`` of the notebook's kernel, without starting one.

        See ``NotebookKernel.list_variables``. Without a kernel there are no variables.
        """
        notebook = normal_path(notebook)
        if await self._services.kernels.session_of(notebook) is None:
            return {"variables": [], "omitted": 0}
        return await self._services.kernels.for_notebook(notebook).list_variables()

    async def snapshot(self, session: Session, user: str | None) -> dict[str, Any]:
        """Save the kernel's variables now, and return the ``snapshot`` record."""
        return _as_dict(await (await self.agent(session)).variables.snapshot(user))

    async def snapshots(self, session: Session) -> list[dict[str, Any]]:
        """Return the snapshots that can be restored, newest first.

        They are followed by those that must be imported first. This only reads: the session's agent
        is not opened.
        """
        files = self._services.snapshot_files(session.folder)

        def read() -> list[dict[str, Any]]:
            return [*files.restorable(newest_recorded(session.log)), *files.list_foreign()]

        return await asyncio.to_thread(read)

    async def restore(
        self,
        session: Session,
        snapshot_id: str,
        names: list[str] | None,
        overwrite: bool,
        user: str | None,
    ) -> dict[str, Any]:
        """Restore the kernel's variables, and return the ``restore`` record."""
        agent = await self.agent(session)
        return _as_dict(await agent.variables.restore(snapshot_id, names, overwrite, user))

    async def give_up_restore(self, session: Session) -> bool:
        """Cancel restores that people requested. See ``SessionKernel.give_up_restore``."""
        return await (await self.agent(session)).variables.give_up_restore()

    # --- models -------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the answer to ``GET status``, apart from the snapshots."""
        models = self._services.models
        provider = models.default_provider()
        endpoint = models.endpoint(provider)
        permissions = self._services.permission_config
        return {
            "version": __version__,
            "provider": provider,
            "model": self._services.model_config.model or None,
            "offline": provider == "offline",
            "endpoint": endpoint,
            "remote": endpoint is not None and not is_local(endpoint),
            "credentials": models.credentials.source(),
            "permission_modes": list(permissions.allowed_modes),
            "default_permission_mode": self._allowed_mode(None),
        }

    async def models(self) -> list[ModelInfo]:
        """Return the models that a session can use."""
        return await self._services.models.list()

    async def set_credentials(
        self, provider: str, api_key: str | None, base_url: str | None
    ) -> str | None:
        """Store a key on the server, for use from now on. See ``ModelRegistry.connect``."""
        return await self._services.models.connect(provider, api_key, base_url)

    async def clear_credentials(self) -> None:
        """Delete the key that was entered in the panel."""
        await asyncio.to_thread(self._services.models.credentials.clear)
        self._services.models.forget()

    async def _choose_model(self, wanted: str | None) -> tuple[str, str]:
        models = self._services.models
        if wanted == "offline":
            return "offline", "offline"
        provider = models.default_provider()
        if not wanted:
            return provider, await models.default_model(provider)
        if provider == "offline":
            raise PrimeError(
                f"The model {wanted!r} needs a key or a server, and none is configured.",
                code="no_credentials",
                hint="Connect a model in the panel, or set PRIME_API_KEY and restart the server.",
            )
        return provider, wanted

    def _allowed_mode(self, mode: str | None) -> str:
        allowed = self._services.permission_config.allowed_modes
        if mode is None:
            default = self._services.permission_config.default_mode
            return in_force(default, allowed, default)
        if mode not in allowed:
            raise PrimeError(
                f"The permission mode {mode!r} is not available here.",
                code="permission_mode_forbidden",
                hint=f"Choose one of: {', '.join(allowed)}.",
                status=403,
            )
        return mode


def _as_dict(record: AnyRecord) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(record)
    return values
