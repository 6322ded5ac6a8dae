"""After the process behind the kernel is gone: its variables come back or are offered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from prime_ext.agent.completed import completed
from prime_ext.agent.kernel_events import RESTORE_STOPPED, restore_event
from prime_ext.agent.recipes import lacking, with_lost_names, with_recipes
from prime_ext.agent.restore_policy import decide
from prime_ext.errors import PrimeError
from prime_ext.kernel.restoring import DAMAGED
from prime_ext.session.records import AnyRecord, Restore, Settings, Snapshot
from prime_ext.within import within

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.session import Session

_CHANGED = ("ok", "partial", "offered", "removed")
"""Outcomes after which another process holds the state, or none does."""

RESTORING_MESSAGE = "Restoring the kernel's variables"

STOP_SECONDS = 5.0
"""Stop waits no longer for a kernel that is to end its loading."""

FOREIGN = (
    "what was saved was signed by another server, so it was not loaded. If you trust it, stop this "
    "server and run: {command}"
)

_TRIGGERS = {"crash": "crash", "user": "restart", "new": "shutdown"}
"""Why a kernel's process was lost, as `NotebookKernel` tells it → trigger of the restore."""


def _moves(record: AnyRecord) -> bool:
    return isinstance(record, Settings) and record.notebook is not None


