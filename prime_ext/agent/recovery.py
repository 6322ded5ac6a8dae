"""After a kernel has died: its variables come back from the snapshot, and everyone is told."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from prime_ext.agent.history import restore_event
from prime_ext.errors import PrimeError
from prime_ext.session.records import AnyRecord, Restore, Settings, Snapshot

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.session import Session

_CHANGED = ("ok", "partial", "offered")
"""Outcomes after which another process holds the state, or none does."""


def _moves(record: AnyRecord) -> bool:
    return isinstance(record, Settings) and record.notebook is not None


class KernelRecovery:
    """Restores a session's kernel, once for each death.

    A crash restores by itself; after a restart by the user, who may have wanted a clean kernel,
    restoring is offered.
    """

    def __init__(
        self,
        session: Session,
        kernel: NotebookKernel,
        keeper: SnapshotKeeper,
        log: logging.Logger,
    ) -> None:
        self._session = session
        self._kernel = kernel
        self._keeper = keeper
        self._log = log
        self._lock = asyncio.Lock()
        self._handled = kernel.generation

    async def after_death(self, turn: str | None, reason: str = "crash") -> str | None:
        """Bring the state back after the process behind the kernel has changed.

        Returns
        -------
        str | None
            What the model is to be told; ``None`` if this death was already seen to.
        """
        async with self._lock:
            if self._kernel.generation == self._handled:
                return None
            self._handled = self._kernel.generation
            if reason == "crash":
                record: Restore | None = await self._restore(turn)
            else:
                record = await self._offer(turn, "restart")
            if record is None:
                return None
            self._session.append(record)
            return restore_event(record)

    async def look(self) -> None:
        """Offer what was saved, if the kernel of before is gone: the server was restarted, or the
        kernel was shut down while nobody looked."""
        saved = [
            record
            for record in self._session.records_of("snapshot", "restore")
            if isinstance(record, (Snapshot, Restore)) and record.outcome in _CHANGED
        ]
        if not saved or saved[-1].outcome == "offered":
            return
        moved = [r.seq for r in self._session.records_of("settings") if _moves(r)]
        if moved and moved[-1] > saved[-1].seq:
            return  # attached to another notebook since: that kernel need not be gone
        if await self._kernel.find() != saved[-1].kernel_id:
            record = await self._offer(None, "resume")
            if record is not None:
                self._session.append(record)

    async def _offer(self, turn: str | None, trigger: str) -> Restore | None:
        """An offer to restore what was saved; ``None`` if nothing was."""
        snapshots = await self._keeper.snapshots()
        if not snapshots:
            return None
        return Restore(
            outcome="offered",
            mode="cold",
            trigger=trigger,
            snapshot_id=snapshots[0]["snapshot_id"],
            turn=turn,
        )

    async def _restore(self, turn: str | None) -> Restore:
        self._session.publish(
            {"type": "progress", "what": "kernel", "message": "Restoring the kernel's variables"}
        )
        try:
            record = await self._keeper.restore("crash", "cold")
        except PrimeError as failure:
            record = Restore(outcome="failed", mode="cold", trigger="crash", reason=failure.message)
        except Exception as failure:  # the state library runs foreign code
            self._log.exception("Restoring after a crash failed")
            record = Restore(outcome="failed", mode="cold", trigger="crash", reason=repr(failure))
        return msgspec.structs.replace(record, turn=turn)
