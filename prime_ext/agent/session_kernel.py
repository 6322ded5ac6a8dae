"""The kernel of a session's notebook: saving its variables, and recovery when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.agent.captures import Captures
from prime_ext.agent.recipes import code_cells
from prime_ext.agent.recovery import KernelRecovery
from prime_ext.closing import cancelled, take_each
from prime_ext.errors import PrimeError
from prime_ext.session.records import AnyRecord, Snapshot

if TYPE_CHECKING:
    from prime_ext.agent.services import AgentServices
    from prime_ext.agent.work import Work
    from prime_ext.session.session import Session


class SessionKernel:
    """The kernel of one session's notebook, with its snapshots and its recovery.

    Parameters
    ----------
    work:
        Work of the agent, which saves after each of its own runs. A tool call that is running
        handles the death of the kernel.
    on_change:
        Called when the displayed state of the kernel may have changed.
    on_restoring:
        Called when a restore outside of a turn begins or ends; see ``recovery.restoring``.
    """

    def __init__(
        self,
        session: Session,
        services: AgentServices,
        work: Work,
        *,
        on_change: Callable[[], None],
        on_restoring: Callable[[], None],
    ) -> None:
        self.kernel = services.kernels.for_notebook(session.notebook)
        self.keeper = services.keeper(session, self.kernel, lambda: self.recovery.is_pending)
        self.recovery = KernelRecovery(
            session,
            self.kernel,
            self.keeper,
            services.log,
            mode=lambda: session.restore or services.snapshot_config.restore,
            cells=self._code_cells,
            on_change=on_restoring,
        )
        self._session = session
        self._services = services
        self._log = services.log
        self._captures = Captures(session, self.keeper, services.log)
        self._work = work
        self._on_change = on_change
        self._runs_seen = 0
        self._background: set[asyncio.Task[Any]] = set()
        self._restores: set[asyncio.Event] = set()
        """One event for each restore that a person requested; setting it cancels the restore."""

    async def open(self) -> None:
        """Check whether the previous kernel is gone, and subscribe to the present one."""
        await self.recovery.look()
        self._runs_seen = self.kernel.runs
        self.kernel.on_state.append(self._state_changed)
        self.kernel.on_restarted.append(self._restarted)
        self._in_background(self._follow())

    async def close(self, save_for: float | None) -> None:
        """Unsubscribe from the kernel.

        If ``save_for`` is given, its variables are first saved, within so many seconds.
        """
        for callbacks, callback in (
            (self.kernel.on_state, self._state_changed),
            (self.kernel.on_restarted, self._restarted),
        ):
            if callback in callbacks:
                callbacks.remove(callback)
        await take_each(
            self._log,
            lambda: self._saved_for_good(save_for),
            self._captures.close,
            lambda: cancelled(self._background),
        )
        if self.kernel.saver is self and save_for is None:
            self.kernel.saver = None  # if the server stops, no other session must save once more

    async def _saved_for_good(self, seconds: float | None) -> None:
        if seconds is not None:
            await self.save_before_end(seconds)

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- what people ask for ------------------------------------------------------------------

    async def snapshot(self, user: str | None) -> AnyRecord:
        """Save the variables now, and return the ``snapshot`` record."""
        record = await self.keeper.capture("manual")
        return self._session.append(msgspec.structs.replace(record, user=user))

    async def restore(
        self, snapshot_id: str, names: list[str] | None, overwrite: bool, user: str | None
    ) -> AnyRecord:
        """Restore a snapshot, and return the ``restore`` record.

        Raises
        ------
        PrimeError
            ``snapshot_not_found`` (404), or the reason why the kernel cannot load it.
        """
        given_up = asyncio.Event()
        self._restores.add(given_up)
        try:
            record = await self.keeper.restore(
                "manual",
                "hot",
                names=names,
                overwrite=overwrite,
                snapshot_id=snapshot_id,
                given_up=given_up,
            )
        finally:
            self._restores.discard(given_up)
        if names is None:  # after a partial restore, the loss must still be handled
            self.recovery.handled()
        self._captures.soon()
        record = await self.recovery.explained(record)
        return self._session.append(msgspec.structs.replace(record, user=user))

    async def give_up_restore(self) -> bool:
        """Cancel the restores that people requested; return ``False`` if there are none.

        A restore ends at once if the kernel is still running a cell before it, or responds to an
        interrupt; otherwise when the time limit for loading is reached.
        """
        given_up = bool(self._restores)
        for restore in self._restores:
            restore.set()
        if given_up:
            await self.kernel.stop_loading()
        return given_up

    async def forget(self, user: str | None) -> None:
        """Delete the snapshots, because they were switched off for the notebook."""
        size = await self.keeper.forget()
        if not size:
            return
        store = self._services.snapshot_config.store
        stays = f"what lies at {store} stays there; delete it by hand" if store else None
        self._session.append(
            Snapshot(outcome="removed", trigger="off", bytes=size, reason=stays, user=user)
        )

    def used(self) -> None:
        """Make this session, as the one used last, save what people run in the kernel."""
        self.kernel.saver = self

    @property
    def guards(self) -> bool:
        """Whether a live kernel depends on this session.

        Of the sessions of a notebook, the one used last saves what people run, and restores the
        variables after a crash, even while no browser is connected.
        """
        lives = self.kernel.state in ("starting", "idle", "busy")
        return self.recovery.restoring or (lives and self.kernel.saver in (None, self))

    # --- what happens -------------------------------------------------------------------------

    def after_run(self) -> None:
        """Save the variables, because the agent has run code."""
        self._captures.soon()

    async def save_before_end(self, seconds: float) -> None:
        """Save the variables a last time, because the kernel is about to be shut down."""
        if self.recovery.is_incomplete:
            return
        if self.kernel.kernel_id is not None and self.kernel.saver in (None, self):
            await self._captures.before_end(seconds)

    async def _follow(self) -> None:
        """Subscribe to the kernel's messages, and carry out a restore that waited for it."""
        try:
            if await self.kernel.follow():
                await self.recovery.kernel_is_there()
        except PrimeError as failure:
            self._log.info("The kernel is not followed yet: %s", failure.message)

    def _state_changed(self, state: str) -> None:
        self._on_change()
        if state == "none":
            self._in_background(self.recovery.after_shutdown())
            return
        if self.recovery.awaits_kernel and state in ("idle", "busy"):
            self._in_background(self.recovery.kernel_is_there())
        runs = self.kernel.runs
        if state == "idle" and runs != self._runs_seen:
            self._runs_seen = runs
            # Only one of several sessions of a notebook saves what people run, because each save
            # blocks the kernel.
            if not self._work.has_begun and self.kernel.saver in (None, self):
                self._captures.when_settled()

    def _restarted(self, reason: str) -> None:
        if not (self._work.has_begun and self._work.phase == "tool"):
            self._in_background(self.recovery.after_death(None, reason))

    async def _code_cells(self) -> list[str]:
        return code_cells(await self._services.notebook_content(self._session.notebook))
