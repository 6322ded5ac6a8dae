"""When a session's kernel is saved and restored, and what is said about it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from prime_ext.errors import PrimeError
from prime_ext.kernel.notebook_kernel import STATE_SECONDS
from prime_ext.kernel.snapshot_files import GENERATIONS
from prime_ext.session.records import Restore, Snapshot

if TYPE_CHECKING:
    from prime_ext.config import SnapshotConfig
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.state import Manifest

_Timed = TypeVar("_Timed", Snapshot, Restore)

MAX_CRASH_RESTORES = 2
"""Restores after a crash in a row; then the state itself may be what kills the kernel."""

COMPACTION_SECONDS = 0.5
"""How long a compaction waits for a capture to be durable; it goes on without."""


@dataclass(frozen=True)
class Moment:
    """Which process, and how far it had come: code that ran since makes a difference."""

    kernel_id: str | None
    generation: int
    runs: int

    def same_process(self, other: Moment | None) -> bool:
        return other is not None and (other.kernel_id, other.generation) == (
            self.kernel_id,
            self.generation,
        )


def kernel_status(
    *, state: str, unavailable: str | None, captured: Moment | None, now: Moment
) -> str:
    """``current``, ``busy``, ``stale`` or ``none``: what may be said of the snapshot.

    Parameters
    ----------
    state:
        State of the kernel.
    unavailable:
        Why there can be no snapshot; ``None`` if there can.
    captured:
        When the last snapshot was taken; ``None`` if there is none of this server's life.
    now:
        The present.
    """
    if state in ("none", "dead") or unavailable is not None:
        return "none"
    if captured == now and state != "starting":
        return "current"
    return "busy" if state == "busy" else "stale"


class SnapshotKeeper:
    """Saves and restores the variables of one session's kernel.

    Its folder is the session's: ``kernel-state.dill``, ``kernel-state.json``, ``kernel-state.d``.
    """

    def __init__(
        self,
        folder: Path,
        kernel: NotebookKernel,
        key: bytes,
        config: SnapshotConfig,
        log: logging.Logger,
    ) -> None:
        self._folder = folder
        self._kernel = kernel
        self._key = key
        self._config = config
        self._log = log
        self._lock = asyncio.Lock()
        self._captured: Moment | None = None
        self._captured_at = 0.0
        self._unavailable: str | None = None
        self._crash_restores = 0
        self._keeps_aside = False

    # -- saving -----------------------------------------------------------------------------

    async def capture(self, trigger: str) -> Snapshot:
        """Save the variables, if there is anything to save and that is possible now.

        Parameters
        ----------
        trigger:
            ``compaction`` (hardly waited for to become durable), ``turn``, ``shutdown``,
            ``manual`` or ``kernel``.

        Returns
        -------
        Snapshot
            ``ok``, ``unchanged``, or ``skipped`` and ``failed`` with the reason. Nothing is
            raised for a kernel that is busy, absent or not Python.
        """
        async with self._lock:
            started = time.monotonic()
            if not self._config.enabled:
                return Snapshot(outcome="skipped", trigger=trigger, reason="snapshots are off")
            kernel_id = await self._kernel.find()
            if kernel_id is None:
                return Snapshot(outcome="skipped", trigger=trigger, reason="no kernel is running")
            try:
                record = await self._save(trigger, kernel_id)
            except PrimeError as error:
                return self._not_saved(error, trigger, kernel_id)
            self._crash_restores = 0
            return _timed(record, started)

    async def _save(self, trigger: str, kernel_id: str) -> Snapshot:
        moment = await self._moment()
        await self._refuse_oversize()
        await self._protect(moment)
        report = await self._kernel.save_state(
            self._folder,
            self._key,
            options={
                "seconds_per_variable": self._config.seconds_per_variable,
                "seconds_total": self._config.seconds_total,
                "fork": self._config.fork,
                "kernelspec": self._kernel.kernel_name,
            },
            wait=COMPACTION_SECONDS if trigger == "compaction" else STATE_SECONDS,
        )
        self._captured, self._captured_at = moment, time.monotonic()
        self._unavailable = None
        # Without a generation it is not durable yet, and what lies there is the one before.
        manifest = await self._manifest("current") if report["generation"] else None
        if manifest is not None:
            await self._release(manifest)
        return Snapshot(
            outcome="unchanged" if report["unchanged"] else "ok",
            trigger=trigger,
            snapshot_id=manifest.id if manifest is not None else None,
            kernel_id=kernel_id,
            names=_names(report),
            bytes=report["bytes"],
            pause_ms=round(report["pause_ms"]),
            reason="; ".join(report["notes"]) or None,
        )

    async def _refuse_oversize(self) -> None:
        """A snapshot must not fill the disk; what it will take is known well enough before."""
        needed = sum(variable.get("size") or 0 for variable in await self._kernel.variables())
        free = (await asyncio.to_thread(shutil.disk_usage, self._folder)).free
        allowed = self._config.max_bytes or free // 2
        if needed > allowed:
            limit = (
                "SnapshotConfig.max_bytes" if self._config.max_bytes else "half of the free disk"
            )
            raise PrimeError(
                f"The variables take about {needed / 1e6:,.0f} MB, more than {limit} "
                f"({allowed / 1e6:,.0f} MB).",
                code="snapshot_too_large",
                hint="Delete variables that can be made again, or raise the limit.",
            )

    def _not_saved(self, error: PrimeError, trigger: str, kernel_id: str) -> Snapshot:
        if error.code in ("kernel_language", "kernel_files", "kernel_python"):
            self._unavailable = error.message
        skipped = self._unavailable is not None or error.code in (
            "kernel_busy",
            "snapshot_too_large",
        )
        if not skipped:
            self._log.warning("No snapshot (%s): %s", trigger, error.message)
        return Snapshot(
            outcome="skipped" if skipped else "failed",
            trigger=trigger,
            kernel_id=kernel_id,
            reason=error.message,
        )

    async def _protect(self, moment: Moment) -> None:
        """A fresh process must not overwrite what a restore may still be wanted from.

        Two saves after an unrestored restart would push the good state out of the two
        generations that there are; it is kept aside as a third, until it was restored.
        """
        from prime_ext.state.format import head_path
        from prime_ext.state.writer import keep_head

        if self._keeps_aside or moment.same_process(self._captured):
            return
        source = head_path(self._folder, "current")
        if await asyncio.to_thread(source.exists):
            await asyncio.to_thread(keep_head, source, head_path(self._folder, "kept"))
            self._keeps_aside = True

    async def _release(self, current: Manifest) -> None:
        """After a restart of the server alone the kernel's process may be the same one still."""
        from prime_ext.state.format import head_path

        kept = await self._manifest("kept") if self._keeps_aside else None
        if kept is not None and kept.process == current.process:
            await asyncio.to_thread(head_path(self._folder, "kept").unlink, missing_ok=True)
            self._keeps_aside = False

    # -- restoring --------------------------------------------------------------------------

    async def restore(
        self,
        trigger: str,
        mode: str,
        names: list[str] | None = None,
        overwrite: bool = False,
        snapshot_id: str | None = None,
    ) -> Restore:
        """Bring the variables back.

        Parameters
        ----------
        trigger:
            ``compaction``, ``crash``, ``restart``, ``manual`` or ``resume``.
        mode:
            ``hot``: what is alive and unchanged stays. ``cold``: into a fresh process. A hot
            restore into another process than was saved is made a cold one.
        names, overwrite:
            Only these; replace what the user has changed since.
        snapshot_id:
            Default: the newest. If that is damaged, the one before is tried.

        Returns
        -------
        Restore
            ``ok``, ``partial``, ``unchanged``, ``failed`` with the reason, or ``offered`` where a
            crash is not restored again because the state itself may be the cause.

        Raises
        ------
        PrimeError
            ``snapshot_not_found``, ``snapshots_off``, and with the trigger ``manual`` whatever
            made it fail.
        """
        async with self._lock:
            started = time.monotonic()
            if not self._config.enabled:
                raise PrimeError(
                    "Saving and restoring the kernel's variables is switched off.",
                    code="snapshots_off",
                    hint="Set SnapshotConfig.enabled to True.",
                    status=409,
                )
            if trigger == "crash":
                if self._crash_restores >= MAX_CRASH_RESTORES:
                    return await self._ask_person(mode)
                self._crash_restores += 1
            elif trigger == "manual":
                self._crash_restores = 0
            generations = await self._generations(snapshot_id)
            record = await self._load(trigger, mode, names, overwrite, generations)
            return _timed(record, started)

    async def _load(
        self,
        trigger: str,
        mode: str,
        names: list[str] | None,
        overwrite: bool,
        generations: list[str],
    ) -> Restore:
        failure = PrimeError(
            "There is no snapshot.",
            code="snapshot_not_found",
            hint="One is made after each turn that ran code.",
            status=404,
        )
        asked = mode
        for attempt, generation in enumerate(generations, start=1):
            manifest = await self._manifest(generation)
            mode = "hot" if asked == "hot" and await self._is_of_this_process(manifest) else "cold"
            options = {
                "mode": mode,
                "names": names,
                "overwrite": overwrite,
                "generation": generation,
            }
            try:
                report = await self._kernel.load_state(self._folder, self._key, options=options)
            except PrimeError as error:
                self._log.warning("Restoring the %s snapshot failed: %s", generation, error.message)
                if attempt == 1 or error.code != "snapshot_missing":
                    failure = error
                if error.code in ("snapshot_corrupt", "snapshot_missing", "snapshot_refused"):
                    continue
                break
            return await self._restored(trigger, mode, attempt, manifest, report)
        if trigger == "manual":
            raise failure
        return Restore(outcome="failed", mode=mode, trigger=trigger, reason=failure.message)

    async def _restored(
        self,
        trigger: str,
        mode: str,
        attempt: int,
        manifest: Manifest | None,
        report: dict[str, Any],
    ) -> Restore:
        loaded = [n for n, entry in report["names"].items() if entry["action"] == "loaded"]
        outcome = "ok" if report["complete"] else "partial"
        if report["complete"] and not loaded:
            outcome = "unchanged"
        if report["complete"]:
            # What is live now is what the snapshot holds.
            self._keeps_aside = False
            self._captured, self._captured_at = await self._moment(), time.monotonic()
        return Restore(
            outcome=outcome,
            mode=mode,
            trigger=trigger,
            snapshot_id=manifest.id if manifest is not None else None,
            kernel_id=self._kernel.kernel_id,
            names=_names(report),
            attempts=attempt,
            reason="; ".join(report["notes"]) or None,
        )

    async def _is_of_this_process(self, manifest: Manifest | None) -> bool:
        if manifest is None or not (await self._moment()).same_process(self._captured):
            return False
        newest = await self._manifest("current")
        return newest is not None and newest.process == manifest.process

    async def _ask_person(self, mode: str) -> Restore:
        manifest = await self._manifest("current")
        return Restore(
            outcome="offered",
            mode=mode,
            trigger="crash",
            snapshot_id=manifest.id if manifest is not None else None,
            kernel_id=self._kernel.kernel_id,
            reason=f"the kernel died again after {MAX_CRASH_RESTORES} restores; what is restored "
            "may be what kills it",
        )

    async def _generations(self, snapshot_id: str | None) -> list[str]:
        if snapshot_id is None:
            return ["current", "previous"]
        for generation in GENERATIONS:
            manifest = await self._manifest(generation)
            if manifest is not None and manifest.id == snapshot_id:
                return [generation]
        raise PrimeError(
            f"There is no snapshot {snapshot_id!r}.",
            code="snapshot_not_found",
            hint="It may have been replaced by a newer one; list the snapshots.",
            status=404,
        )

    # -- telling ----------------------------------------------------------------------------

    async def snapshots(self) -> list[dict[str, Any]]:
        """What can be restored, newest first: ``{snapshot_id, created, names, bytes, …}``."""
        found: dict[str, dict[str, Any]] = {}
        for generation in GENERATIONS:
            manifest = await self._manifest(generation)
            if manifest is not None and manifest.id not in found:
                found[manifest.id] = {
                    "snapshot_id": manifest.id,
                    "generation": generation,
                    "created": manifest.created,
                    "kernelspec": manifest.kernelspec,
                    "python": manifest.python,
                    "bytes": manifest.total_bytes,
                    "names": {
                        name: {
                            field: entry[field] for field in ("status", "reason", "type", "size")
                        }
                        for name, entry in manifest.names.items()
                    },
                }
        return sorted(found.values(), key=lambda s: str(s["created"]), reverse=True)

    async def kernel_state(self) -> dict[str, Any]:
        """What is true of kernel and snapshot now: ``{status, names, age_s?, reason?, …}``.

        ``status`` is ``current`` (what is live is what is saved), ``busy``, ``stale`` (older than
        what is live) or ``none`` (no kernel, or no snapshot possible).
        """
        await self._kernel.find()
        now = await self._moment()
        state = self._kernel.state
        unavailable = self._unavailable or (None if self._config.enabled else "snapshots are off")
        status = kernel_status(
            state=state, unavailable=unavailable, captured=self._captured, now=now
        )
        if status == "stale" and self._captured is not None and await self._still_current():
            self._captured, self._captured_at = now, time.monotonic()
            status = "current"
        manifest = None if status == "none" else await self._manifest("current")
        told: dict[str, Any] = {"status": status, "names": {}}
        if manifest is not None:
            told["snapshot_id"] = manifest.id
            told["names"] = dict(Counter(e["status"] for e in manifest.names.values()))
            told["age_s"] = _age(manifest.created)
        reason = unavailable or ("no kernel is running" if status == "none" else None)
        if reason:
            told["reason"] = reason
        return told

    async def inventory(self) -> list[dict[str, Any]]:
        """The live variables, as `NotebookKernel.variables`; empty if no kernel runs.

        Raises
        ------
        PrimeError
            Where the kernel cannot be asked.
        """
        if await self._kernel.find() is None:
            return []
        return await self._kernel.variables()

    async def _still_current(self) -> bool:
        with contextlib.suppress(PrimeError):
            return await self._kernel.state_current(self._folder, self._key)
        return False

    async def _moment(self) -> Moment:
        kernel = self._kernel
        return Moment(kernel.kernel_id, kernel.generation, kernel.runs)

    async def _manifest(self, generation: str) -> Manifest | None:
        """What the snapshot holds; ``None`` if there is none or it cannot be read."""
        from prime_ext import state

        def read() -> Manifest | None:
            try:
                return state.inspect(self._folder, key=self._key, generation=generation)
            except (state.SnapshotError, OSError):
                return None

        return await asyncio.to_thread(read)


def _names(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each name's entry without what is empty; recipes only where something is missing."""
    return {
        name: {field: value for field, value in entry.items() if value not in (None, "", 0)}
        for name, entry in report["names"].items()
    }


def _timed(record: _Timed, started: float) -> _Timed:
    elapsed = round((time.monotonic() - started) * 1000)
    return msgspec.structs.replace(record, duration_ms=elapsed)


def _age(created: str) -> int | None:
    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return None
    return max(0, round((datetime.now(timezone.utc) - then).total_seconds()))
