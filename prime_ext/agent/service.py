"""What the doors call: sessions by notebook, their agents, and the models they run on."""

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
"""How long a server that stops waits for the variables of its kernels to be saved."""

KERNEL_END_SECONDS = 10.0
"""How long a kernel that is shut down is waited for."""

MAX_TEXT_BYTES = 1 << 20
"""Of one message. What is longer belongs in a file that the agent reads in parts."""


class AgentService:
    """What can be done with the sessions of the server and their agents."""

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
        """Start a session about a notebook.

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
        """The agent of ``session``. See ``OpenAgents.get``."""
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
        """Change a session. A model takes effect at the next compaction, or at once while the
        context is empty. ``snapshots`` holds for all sessions of the notebook; off deletes what
        was saved.

        Raises
        ------
        PrimeError
            ``turn_running`` (409) for another ``notebook`` while the agent or its code is at work
            in this one, unless this one was moved; what `start_session` raises.
        """
        agent = await self.agent(session)
        # What is refused is refused before anything is changed.
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
            # A client tells of a rename, perhaps before the server's own news of it: the turn that
            # may be running goes on.
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
            # To another notebook and its kernel.
            await self.close_session(session)
            await self.agent(session)

    async def _switch_snapshots(self, session: Session, on: bool, user: str | None) -> None:
        """Save the variables of the session's notebook, or no longer and delete what there is."""
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
            await self.agent(session)  # which stays the one in use
        for agent in self._agents:
            if agent.session.notebook == session.notebook:
                agent.publish_state()

    def activity(self, summary: SessionSummary) -> Activity:
        """What goes on in a session. One that no agent has open can only wait for a person."""
        known = self._agents.activity(summary.id)
        return known or ("idle" if summary.waiting_turn is None else "waiting")

    async def active(self) -> list[SessionSummary]:
        """Sessions in which the agent works, or waits for a person who can answer it here."""
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
        """The notebooks below the root that agents of other processes work on, see ``Holder``.

        ``host`` is left out where it is this server's own.
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
        """Sessions whose notebook is not where it was: moved outside of Jupyter, or deleted."""
        summaries = await asyncio.to_thread(self._services.store.list)
        gone = {
            notebook: await self._services.notebook_is_gone(notebook)
            for notebook in {summary.notebook for summary in summaries}
        }
        return [summary for summary in summaries if gone[summary.notebook]]

    async def renamed(self, old: str, new: str, user: str | None = None) -> None:
        """A notebook, or a folder above it, was renamed: its sessions follow, running or not."""
        self._services.documents.rename(old, new)
        self._services.locks.rename(self._services.root / old, self._services.root / new)
        await asyncio.to_thread(self._services.snapshot_switch.rename, old, new)
        for summary in await asyncio.to_thread(self._services.store.list):
            moved = moved_path(summary.notebook, old, new)
            if moved is None:
                continue
            # Jupyter moves its own session only where a page has the notebook open.
            await self._services.kernels.move_along(summary.notebook, moved)
            self._services.kernels.rename(summary.notebook, moved)
            with contextlib.suppress(PrimeError):  # in use by another server, or damaged
                session = await asyncio.to_thread(self._services.store.get, summary.id)
                if session.notebook != moved:
                    session.append(Settings(notebook=moved, user=user))

    async def close_session(self, session: Session) -> None:
        """Stop whatever goes on in a session; the next use opens it again."""
        async with self._agents.closed(session):
            pass

    async def delete_session(self, session: Session) -> None:
        """Stop whatever goes on in a session, and delete it with all that it has kept.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404): someone was faster.
        """
        async with self._agents.closed(session):
            session.close("deleted")  # here, on the event loop, where its subscribers are
            await asyncio.to_thread(self._services.store.delete, session.id)

    async def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Close sessions that nobody uses. See ``OpenAgents.close_idle``."""
        await self._agents.close_idle(seconds)

    async def before_shutdown(self, kernel_id: str) -> None:
        """The server is about to shut a kernel down: save what it holds."""
        agents = [a for a in self._agents if a.kernel.kernel_id == kernel_id]
        await asyncio.gather(*(a.variables.save_before_end(KERNEL_END_SECONDS) for a in agents))

    async def close(self) -> None:
        """Save the kernels' variables and stop all agents; called when the server stops."""
        await self._agents.close(save_for=SERVER_END_SECONDS)
        await self._services.snapshot_limit.close()

    def describe(self, session: Session) -> dict[str, Any]:
        """What ``GET sessions/{id}`` adds to the session's own facts."""
        agent = self._agents.known(session)
        permissions = self._services.permission_config
        mode = in_force(
            session.permission_mode, permissions.allowed_modes, permissions.default_mode
        )
        return {"permission_mode": mode, **(agent.describe() if agent else {})}

    async def saved(self, session: Session) -> dict[str, Any]:
        """What ``GET sessions/{id}`` says of the session's snapshots."""
        config = self._services.snapshot_config
        off = self._services.snapshot_switch.reason(session.notebook)
        return {
            "on": config.enabled and off is None,
            "reason": off if config.enabled else SWITCHED_OFF,
            "restore": session.restore or config.restore,
            "bytes": await asyncio.to_thread(stored_bytes, session.folder),
        }

    async def saved_in_all(self) -> dict[str, Any]:
        """What ``GET status`` says of all snapshots."""
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
        """Send a message, or queue it. See ``Agent.submit``.

        Raises
        ------
        PrimeError
            ``empty_message`` (400), ``message_too_large`` (413).
        """
        if not text.strip():
            raise PrimeError(
                "The message is empty.", code="empty_message", hint="Type something first."
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
        """Stop what goes on; ``False`` if nothing does."""
        return (await self.agent(session)).interrupt(user)

    async def compact(
        self, session: Session, instructions: str | None, user: str | None
    ) -> dict[str, Any]:
        """Compact now or at the next step; returns ``{compaction_id}``."""
        agent = await self.agent(session)
        return {"compaction_id": agent.compact(instructions, user)}

    async def decide(
        self, session: Session, call_id: str, decision: str, scope: str, user: str | None
    ) -> None:
        """Answer an approval. See ``Approvals.decide``."""
        (await self.agent(session)).approvals.decide(call_id, decision, scope, user)

    async def revert(self, session: Session, turn: str, user: str | None) -> dict[str, Any]:
        """Take back what the agent changed in a turn; returns the ``revert`` record."""
        return _as_dict(await (await self.agent(session)).revert(turn, user))

    def summary_of(self, name: str, arguments: Any) -> str:
        """One line for people about a tool call; the tool's name where it has none."""
        try:
            return self._services.tools.get(name).summary(arguments) or name
        except Exception:  # arguments that do not fit, or a tool of a package
            return name

    async def unqueue(self, session: Session, seq: int, user: str | None) -> None:
        """Take a queued message back. See ``Agent.unqueue``."""
        (await self.agent(session)).unqueue(seq, user)

    # --- the kernel ---------------------------------------------------------------------------

    async def variables(self, notebook: str) -> dict[str, Any]:
        """``{variables, omitted}`` of the notebook's kernel; none if it has no kernel.

        See ``NotebookKernel.variables``. No kernel is started for it.
        """
        notebook = normal_path(notebook)
        if await self._services.kernels.session_of(notebook) is None:
            return {"variables": [], "omitted": 0}
        return await self._services.kernels.for_notebook(notebook).list_variables()

    async def snapshot(self, session: Session, user: str | None) -> dict[str, Any]:
        """Save the kernel's variables now; returns the ``snapshot`` record."""
        return _as_dict(await (await self.agent(session)).variables.snapshot(user))

    async def snapshots(self, session: Session) -> list[dict[str, Any]]:
        """What can be restored, newest first, then what has to be imported before."""
        keeper = (await self.agent(session)).variables.keeper
        return [*await keeper.snapshots(), *await asyncio.to_thread(keeper.files.list_foreign)]

    async def restore(
        self,
        session: Session,
        snapshot_id: str,
        names: list[str] | None,
        overwrite: bool,
        user: str | None,
    ) -> dict[str, Any]:
        """Restore the kernel's variables; returns the ``restore`` record."""
        agent = await self.agent(session)
        return _as_dict(await agent.variables.restore(snapshot_id, names, overwrite, user))

    async def give_up_restore(self, session: Session) -> bool:
        """End a restore that a person waits for. See ``SessionKernel.give_up_restore``."""
        return await (await self.agent(session)).variables.give_up_restore()

    # --- models -------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """For ``GET status``."""
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
        """What can be chosen."""
        return await self._services.models.list()

    async def set_credentials(
        self, provider: str, api_key: str | None, base_url: str | None
    ) -> str | None:
        """Keep a key on the server; new sessions use it at once. See ``ModelRegistry.connect``."""
        return await self._services.models.connect(provider, api_key, base_url)

    async def clear_credentials(self) -> None:
        """Forget the key that was entered in the panel."""
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