class KernelRecovery:
    """Restores a session's kernel, or offers to, once for each loss.

    Parameters
    ----------
    mode:
        The setting in force: see `restore_policy.decide`.
    cells:
        Sources of the notebook's code cells.
    on_change:
        Called when a restore outside of a turn begins, and when it is over.
    """

    def __init__(
        self,
        session: Session,
        kernel: NotebookKernel,
        keeper: SnapshotKeeper,
        log: logging.Logger,
        *,
        mode: Callable[[], str],
        cells: Callable[[], Awaitable[list[str]]],
        on_change: Callable[[], None],
    ) -> None:
        self._session = session
        self._kernel = kernel
        self._keeper = keeper
        self._log = log
        self._mode = mode
        self._cells = cells
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._handled = kernel.generation
        self._awaited: str | None = None
        """Trigger of a restore that waits for a kernel to be there."""
        self._seeing_to = False
        self.restoring = False
        """A restore goes on outside of any turn."""

    async def after_death(self, turn: str | None, reason: str = "crash") -> str | None:
        """See to a kernel whose process was replaced: ``crash``, ``user`` or ``new``.

        Returns
        -------
        str | None
            What the model is to be told; ``None`` if this loss was already seen to, or nothing
            had been saved.
        """
        async with self._lock:
            if self._kernel.generation == self._handled:
                return None
            self._handled = self._kernel.generation
            trigger = self._awaited or _TRIGGERS.get(reason, "restart")
            self._awaited = None
            return await self._see_to(trigger, turn)

    async def after_shutdown(self) -> None:
        """The notebook has no kernel any more: culled, or shut down by a person."""
        async with self._lock:
            if self._awaited is not None or not await self._saved():
                return
            action = decide(self._mode(), "shutdown")
            if action == "restore":
                self._awaited = "shutdown"
            elif action == "offer" and not self._is_offered():
                self._write(await self._offer("shutdown"), None)

    async def look(self) -> None:
        """See whether the kernel of before is gone: the server was restarted, or the kernel shut
        down while nobody looked, or the session came from another machine."""
        try:
            await asyncio.to_thread(self._keeper.files.set_foreign_aside)
        except PrimeError as error:  # tried again before anything is saved
            self._log.warning("%s", error.message)
        saved = [
            record
            for record in self._session.records_of("snapshot", "restore")
            if isinstance(record, (Snapshot, Restore)) and record.outcome in _CHANGED
        ]
        if not saved:
            # A server that was killed while the first of all was written has left no record of it.
            # A kernel that ends with its server is not the one that wrote it.
            kernel_id = await self._kernel.find()
            if (kernel_id is None or not self._kernel.outlives_server) and await self._saved():
                await self._resume()
            return
        if saved[-1].outcome == "removed":
            return
        if saved[-1].outcome == "offered":
            if not await self._saved():  # on another machine
                await self._tell_of_foreign()
            return
        moved = [r.seq for r in self._session.records_of("settings") if _moves(r)]
        if moved and moved[-1] > saved[-1].seq:
            return  # attached to another notebook since: that kernel need not be gone
        kernel_id = await self._kernel.find()
        if kernel_id is not None and kernel_id == saved[-1].kernel_id:
            return
        if not await self._saved():
            await self._tell_of_foreign()
            await self._tell_of_damage("resume", None)
            return
        await self._resume()

    async def _resume(self) -> None:
        action = decide(self._mode(), "resume")
        if action == "restore":
            self._awaited = "resume"
        elif action == "offer":
            self._write(await self._offer("resume"), None)

    async def _tell_of_foreign(self) -> None:
        foreign = await asyncio.to_thread(self._keeper.files.foreign)
        if self._keeper.off or not foreign:
            return
        reason = FOREIGN.format(command=foreign[0].command)
        await self._tell_failed("resume", None, reason)

    async def _tell_of_damage(self, trigger: str, turn: str | None) -> str | None:
        if self._keeper.off or not await asyncio.to_thread(self._keeper.files.damaged):
            return None
        return await self._tell_failed(trigger, turn, DAMAGED)

    async def _tell_failed(self, trigger: str, turn: str | None, reason: str) -> str | None:
        last = self._last()
        if isinstance(last, Restore) and last.reason == reason:
            return None  # told already, and nothing was saved since
        failed = Restore(outcome="failed", mode="cold", trigger=trigger, reason=reason)
        return restore_event(self._write(await self.explained(failed), turn))

    @property
    def awaits_kernel(self) -> bool:
        """A restore goes ahead as soon as a kernel is there."""
        return self._awaited is not None

    async def kernel_is_there(self) -> None:
        """The notebook has a kernel: go ahead with what waited for one."""
        await self.before_call(None)

    async def before_call(self, turn: str | None) -> str | None:
        """Before code runs: restore what is to come back by itself, starting a kernel if need be.

        Returns what the model is to be told, ``None`` in most cases.
        """
        # A death that fell between two calls, or that nobody saw to because a call was on.
        missed = await self.after_death(turn, self._kernel.loss or "crash")
        if missed is not None or self._awaited is None:
            return missed
        async with self._lock:
            return await self._bring_what_waits(turn)

    async def explained(self, record: Restore) -> Restore:
        """With what is missing by name, and the code that made it."""
        log = self._session.log
        snapshots = (log.get(seq) for seq in reversed(log.seqs_of("snapshot")))
        record = await asyncio.to_thread(with_lost_names, record, snapshots)
        if not lacking(record):
            return record
        try:
            cells = await self._cells()
        except PrimeError:  # the notebook was deleted or is no notebook
            cells = []
        ran = await asyncio.to_thread(self._session.records_of, "assistant_message")
        return with_recipes(record, cells, ran)

    @property
    def is_pending(self) -> bool:
        """A loss is being seen to, or still to be seen to."""
        lost = self._kernel.generation != self._handled
        return lost or self._awaited is not None or self._seeing_to

    @property
    def seen(self) -> int:
        """The kernel's ``generation`` up to which its losses were seen to."""
        return self._handled

    def missed_since(self, seen: int) -> None:
        """Nobody looked since then: what was lost is seen to once the kernel is there."""
        self._handled = seen

    def handled(self) -> None:
        """A person has restored: what happened to the kernel meanwhile is seen to."""
        self._handled = self._kernel.generation
        self._awaited = None

    async def _bring_what_waits(self, turn: str | None) -> str | None:
        # Whoever held the lock before may have seen to it.
        trigger, self._awaited = self._awaited, None
        return None if trigger is None else await self._see_to(trigger, turn)

    # --- steps --------------------------------------------------------------------------------

    async def _see_to(self, trigger: str, turn: str | None) -> str | None:
        self._seeing_to = True
        try:
            return await self._restored_or_told(trigger, turn)
        except asyncio.CancelledError:
            # The loss counts as seen to: nothing else would bring the variables back.
            await completed(self._tell_stopped(trigger))
            raise
        finally:
            self._seeing_to = False

    async def _restored_or_told(self, trigger: str, turn: str | None) -> str | None:
        if not await self._saved():
            return await self._tell_of_damage(trigger, turn)
        action = decide(self._mode(), trigger)
        if action == "restore":
            return await self._restore(trigger, turn)
        if action == "offer":
            if self._is_offered():  # when the kernel was shut down
                return restore_event(await self._offer(trigger)) if turn else None
            record = await self._offer(trigger)
        else:
            reason = "restoring is switched off"
            record = Restore(outcome="skipped", mode="cold", trigger=trigger, reason=reason)
        return restore_event(self._write(record, turn))

    async def _tell_stopped(self, trigger: str) -> None:
        """Offer what was not restored; outside of the turn: the next message tells the model."""
        if self._keeper.off is not None or decide(self._mode(), trigger) == "leave":
            return
        if self._is_offered():
            return
        try:
            offer = await self._offer(trigger)
            if offer.snapshot_id is not None:
                self._write(msgspec.structs.replace(offer, reason=RESTORE_STOPPED), None)
        except PrimeError as error:
            self._log.warning("What was not restored could not be offered: %s", error.message)

    def _write(self, record: Restore, turn: str | None) -> Restore:
        stored = self._session.append(msgspec.structs.replace(record, turn=turn))
        assert isinstance(stored, Restore)
        return stored

    async def _saved(self) -> bool:
        if self._keeper.off is not None:
            return False
        # The first snapshot of all may be on its way.
        await asyncio.to_thread(self._keeper.files.wait_for_writer)
        return bool(await self._keeper.snapshots())

    def _is_offered(self) -> bool:
        """The last thing that happened to what is saved is that it was offered."""
        last = self._last()
        return isinstance(last, Restore) and last.outcome == "offered"

    def _last(self) -> AnyRecord | None:
        seqs = self._session.log.seqs_of("snapshot", "restore")
        return self._session.log.get(seqs[-1]) if seqs else None

    async def _offer(self, trigger: str) -> Restore:
        snapshots = await self._keeper.snapshots()
        if not snapshots:
            return Restore(outcome="offered", mode="cold", trigger=trigger)
        return Restore(
            outcome="offered",
            mode="cold",
            trigger=trigger,
            snapshot_id=snapshots[0]["snapshot_id"],
            behind=self._keeper.behind(snapshots[0]["created"]),
        )

    async def _restore(self, trigger: str, turn: str | None) -> str:
        if turn is None:
            self.restoring = True
            self._on_change()
        try:
            self._session.publish(
                {"type": "progress", "what": "kernel", "message": RESTORING_MESSAGE}
            )
            event = restore_event(self._write(await self._restored(trigger), turn))
        finally:
            # The restore itself may have killed the kernel, and gone on with another.
            self._handled = self._kernel.generation
            if self.restoring:
                self.restoring = False
                self._on_change()
        return event

    async def _restored(self, trigger: str) -> Restore:
        try:
            return await self.explained(await self._brought_back(trigger))
        except PrimeError as failure:
            reason = failure.message
        except Exception as failure:  # the state library runs foreign code
            self._log.exception("Restoring the kernel's variables failed")
            reason = repr(failure)
        return Restore(outcome="failed", mode="cold", trigger=trigger, reason=reason)

    async def _brought_back(self, trigger: str) -> Restore:
        """Restore; if the task is cancelled, end what the kernel loads as well."""
        given_up = asyncio.Event()
        restoring = asyncio.create_task(self._keeper.restore(trigger, "cold", given_up=given_up))
        try:
            await asyncio.wait({restoring})
        except asyncio.CancelledError:
            given_up.set()
            await completed(self._end(restoring))
            raise
        return restoring.result()

    async def _end(self, restoring: asyncio.Task[Restore]) -> None:
        try:
            # While it is still awaited: only then is it known what is to be ended.
            await within(STOP_SECONDS, self._kernel.stop_loading())
        except (PrimeError, asyncio.TimeoutError) as error:
            self._log.info("The kernel was not asked to end its loading: %s", error)
        restoring.cancel()
        await asyncio.gather(restoring, return_exceptions=True)
