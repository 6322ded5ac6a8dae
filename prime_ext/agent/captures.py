"""Saving the kernel's variables in the background, after each run that may have changed them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from prime_ext.closing import cancelled
from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.records import Snapshot
    from prime_ext.session.session import Session

SETTLED_SECONDS = 1.0
"""Delay after a cell that the person has run, because saving occupies the kernel briefly."""

RECORDED = ("ok", "failed")
"""Outcomes that are recorded. That nothing changed or the kernel was busy is not recorded."""


class Captures:
    """Captures of one session, one at a time. Requests during a capture cause one more after it."""

    def __init__(self, session: Session, keeper: SnapshotKeeper, log: logging.Logger) -> None:
        self._session = session
        self._keeper = keeper
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._timer: asyncio.TimerHandle | None = None

    def when_settled(self) -> None:
        """Capture once the kernel has been idle for a moment (debounced).

        People run several cells one after the other, and one capture after the last is enough.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SETTLED_SECONDS, self.soon)

    def soon(self) -> None:
        """Capture now, or once more after the capture that is running."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def before_end(self, seconds: float) -> None:
        """Capture a last time, because the kernel is about to be shut down.

        This takes at most ``seconds``. If that is too short, the previous snapshot stays intact.
        """
        if self._timer is not None:
            self._timer.cancel()
        try:
            record = await asyncio.wait_for(self._keeper.capture("shutdown"), seconds)
        except asyncio.TimeoutError:
            self._log.warning("No snapshot before the kernel's end: %g s were too short", seconds)
        except Exception as failure:  # the state library runs foreign code
            self._log.warning("No snapshot before the kernel's end: %s", failure)
        else:
            self._record(record)

    async def close(self) -> None:
        """Cancel the running capture and any that is scheduled."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await cancelled([self._task])

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                record = await self._keeper.capture("turn")
            except PrimeError as failure:
                self._log.info("No snapshot after a run: %s", failure.message)
            except Exception:  # the state library runs foreign code
                self._log.warning("Snapshot after a run failed", exc_info=True)
            else:
                self._record(record)
                if record.outcome not in RECORDED and self._keeper.is_put_off:
                    self.when_settled()

    def _record(self, record: Snapshot) -> None:
        """Record the outcome of a capture. A failure to do so is only logged."""
        if record.outcome not in RECORDED:
            return
        try:
            self._session.append(record)
        except PrimeError as failure:
            self._log.error("A snapshot could not be recorded: %s", failure.message)
