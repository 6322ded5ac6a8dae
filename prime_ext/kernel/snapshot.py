"""Saving and restoring the variables of a session's kernel, and the records about it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from prime_ext.errors import PrimeError
from prime_ext.kernel.capturing import Capturing, id_of, told_names
from prime_ext.kernel.freshness import Moment, kernel_status, told_state
from prime_ext.kernel.missed_runs import missed
from prime_ext.kernel.newest import Newest
from prime_ext.kernel.refusals import kernel_replaced
from prime_ext.kernel.restoring import Restored, Restoring, Wanted
from prime_ext.kernel.snapshot_files import SWITCHED_OFF
from prime_ext.kernel.state import STATE_SECONDS
from prime_ext.kernel.unrestored import unrestored
from prime_ext.session.records import NO_KERNEL, Restore, Snapshot
from prime_ext.within import acquire_within

if TYPE_CHECKING:
    from prime_ext.config import SnapshotConfig
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.state import Manifest

_Timed = TypeVar("_Timed", Snapshot, Restore)

BUSY = "the kernel is busy"
AT_WORK = "its variables are being saved or restored already"

COMPACTION_SECONDS = 0.5
"""How long a compaction waits for a snapshot to become durable before it goes on without."""

CHECK_SECONDS = 10.0
"""How long a compaction waits for the kernel's variables to be compared with the snapshot."""


