"""Show in a cell what its run puts out behind its end, whoever writes the notebook by then."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any

from prime_ext.errors import PrimeError
from prime_ext.notebook.lease import LeaseLost
from prime_ext.notebook.operations import Applied
from prime_ext.notebook.shared_notebook import SharedNotebook
from prime_ext.notebook.writer import NotebookWriter

if TYPE_CHECKING:
    from prime_ext.kernel.late_outputs import LateOutputs

OPEN_INTERVAL_S = 0.2
"""Shortest time between two updates of a cell in an open notebook, …"""
CLOSED_INTERVAL_S = 5.0
"""… and in a file, all of which is written each time."""
SHARE = 4.0
"""An update that took t seconds is followed by SHARE * t seconds of rest, …"""
LONGEST_S = 60.0
"""… but by no more than this."""
ATTEMPTS = 3
"""Times an update is tried that fails for another reason than that it is not wanted any more."""
CLOSE_S = 2.0
"""Seconds that the end of the server waits for an update."""

_NOT_WANTED = frozenset({"cell_not_found", "cell_conflict", "not_a_code_cell", "run_superseded"})


class LateMirror:
    """Keeps a cell in step with what comes behind the end of its run, while it shows that run.

    An open page is sent operations and saves them with its next saving, as Lab does with what
    comes late for the person's own cells. Nothing is recorded: the turn may be long over.

    Parameters
    ----------
    execution_count:
        Of the run, by which the cell is known to show it.
    """

    def __init__(
        self,
        notebook: SharedNotebook,
        writer: NotebookWriter,
        cell_id: str,
        execution_count: int | None,
        late: LateOutputs,
        log: logging.Logger | logging.LoggerAdapter[Any],
    ) -> None:
        self._notebook = notebook
        self._writer = writer
        self._cell_id = cell_id
        self._count = execution_count
        self._late = late
        self._log = log
        self._operation: dict[str, Any] | None = None
        """On its way, or to be tried again."""
        self._attempts = 0
        self._rest = 0.0
        self._has_news = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """The cell shows what there was at the end of the run: what comes from then on follows."""
        self._late.on_news = self._on_news
        self._on_news()

    def stop(self) -> None:
        """Nothing more gets into the cell, but what a page is being sent this moment."""
        self._is_stopped = True
        self._late.on_news = lambda: None
        self._late.stop()
        self._stop_timer()
        if self._notebook.late.get(self._cell_id) is self:
            del self._notebook.late[self._cell_id]

    async def flush(self) -> None:
        """Return when what has come so far is in the notebook, or could not be brought there."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if self._has_news and self._writing is None and not self._is_stopped:
            self._stop_timer()
            await asyncio.wait({self._begin()})

    async def close(self) -> None:
        """The server stops: bring what has come into the notebook, if that takes no longer than
        seconds, and nothing more."""
        flushing = asyncio.create_task(self.flush())
        await asyncio.wait({flushing}, timeout=CLOSE_S)
        self.stop()
        left = [task for task in (flushing, self._writing) if task is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _on_news(self) -> None:
        self._has_news = True
        if self._late.is_over:
            self._stop_timer()  # There is nothing to wait for.
        if self._timer is None and self._writing is None:
            is_open = self._writer.hub.held(self._notebook.path)
            interval = OPEN_INTERVAL_S if is_open else CLOSED_INTERVAL_S
            rest = 0.0 if self._late.is_over else max(interval, self._rest)
            self._timer = asyncio.get_running_loop().call_later(rest, self._begin)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> asyncio.Task[None]:
        self._timer = None
        self._writing = asyncio.create_task(self._write())
        self._writing.add_done_callback(self._on_written)
        return self._writing

    def _on_written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("%s: late outputs failed", self._notebook.path, exc_info=error)
            self.stop()
        if self._is_stopped:
            return
        if self._has_news or self._operation is not None:
            self._on_news()
        elif self._late.is_over:
            self.stop()

    async def _write(self) -> None:
        if self._operation is None:
            # Only now: what is tried again does not hold what has come since.
            self._has_news = False
            self._operation = self._next()
        operation = self._operation
        if operation is None:
            return
        began = time.monotonic()
        try:
            applied = await self._apply(operation)
        except PrimeError as error:
            self._attempts += 1
            if error.code in _NOT_WANTED:
                self.stop()
            elif self._attempts == ATTEMPTS:
                self._log.warning(
                    "%s: what cell %s puts out behind its run is not shown: %s",
                    self._notebook.path,
                    self._cell_id,
                    error.message,
                )
                self.stop()
            return
        self._operation, self._attempts = None, 0
        if applied is not None and applied.after is not None:
            self._late.settle(applied.after["outputs"])
            self._count = applied.after["execution_count"]
        self._rest = min(SHARE * (time.monotonic() - began), LONGEST_S)

    def _next(self) -> dict[str, Any] | None:
        change = self._late.take()
        if change is None:
            return None
        return {
            "op": "late_outputs",
            "cell_id": self._cell_id,
            "execution_count": self._count,
            "base": change.base,
            "clear": change.clear,
            "updates": [{"index": i, **shown} for i, shown in sorted(change.updates.items())],
            "ending": change.ending,
            "outputs": change.outputs,
        }

    async def _apply(self, operation: dict[str, Any]) -> Applied | None:
        """What became of the operation; ``None``: the cell was run again meanwhile."""
        repeated = False
        if await self._writer.hub.attached(self._notebook.path):
            if self._is_stopped:
                return None
            try:
                path, op_id = self._notebook.path, uuid.uuid4().hex
                return await self._writer.browser.apply(path, operation, op_id)
            except LeaseLost:
                repeated = True
        async with self._notebook.lock:
            if self._is_stopped:
                return None
            return await self._writer.write_here(self._notebook.path, operation, repeated=repeated)
