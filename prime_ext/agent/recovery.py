"""Recovery after the loss of a kernel's process: its variables are restored or offered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import msgspec

from prime_ext.agent.kernel_events import (
    DIED_AGAIN,
    RESTORE_CUT_OFF,
    RESTORE_STOPPED,
    restore_event,
)
from prime_ext.agent.recipes import lacking, with_lost_names, with_recipes
from prime_ext.agent.restore_policy import (
    FOLLOWING,
    Action,
    decide,
    is_cut_off,
    restores_in_a_row,
)
from prime_ext.closing import cancelled
from prime_ext.completed import completed
from prime_ext.errors import PrimeError
from prime_ext.kernel.freshness import Moment
from prime_ext.kernel.restoring import DAMAGED
from prime_ext.session.records import AnyRecord, Restore, RestoreStart, Settings, Snapshot
from prime_ext.within import within

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.session import Session

_CHANGED = ("ok", "partial", "offered", "removed")
"""Outcomes of records that say which process held the state, or that it was offered or removed."""

RESTORING_MESSAGE = "Restoring the kernel's variables"

STOP_SECONDS = 5.0
"""Seconds that Stop waits for the kernel to end the loading of variables."""

FOREIGN = (
    "what was saved was signed by another server, so it was not loaded. If you trust it, stop this "
    "server and run: {command}"
)

_TRIGGERS = {"crash": "crash", "user": "restart", "new": "shutdown"}
"""Reason for the loss of a process, as given by `NotebookKernel` → trigger of the restore."""


def _moves(record: AnyRecord) -> bool:
    return isinstance(record, Settings) and record.notebook is not None


class KernelRecovery:
    """Restore the variables of a session's kernel, or offer to, once for each loss.

    Parameters
    ----------
    mode:
        Returns the restore mode in force; see `restore_policy.decide`.
    cells:
        Returns the sources of the notebook's code cells.
    on_change:
        Called when a restore outside of a turn begins, and when it ends.
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
        self._restored_at = Moment(None, kernel.generation, 0)
        """Moment of the kernel at which the last automatic restore ended."""
        self._awaited: str | None = None
        """Trigger of a restore that waits until there is a kernel."""
        self._seeing_to = False
        self._cut_off_at: Moment | None = None
        """Moment of the kernel at which a restore was cancelled."""
        self.restoring = False
        """Whether a restore goes on outside of a turn."""

    async def after_death(self, turn: str | None, reason: str = "crash") -> str | None:
        """Handle the replacement of the kernel's process.

        Parameters
        ----------
        reason:
            ``crash``, ``user`` (restarted by a person) or ``new`` (after a shutdown).

        Returns
        -------
        str | None
            Text for the model; ``None`` if this loss was already handled, or nothing had been
            saved.
        """
        async with self._lock:
            if self._kernel.generation == self._handled:
                return None
            self._handled = self._kernel.generation
            trigger = self._awaited or _TRIGGERS.get(reason, "restart")
            self._awaited = None
            return await self._see_to(trigger, turn)

    async def after_shutdown(self) -> None:
        """Handle that the notebook's kernel was culled, or shut down by a person."""
        async with self._lock:
            offer = None if self._awaited is not None else await self._offer("shutdown")
            if offer is None:
                return
            action = self._decide(offer)
            if action == "restore":
                self._awaited = "shutdown"
            elif action == "offer" and not self._is_offered():
                self._write(offer, None)

    async def look(self) -> None:
        """Check, when the session is opened, whether its previous kernel is gone.

        The server may have been restarted, the kernel shut down while the session was closed, or
        the session moved from another machine.
        """
        try:
            await asyncio.to_thread(self._keeper.files.set_foreign_aside)
        except PrimeError as error:  # this is repeated before anything is saved
            self._log.warning("%s", error.message)
        saved = [
            record
            for record in self._session.records_of("snapshot", "restore")
            if isinstance(record, (Snapshot, Restore)) and record.outcome in _CHANGED
        ]
        last = await asyncio.to_thread(self._last_restore)
        cut_off = last is not None and is_cut_off(*last)
        if not saved:
            # A server that was killed while the first snapshot was written left no record of it.
            # If kernels end with their server, the present kernel did not write that snapshot.
            kernel_id = await self._kernel.find()
            is_new = kernel_id is None or not self._kernel.outlives_server
            if is_new or cut_off:
                await self._resume()
            return
        if saved[-1].outcome == "removed":
            return
        if saved[-1].outcome == "offered" and not (cut_off and self._restores_always):
            if await self._offer("resume") is None:  # on another machine
                await self._tell_of_foreign()
            return
        moved = [r.seq for r in self._session.records_of("settings") if _moves(r)]
        if moved and moved[-1] > saved[-1].seq:
            return  # the session has changed its notebook; the old kernel need not be gone
        kernel_id = await self._kernel.find()
        if kernel_id is not None and kernel_id == saved[-1].kernel_id and not cut_off:
            return
        if not await self._resume():
            await self._tell_of_foreign()
            await self._tell_of_damage("resume", None)

    @property
    def _restores_always(self) -> bool:
        return decide(self._mode(), "resume") == "restore"

    def _last_restore(self) -> tuple[RestoreStart, list[AnyRecord]] | None:
        """Return the start of the last automatic restore, and the records that say how it went."""
        log = self._session.log
        start = next(filter(None, map(log.get, log.seqs_of("restore_start")[-1:])), None)
        if not isinstance(start, RestoreStart):
            return None
        return start, log.get_all([seq for seq in log.seqs_of(*FOLLOWING) if seq > start.seq])

    async def _in_a_row(self, trigger: str) -> int:
        """Return the number of consecutive automatic restores so far that did not last."""
        now = datetime.now(timezone.utc)
        last = await asyncio.to_thread(self._last_restore)
        if last is None:
            return 0
        return restores_in_a_row(*last, trigger=trigger, lost_at=now, has_run=self._has_run)

    @property
    def _has_run(self) -> bool:
        """Whether code has run to its end in a lost process since the last automatic restore."""
        return any(
            not run.cut_off and not moment.is_reached_by(self._restored_at)
            for moment, run in self._kernel.lost_runs
        )

    async def _resume(self) -> bool:
        """Prepare a restore, or offer it; return ``False`` if there is nothing to restore."""
        offer = await self._offer("resume")
        if offer is None:
            return False
        action = self._decide(offer, await self._in_a_row("resume"))
        if action == "restore":
            self._awaited = "resume"
        elif action == "offer":
            self._write(self._with_reason(offer), None)
        return True

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
            return None  # reported already, and nothing was saved since
        failed = Restore(outcome="failed", mode="cold", trigger=trigger, reason=reason)
        return restore_event(self._write(await self.explained(failed), turn))

    @property
    def awaits_kernel(self) -> bool:
        """Whether a restore waits until there is a kernel."""
        return self._awaited is not None

    async def kernel_is_there(self) -> None:
        """Carry out the restore that waited until there is a kernel."""
        await self.before_call(None)

    async def before_call(self, turn: str | None) -> str | None:
        """Carry out a pending automatic restore before code runs, starting a kernel if necessary.

        Returns
        -------
        str | None
            Text for the model; in most cases ``None``.
        """
        # The kernel may have died between two calls, or during one that did not handle it.
        missed = await self.after_death(turn, self._kernel.loss or "crash")
        if missed is not None or self._awaited is None:
            return missed
        async with self._lock:
            return await self._bring_what_waits(turn)

    async def explained(self, record: Restore) -> Restore:
        """Return the record with the missing names, and the code that defined them."""
        log = self._session.log
        snapshots = (log.get(seq) for seq in reversed(log.seqs_of("snapshot")))
        record = await asyncio.to_thread(with_lost_names, record, snapshots)
        if not lacking(record):
            return record
        try:
            cells = await self._cells()
        except PrimeError:  # the file was deleted, or is not a notebook
            cells = []
        ran = await asyncio.to_thread(self._session.records_of, "assistant_message")
        return with_recipes(record, cells, ran)

    @property
    def is_pending(self) -> bool:
        """Whether a loss of the kernel is being handled, or still has to be."""
        lost = self._kernel.generation != self._handled
        return lost or self._awaited is not None or self._seeing_to

    @property
    def is_incomplete(self) -> bool:
        """Whether the kernel holds what a restore has loaded so far, and nothing was run since.

        To save that would replace the snapshot by a part of it.
        """
        return self._seeing_to or self._cut_off_at == self._kernel.moment

    @property
    def seen(self) -> int:
        """The kernel's ``generation`` up to which its losses were handled."""
        return self._handled

    def missed_since(self, seen: int) -> None:
        """Continue from the generation ``seen``, so that later losses are still handled."""
        self._handled = seen
        self._restored_at = Moment(None, seen, 0)

    def handled(self) -> None:
        """Count all losses as handled, because a person has restored the variables."""
        self._handled = self._kernel.generation
        self._awaited = None

    async def _bring_what_waits(self, turn: str | None) -> str | None:
        # The previous holder of the lock may have carried it out.
        trigger, self._awaited = self._awaited, None
        return None if trigger is None else await self._see_to(trigger, turn)

    # --- steps --------------------------------------------------------------------------------

    async def _see_to(self, trigger: str, turn: str | None) -> str | None:
        self._seeing_to = True
        try:
            return await self._restored_or_told(trigger, turn)
        except asyncio.CancelledError:
            self._cut_off_at = self._kernel.moment
            # The loss counts as handled, so without an offer the variables would be forgotten.
            await completed(self._tell_stopped(trigger))
            raise
        finally:
            self._seeing_to = False

    async def _restored_or_told(self, trigger: str, turn: str | None) -> str | None:
        record = await self._offer(trigger)
        if record is None:
            return await self._tell_of_damage(trigger, turn)
        in_a_row = await self._in_a_row(trigger)
        action = self._decide(record, in_a_row)
        if action == "restore":
            return await self._restore(trigger, turn, in_a_row + 1)
        if action == "offer":
            record = self._with_reason(record)
            if self._is_offered():  # since the kernel was shut down, or died before
                return restore_event(record) if turn else None
        elif record.saved is not None:
            return None  # The process that is gone held no variables.
        else:
            reason = "restoring is switched off"
            record = Restore(outcome="skipped", mode="cold", trigger=trigger, reason=reason)
        return restore_event(self._write(record, turn))

    async def _tell_stopped(self, trigger: str) -> None:
        """Offer the snapshot after its restore was cancelled.

        The record does not belong to the turn, so the next message reports it to the model.
        """
        if self._is_offered():
            return
        try:
            offer = await self._offer(trigger)
            if offer is not None and self._decide(offer) != "leave":
                self._write(msgspec.structs.replace(offer, reason=RESTORE_STOPPED), None)
        except PrimeError as error:
            self._log.warning("What was not restored could not be offered: %s", error.message)

    def _write(self, record: Restore, turn: str | None) -> Restore:
        stored = self._session.append(msgspec.structs.replace(record, turn=turn))
        assert isinstance(stored, Restore)
        return stored

    def _is_offered(self) -> bool:
        """Return whether the latest snapshot or restore record is an offer."""
        last = self._last()
        return isinstance(last, Restore) and last.outcome == "offered"

    def _last(self) -> AnyRecord | None:
        seqs = self._session.log.seqs_of("snapshot", "restore")
        return self._session.log.get(seqs[-1]) if seqs else None

    async def _offer(self, trigger: str) -> Restore | None:
        """Return the offer of the newest snapshot that contains variables; ``None`` without one."""
        if self._keeper.off is not None:
            return None
        # The very first snapshot may still be being written.
        await asyncio.to_thread(self._keeper.files.wait_for_writer)
        snapshots = await self._keeper.snapshots()
        last = next((snapshot for snapshot in snapshots if snapshot["names"]), None)
        if last is None:
            return None
        is_newest = last is snapshots[0]
        return Restore(
            outcome="offered",
            mode="cold",
            trigger=trigger,
            snapshot_id=last["snapshot_id"],
            saved=None if is_newest else last["created"],
            behind=self._keeper.behind(last["created"], is_newest=is_newest),
        )

    def _decide(self, offer: Restore, in_a_row: int = 0) -> Action:
        """Return what to do about a loss for which ``offer`` can be made."""
        action = decide(self._mode(), offer.trigger, in_a_row)
        # The process that is gone held no variables, perhaps because the user has deleted them.
        return "offer" if action == "restore" and offer.saved is not None else action

    def _with_reason(self, offer: Restore) -> Restore:
        """Return the offer with the reason why it takes the place of a restore, if it does."""
        if self._decide(offer) != "restore":
            return offer
        reason = DIED_AGAIN if offer.trigger == "crash" else RESTORE_CUT_OFF
        return msgspec.structs.replace(offer, reason=reason)

    async def _restore(self, trigger: str, turn: str | None, consecutive: int) -> str:
        if turn is None:
            self.restoring = True
            self._on_change()
        try:
            self._write_start(trigger, turn, consecutive)
            self._session.publish(
                {"type": "progress", "what": "kernel", "message": RESTORING_MESSAGE}
            )
            event = restore_event(self._write(await self._restored(trigger), turn))
        finally:
            if self.restoring:
                self.restoring = False
                self._on_change()
        return event

    def _write_start(self, trigger: str, turn: str | None, consecutive: int) -> None:
        start = RestoreStart(trigger=trigger, turn=turn, consecutive=consecutive)
        try:
            self._session.append(start)
        except PrimeError as error:  # a full disk is no reason to leave the kernel empty
            self._log.warning("The beginning of a restore was not recorded: %s", error.message)

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
        """Restore the variables. If the task is cancelled, also end the loading in the kernel."""
        given_up = asyncio.Event()
        restoring = asyncio.create_task(self._keeper.restore(trigger, "cold", given_up=given_up))
        try:
            await asyncio.wait({restoring})
        except asyncio.CancelledError:
            given_up.set()
            await completed(self._end(restoring))
            raise
        finally:
            # The restore itself may have crashed the kernel and continued with a new process.
            self._handled = self._kernel.generation
            self._restored_at = self._kernel.moment
        return restoring.result()

    async def _end(self, restoring: asyncio.Task[Restore]) -> None:
        try:
            # The restore must still be awaited at this point: only then is its request known.
            await within(STOP_SECONDS, self._kernel.stop_loading())
        except (PrimeError, asyncio.TimeoutError) as error:
            self._log.info("The kernel was not asked to end its loading: %s", error)
        await cancelled([restoring])