class SnapshotKeeper:
    """Saves and restores the variables of one session's kernel.

    Parameters
    ----------
    files:
        Where the snapshots lie.
    off:
        Returns why nothing is saved now, in a few words; ``None`` if snapshots are on.
    awaits_restore:
        Whether a loss of the kernel's process has not been handled yet. Saving its successor would
        make an empty namespace the newest snapshot.
    on_saved:
        Called after each save with the number of bytes in its record.
    newest:
        The last snapshot according to the session's records.
    lacks:
        Whether, according to these records, the variables of a former process were not all
        restored. It may read the log, and is called in a thread.
    """

    def __init__(
        self,
        files: SnapshotFiles,
        kernel: NotebookKernel,
        config: SnapshotConfig,
        log: logging.Logger,
        off: Callable[[], str | None] = lambda: None,
        awaits_restore: Callable[[], bool] = lambda: False,
        on_saved: Callable[[int], None] = lambda _: None,
        newest: Newest | None = None,
        lacks: Callable[[], bool] = lambda: False,
    ) -> None:
        self.files = files
        self._kernel = kernel
        self._config = config
        self._log = log
        self._off = off
        self._awaits_restore = awaits_restore
        self._on_saved = on_saved
        self._newest = newest or Newest()
        self._lacks = lacks
        self.is_put_off = False
        """Whether the last capture was put off because the kernel's process had been replaced. One
        is due once the variables are restored."""
        self._lock = asyncio.Lock()
        self._captured: Moment | None = None
        self._brought_back: Moment | None = None
        """Moment of the last full cold restore."""
        self._restored: str | None = None
        """Id of the older snapshot that was restored last, until its variables are saved."""
        self._unavailable: str | None = None

    @property
    def off(self) -> str | None:
        """Why nothing is saved now; ``None`` if snapshots are on."""
        return self._off() if self._config.enabled else SWITCHED_OFF

    # -- saving -----------------------------------------------------------------------------

    async def capture(self, trigger: str) -> Snapshot:
        """Save the variables, if that is possible now.

        Parameters
        ----------
        trigger:
            ``compaction`` (returns soon, perhaps before the snapshot is durable), ``turn``,
            ``shutdown``, ``manual`` or ``kernel``.

        Returns
        -------
        Snapshot
            Outcome ``ok``, ``unchanged``, or ``skipped`` or ``failed`` with the reason. A kernel
            that is busy, absent or not Python raises no error.
        """
        started = time.monotonic()
        try:
            # A capture in progress ends only when the kernel answers, which may take hours.
            patience = COMPACTION_SECONDS if trigger == "compaction" else None
            await acquire_within(patience, self._lock)
        except asyncio.TimeoutError:
            return Snapshot(outcome="skipped", trigger=trigger, reason=self._why_held())
        self.is_put_off = False
        try:
            if self.off is not None:
                return Snapshot(outcome="skipped", trigger=trigger, reason=self.off)
            kernel_id = await self._kernel.find()
            if kernel_id is None:
                return Snapshot(outcome="skipped", trigger=trigger, reason=NO_KERNEL)
            if trigger == "compaction" and self._captured == self._kernel.moment:
                same = await self._same_as_before(trigger, kernel_id)
                if same is not None:
                    return same
            try:
                record = await self._save(trigger, kernel_id)
            except PrimeError as error:
                return self._not_saved(error, trigger, kernel_id)
        finally:
            self._lock.release()
        self._on_saved(record.bytes)
        return _timed(record, started)

    def _why_held(self) -> str:
        """Return why the lock is held: its holder waits for the kernel, or saves or restores."""
        return BUSY if self._kernel.state == "busy" else AT_WORK

    async def _save(self, trigger: str, kernel_id: str) -> Snapshot:
        moment = self._kernel.moment
        if self._awaits_restore():
            raise kernel_replaced()
        # The first save of a process needs protection of the older snapshots: see `_protect`.
        first = not moment.same_process(self._captured)
        if first:
            await self._protect()
        capturing = Capturing(self._kernel, self.files, self._config)
        report = await capturing.run(
            process=moment.generation,
            after=self._newest,
            wait=COMPACTION_SECONDS if trigger == "compaction" else STATE_SECONDS,
            on_lost=self._forget_capture,
        )
        self._captured = moment
        self._restored = None
        self._unavailable = None
        # Without a generation the snapshot is not durable yet; `current` is the one before it.
        manifest = await self._manifest("current") if report["generation"] else None
        if manifest is not None:
            self._newest = Newest(manifest.id, manifest.generation)
        if first and manifest is not None:
            # If only the server was restarted, the process may be the one that was kept aside.
            await asyncio.to_thread(self.files.release, manifest.process)
        return capturing.record(report, trigger, kernel_id, manifest)

    async def _same_as_before(self, trigger: str, kernel_id: str) -> Snapshot | None:
        """Return the record of a save that is unnecessary, since nothing ran after the last one.

        ``None`` if the last snapshot is no longer on the disk.
        """
        manifest = await self._manifest("current")
        if self._newest.is_lost(manifest):
            return None
        return Snapshot(
            outcome="unchanged",
            trigger=trigger,
            snapshot_id=id_of(manifest),
            generation=manifest.generation if manifest is not None else 0,
            kernel_id=kernel_id,
        )

    def _forget_capture(self) -> None:
        """Note that a capture never became durable, so the snapshot is not current."""
        self._captured = None

    def _not_saved(self, error: PrimeError, trigger: str, kernel_id: str) -> Snapshot:
        if error.code in ("kernel_language", "kernel_python"):
            self._unavailable = error.message
        self.is_put_off = error.code == "kernel_replaced"
        skipped = self._unavailable is not None or self.is_put_off or error.code == "kernel_busy"
        if not skipped:
            self._log.warning("No snapshot (%s): %s", trigger, error.message)
        return Snapshot(
            outcome="skipped" if skipped else "failed",
            trigger=trigger,
            kernel_id=kernel_id,
            reason=error.message,
        )

    async def _protect(self) -> None:
        """Keep the existing snapshots aside before a new process saves for the first time.

        A restore from them may still be wanted, and two saves after a restart without a restore
        would push the good state out of the two generations.
        """
        await asyncio.to_thread(self.files.wait_for_writer)
        await asyncio.to_thread(self.files.set_foreign_aside)
        await asyncio.to_thread(self.files.keep_aside)

    async def forget(self) -> int:
        """Delete all snapshots; return their size in bytes.

        Raises
        ------
        PrimeError
            ``snapshot_busy`` (503): another process is writing.
        """
        from prime_ext.state import SnapshotError

        async with self._lock:
            try:
                size = await asyncio.to_thread(self.files.delete)
            except SnapshotError as error:
                raise PrimeError(
                    f"What was saved could not be deleted: {error}",
                    code="snapshot_busy",
                    hint="Try again in a moment.",
                    status=503,
                ) from None
            self._captured = None
        return size

    # -- restoring --------------------------------------------------------------------------

    async def restore(
        self,
        trigger: str,
        mode: str,
        names: list[str] | None = None,
        overwrite: bool = False,
        snapshot_id: str | None = None,
        given_up: asyncio.Event | None = None,
    ) -> Restore:
        """Restore the variables.

        Parameters
        ----------
        trigger:
            ``crash``, ``restart``, ``shutdown``, ``manual`` or ``resume``.
        mode:
            ``hot``: live, unchanged variables stay. ``cold``: for a new process. A hot restore
            becomes a cold one if the process is not the one that was saved.
        names:
            Restore only these names; ``None`` for all.
        overwrite:
            Also replace variables that the user has changed since.
        snapshot_id:
            Default: the snapshot restored last, if nothing was saved since, otherwise the newest.
            If that one is damaged, the one before it is tried.
        given_up:
            Set by the caller to give up: no further load is started then.

        Returns
        -------
        Restore
            Outcome ``ok``, ``partial``, ``unchanged``, or ``failed`` with the reason.

        Raises
        ------
        PrimeError
            ``snapshot_not_found``, ``snapshot_foreign``, ``snapshots_off``, and with the trigger
            ``manual`` any error that made the restore fail.
        """
        async with self._lock:
            started = time.monotonic()
            if self.off is not None:
                raise PrimeError(
                    f"Variables are neither saved nor restored here: {self.off}.",
                    code="snapshots_off",
                    hint="Switch snapshots on for the notebook, or set SnapshotConfig.enabled.",
                    status=409,
                )
            await asyncio.to_thread(self.files.wait_for_writer)
            generations = await self._generations(snapshot_id)
            wanted = Wanted(
                await self._mode(mode, generations[0]),
                names,
                overwrite,
                process_state=names is None or not self._has_process_state,
                given_up=given_up or asyncio.Event(),
            )
            try:
                restoring = Restoring(self._kernel, self.files, self._log)
                newest = self._newest if snapshot_id is None else Newest()
                restored = await restoring.run(wanted, generations, newest)
            except PrimeError as error:
                if trigger == "manual":
                    raise
                return Restore(outcome="failed", mode=mode, trigger=trigger, reason=error.message)
            return _timed(await self._done(trigger, wanted, restored), started)

    async def check(self) -> Restore:
        """After a compaction, compare the live variables with the snapshot and load missing ones.

        A snapshot in progress is waited for; a busy kernel is left alone. Variables that were
        changed since stay as they are.
        """
        wanted = Wanted("hot")
        outcome = "skipped"
        reason = self.off or NO_KERNEL
        try:
            await acquire_within(0 if self._kernel.state == "busy" else CHECK_SECONDS, self._lock)
        except asyncio.TimeoutError:
            reason = self._why_held()
            return Restore(outcome=outcome, mode="hot", trigger="compaction", reason=reason)
        try:
            started = time.monotonic()
            if self.off is None and self._kernel.kernel_id is not None:
                try:
                    if not self._kernel.moment.same_process(self._captured):
                        reason = "the kernel has no snapshot of this process"
                    elif self._kernel.state == "busy":
                        reason = BUSY
                    else:
                        restored = await asyncio.wait_for(self._compare(wanted), CHECK_SECONDS)
                        return _timed(await self._done("compaction", wanted, restored), started)
                except PrimeError as error:
                    outcome, reason = "failed", error.message
                except asyncio.TimeoutError:
                    reason = f"the comparison would have taken longer than {CHECK_SECONDS:g} s"
        finally:
            self._lock.release()
        return Restore(outcome=outcome, mode="hot", trigger="compaction", reason=reason)

    async def _compare(self, wanted: Wanted) -> Restored:
        await asyncio.to_thread(self.files.wait_for_writer)
        restoring = Restoring(self._kernel, self.files, self._log)
        return await restoring.run(wanted, ["current"], self._newest)

    async def _done(self, trigger: str, wanted: Wanted, restored: Restored) -> Restore:
        loaded = restored.loaded
        outcome = "ok" if restored.complete else "partial"
        if restored.complete and not loaded:
            outcome = "unchanged"
        there = await self._manifest("current")
        is_newest = there is not None and there.id == id_of(restored.manifest)
        is_newest = is_newest and not self._newest.is_lost(there)
        behind: dict[str, Any] = {}
        if trigger != "compaction" and restored.manifest is not None:
            behind = self.behind(restored.manifest.created, is_newest=is_newest)
        if wanted.names is None and wanted.mode == "cold":
            self._brought_back = self._kernel.moment
        if wanted.names is None and loaded:
            self._restored = None if is_newest else id_of(restored.manifest)
        if restored.complete and wanted.names is None:
            changed = any(e["action"] == "kept" and e["reason"] for e in restored.names.values())
            if not changed and is_newest:
                self._captured = self._kernel.moment
        names = told_names(restored.names)
        if outcome == "unchanged" and wanted.names is None:
            # All names were compared and none was changed: a list of them would add nothing.
            names = {}
        return Restore(
            outcome=outcome,
            mode=restored.mode,
            trigger=trigger,
            snapshot_id=id_of(restored.manifest),
            kernel_id=self._kernel.kernel_id,
            names=names,
            asked=wanted.names or [],
            saved=restored.manifest.created if restored.manifest and not is_newest else None,
            behind=behind,
            attempts=restored.attempts,
            reason="; ".join(restored.notes) or None,
            empty=restored.manifest is not None and not restored.manifest.names,
        )

    async def _mode(self, asked: str, generation: str) -> str:
        """Return ``hot`` if asked for and the snapshot is of this very process, else ``cold``."""
        if asked == "cold" or not self._kernel.moment.same_process(self._captured):
            return "cold"
        manifest, newest = await self._manifest(generation), await self._manifest("current")
        same = manifest and newest and newest.process == manifest.process
        return "hot" if same else "cold"

    @property
    def _has_process_state(self) -> bool:
        """Whether this process was saved or fully restored before.

        It then has a working directory and random states of its own, which a restore of single
        names must not replace.
        """
        moment = self._kernel.moment
        return moment.same_process(self._captured) or moment.same_process(self._brought_back)

    async def _generations(self, snapshot_id: str | None) -> list[str]:
        if snapshot_id is None:
            newest = ["current", "previous"]
            live = await asyncio.to_thread(self.files.find, self._restored or "")
            return newest if live is None else list(dict.fromkeys([live, *newest]))
        generation = await asyncio.to_thread(self.files.find, snapshot_id)
        if generation is None:
            await asyncio.to_thread(self.files.refuse_foreign, snapshot_id)
            raise PrimeError(
                f"There is no snapshot {snapshot_id!r}.",
                code="snapshot_not_found",
                hint="It may have been replaced by a newer one; list the snapshots.",
                status=404,
            )
        return [generation]

    # -- telling ----------------------------------------------------------------------------

    async def snapshots(self) -> Sequence[dict[str, Any]]:
        """Return the restorable snapshots. See `SnapshotFiles.restorable`."""
        return await asyncio.to_thread(self.files.restorable, self._newest)

    def behind(self, created: str, *, is_newest: bool = True) -> dict[str, Any]:
        """Return the field ``behind`` of `Restore`: runs that the snapshot of ``created`` lacks."""
        return missed(self._kernel.lost_runs, created, self._captured if is_newest else None)

    async def kernel_state(self) -> dict[str, Any]:
        """Return the present state of kernel and snapshot, in the format of `told_state`.

        ``unrestored``, if given, is the number of variables that were saved of a former process
        and are not in the present one.
        """
        await self._kernel.find()
        now = self._kernel.moment
        state = self._kernel.state
        unavailable = self.off or self._unavailable
        status = kernel_status(
            state=state, unavailable=unavailable, captured=self._captured, now=now
        )
        if status == "stale" and self._captured is not None and await self._still_current():
            self._captured = now
            status = "current"
        manifest = None if status == "none" else await self._manifest("current")
        if status == "current" and self._newest.is_lost(manifest):
            status = "stale"
        reason = unavailable or (NO_KERNEL if status == "none" else None)
        told = told_state(status, manifest, reason, is_off=self.off is not None)
        missing = 0 if status == "none" else await asyncio.to_thread(self._unrestored, now)
        return {**told, "unrestored": missing} if missing else told

    def _unrestored(self, now: Moment) -> int:
        """Return how many variables of a former process the present one lacks, if that is known."""
        if self._captured is None or not self._lacks():
            return 0
        generations = self.files.manifests()
        of_this_process = now.same_process(self._captured)
        return len(unrestored(generations, of_this_process=of_this_process))

    async def inventory(self) -> list[dict[str, Any]]:
        """Return the live variables, as `NotebookKernel.variables`; empty if no kernel runs.

        Raises
        ------
        PrimeError
            The kernel cannot be asked.
        """
        if await self._kernel.find() is None:
            return []
        return await self._kernel.variables()

    async def _still_current(self) -> bool:
        with contextlib.suppress(PrimeError):
            return await self._kernel.state_current(self.files.folder, self.files.key)
        return False

    async def _manifest(self, generation: str) -> Manifest | None:
        return await asyncio.to_thread(self.files.manifest, generation)


def _timed(record: _Timed, started: float) -> _Timed:
    elapsed = round((time.monotonic() - started) * 1000)
    return msgspec.structs.replace(record, duration_ms=elapsed)
