"""The fallbacks of a restore: a retry, the previous generation, one component at a time.

Names that no step restores are reported with the reason. How such a name was made is added
elsewhere, where the notebook is known.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prime_ext.kernel.newest import Newest
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.state import Manifest

UNREADABLE = ("snapshot_corrupt", "snapshot_missing", "snapshot_refused", "snapshot_replaced")
"""A retry would read the same bytes, but the previous generation may be intact."""

DEADLY = ("kernel_died", "kernel_operation_failed")
"""Something in the snapshot may be the cause; loading components one by one finds it."""

GIVEN_UP = ("restore_interrupted", "withdrawn")
"""A person gave up waiting."""

PASSING = ("kernel_replaced", "snapshot_busy", "kernel_no_answer", "kernel_connection_lost")
"""Transient errors that a retry may not meet again."""

MAX_DEATHS = 3
"""Deaths of the kernel in one restore. Jupyter itself gives up on a kernel after five in a row."""

CHECK_FIRST_BYTES = 512 << 20
"""Snapshots up to this size are compared with their digests before use, which takes a moment.
Larger ones are compared in the background."""

NO_DIGEST = "this kernel's environment lacks"
"""Part of the reason given when the digest of a buffer cannot be computed."""

DAMAGED = (
    "What was saved is damaged: neither the newest snapshot nor the one before it can be loaded."
)

ENDED_THE_KERNEL = "loading it ended the kernel's process"

INTERRUPTED = "loading it was interrupted"


@dataclass(frozen=True)
class Wanted:
    """What a person or the recovery asks to restore."""

    mode: str
    """``hot`` or ``cold``."""
    names: list[str] | None = None
    overwrite: bool = False
    process_state: bool = True
    """With the mode ``cold``: also restore working directory, options and random states."""
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the caller to give up. It does not interrupt a load already in progress."""


@dataclass
class Restored:
    """The result of a restore."""

    manifest: Manifest | None
    mode: str
    attempts: int
    names: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → ``{status, reason, recipe, type, size, action, left_out}``."""
    notes: list[str] = field(default_factory=list)

    @property
    def loaded(self) -> list[str]:
        return [n for n, entry in self.names.items() if entry["action"] == "loaded"]

    @property
    def failed(self) -> list[str]:
        """Names in the snapshot that were not restored."""
        return [n for n, entry in self.names.items() if entry["action"] == "none"]

    @property
    def complete(self) -> bool:
        """Whether no name failed, and no intact value was replaced by a placeholder."""
        return not self.failed and not any(entry.get("lost") for entry in self.names.values())

    def take(self, report: dict[str, Any]) -> None:
        """Merge the report of one load."""
        saved = self.manifest.names if self.manifest is not None else {}
        for name, entry in report["names"].items():
            # A placeholder made by the save is as it was saved; one made by the load is a loss.
            if entry["action"] == "loaded" and entry["status"] == "degraded":
                entry["lost"] = saved.get(name, {}).get("status") != "degraded"
        self.names.update(report["names"])
        self.notes += [note for note in report["notes"] if note not in self.notes]


class Restoring:
    """One restore, from the first attempt to the last."""

    def __init__(self, kernel: NotebookKernel, files: SnapshotFiles, log: logging.Logger) -> None:
        self._kernel = kernel
        self._files = files
        self._log = log
        self._attempts = 0
        self._deaths = 0
        self._cautious = True

    async def run(self, wanted: Wanted, generations: Sequence[str], newest: Newest) -> Restored:
        """Restore the first usable generation; take damaged names from the generations after it.

        ``newest`` is the snapshot expected as ``current``. An older one in its place is skipped.

        Raises
        ------
        PrimeError
            Nothing could be restored. The error is that of the first generation that exists.
        """
        self._cautious = wanted.names is None
        failure: PrimeError | None = None
        for position, generation in enumerate(generations):
            manifest = await asyncio.to_thread(self._files.manifest, generation)
            try:
                if generation == "current" and manifest is not None:
                    _refuse_older(newest, manifest)
                restored = await self._generation(generation, manifest, wanted)
            except PrimeError as error:
                self._log.warning("Restoring the %s snapshot failed: %s", generation, error.message)
                if failure is None or failure.code == "snapshot_missing":
                    failure = error
                if error.code in UNREADABLE + DEADLY and self._deaths < MAX_DEATHS:
                    continue
                break
            if failure is not None and failure.code != "snapshot_missing":
                which = (
                    "an older one" if failure.code == "snapshot_replaced" else "the one before it"
                )
                restored.notes.append(
                    f"the newest snapshot {_fault(failure)}; this is {which}"
                    f"{_of_when(restored.manifest)}"
                )
            await self._from_older(restored, wanted, generations[position + 1 :])
            restored.attempts = self._attempts
            return restored
        if failure is None or failure.code == "snapshot_missing":
            failure = PrimeError(
                "There is no snapshot.",
                code="snapshot_not_found",
                hint="One is made after each turn that ran code.",
                status=404,
            )
        if failure.code in UNREADABLE and failure.code != "snapshot_replaced":
            raise _unreadable(failure, len(generations))
        raise failure

    async def _generation(
        self, generation: str, manifest: Manifest | None, wanted: Wanted
    ) -> Restored:
        restored = Restored(manifest, wanted.mode, 0)
        size = manifest.total_bytes if manifest is not None else 0
        options: dict[str, Any] = {"generation": generation, "verify": _verify(size)}
        if not wanted.process_state:
            options["restore_process_state"] = False
        try:
            restored.take(await self._load(wanted, options))
        except PrimeError as error:
            if error.code not in PASSING + DEADLY + GIVEN_UP:
                raise
            if manifest is not None and wanted.names is not None:
                asked = _components(manifest, wanted.names)
                if len(asked) == 1 and error.code in (*GIVEN_UP, "kernel_died"):
                    # Only this component was loaded, so it is the cause: do not retry.
                    restored.names.update(_failed(manifest, asked[0], error, wanted))
                    return restored
            if error.code in DEADLY + GIVEN_UP and manifest is not None and wanted.mode == "cold":
                await self._one_by_one(restored, manifest, wanted, options)
                return restored
            restored.take(await self._load(wanted, options))
        lacking = [n for n in restored.failed if NO_DIGEST in str(restored.names[n]["reason"])]
        if lacking:
            # The environment cannot compute this digest, so load without the comparison. The
            # signature has been checked all the same.
            unchecked = {**options, "verify": "off", "restore_process_state": False}
            restored.take(await self._load(replace(wanted, names=lacking), unchecked))
        return restored

    async def _one_by_one(
        self, restored: Restored, manifest: Manifest, wanted: Wanted, options: dict[str, Any]
    ) -> None:
        """Load each component with its own request, and leave out those that kill the kernel."""
        once = dict(options)
        good: list[str] = []
        groups = _components(manifest, wanted.names)
        while groups:
            group = groups.pop(0)
            try:
                report = await self._load(replace(wanted, names=group), once)
            except PrimeError as error:
                if error.code not in DEADLY + GIVEN_UP or self._deaths >= MAX_DEATHS:
                    raise
                restored.names.update(_failed(manifest, group, error, wanted))
                if error.code == "kernel_died" and good:
                    # The process died with all that was loaded; load it again, it is known to work.
                    groups.insert(0, list(good))
                    good.clear()
                    once = dict(options)
                continue
            restored.take(report)
            good += group
            # Working directory, options and random states are restored only once.
            once["restore_process_state"] = False
        for name, entry in manifest.names.items():
            if name not in restored.names and (wanted.names is None or name in wanted.names):
                restored.names[name] = _lost(manifest, name, entry["reason"])
        restored.notes.append("restored component by component")

    async def _from_older(
        self, restored: Restored, wanted: Wanted, generations: Sequence[str]
    ) -> None:
        """Load names that are damaged in the newest generation from older ones."""
        for generation in generations:
            if restored.manifest is None:
                return
            newest = restored.manifest.names
            # A name that the newest generation left out on purpose is not replaced by an older
            # value, and one that hung or killed the kernel would do so again.
            failed = {
                name
                for name in restored.failed
                if newest.get(name, {}).get("component") is not None
                and restored.names[name]["reason"] != ENDED_THE_KERNEL
                and not restored.names[name].get("left_out")
            }
            if not failed:
                return
            older = await asyncio.to_thread(self._files.manifest, generation)
            if older is None or older.id == restored.manifest.id or older.signature != "valid":
                continue
            names = [
                n for n, e in older.names.items() if n in failed and e["component"] is not None
            ]
            if not names:
                continue
            options = {
                "generation": generation,
                "verify": _verify(older.total_bytes),
                "restore_process_state": False,
            }
            try:
                report = await self._load(replace(wanted, names=names), options)
            except PrimeError as error:
                self._log.info("Nothing from the %s snapshot: %s", generation, error.message)
                continue
            for name, entry in report["names"].items():
                if entry["action"] == "loaded":
                    lost = restored.names[name]["reason"]
                    reason = f"an older value, saved {older.created}; the newest is lost: {lost}"
                    entry = {**entry, "status": "degraded", "reason": reason, "lost": True}
                    restored.names[name] = entry

    async def _load(self, wanted: Wanted, options: dict[str, Any]) -> dict[str, Any]:
        if wanted.given_up.is_set():
            raise PrimeError("Loading was interrupted.", code="restore_interrupted")
        self._attempts += 1
        try:
            report = await self._kernel.load_state(
                self._files.folder,
                self._files.key,
                options={
                    "mode": wanted.mode,
                    "names": wanted.names,
                    "overwrite": wanted.overwrite,
                    "cautious": self._cautious,
                    "lock_timeout": 0.0,  # The caller waited for writers before.
                    **options,
                },
            )
        except PrimeError as error:
            self._deaths += error.code == "kernel_died"
            raise
        return report


def _refuse_older(newest: Newest, manifest: Manifest) -> None:
    if newest.is_replaced_by(manifest):
        raise PrimeError(
            "The newest snapshot was replaced by an older one"
            f"{_of_when(manifest)}, which was not loaded.",
            code="snapshot_replaced",
            hint="Restore it from the list of snapshots if it is the one you want.",
            status=409,
        )


def _of_when(manifest: Manifest | None) -> str:
    return f", of {manifest.created[:16].replace('T', ' ')} UTC" if manifest is not None else ""


def _fault(failure: PrimeError) -> str:
    """Return what is wrong with a snapshot, worded for users instead of callers of the library."""
    known = {
        "snapshot_corrupt": "is damaged",
        "snapshot_refused": "was altered after it was saved",
        "snapshot_replaced": "was replaced by an older one",
    }
    return known.get(failure.code) or f"could not be loaded ({failure.message.rstrip('.')})"


def _unreadable(failure: PrimeError, tried: int) -> PrimeError:
    return PrimeError(
        DAMAGED if tried > 1 else f"This snapshot {_fault(failure)}, so it was not loaded.",
        code=failure.code,
        hint="Run the cells again that made the variables"
        + ("." if tried > 1 else ", or restore another snapshot."),
        status=failure.status,
    )


def _verify(size: int) -> str:
    return "wait" if size <= CHECK_FIRST_BYTES else "background"


def _components(manifest: Manifest, names: list[str] | None) -> list[list[str]]:
    """Group the wanted names by component; components verified by reading back come first."""
    groups: dict[int, list[str]] = {}
    for name, entry in manifest.names.items():
        if entry["component"] is not None and (names is None or name in names):
            groups.setdefault(entry["component"], []).append(name)
    in_order = sorted(groups, key=lambda index: (not manifest.components[index].verified, index))
    return [groups[index] for index in in_order]


def _failed(
    manifest: Manifest, names: Sequence[str], error: PrimeError, wanted: Wanted
) -> dict[str, dict[str, Any]]:
    """Return the entries for the names of a component that failed to load on its own."""
    reason, left_out = error.message, ""
    if error.code in GIVEN_UP or wanted.given_up.is_set():
        # If the interrupt had no effect, the person may have ended the process instead.
        reason, left_out = INTERRUPTED, "interrupted"
    elif error.code == "kernel_died":
        reason = ENDED_THE_KERNEL
    return {name: _lost(manifest, name, reason, left_out) for name in names}


def _lost(manifest: Manifest, name: str, reason: str, left_out: str = "") -> dict[str, Any]:
    entry = manifest.names[name]
    return {
        "status": "skipped",
        "reason": reason,
        "recipe": entry["recipe"],
        "type": entry["type"],
        "size": entry["size"],
        "action": "none",
        "left_out": left_out,
    }
