"""Shows outputs that arrive after the end of a run in its cell, through the current writer."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any

from prime_ext.closing import cancelled
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
"""… and in a closed one, whose whole file is written each time."""
SHARE = 4.0
"""After an update that took t seconds, the mirror pauses for SHARE * t seconds, …"""
LONGEST_S = 60.0
"""… but for at most this time."""
ATTEMPTS = 3
"""Maximum number of attempts for an update, unless its error is in ``_NOT_WANTED``."""
CLOSE_S = 2.0
"""Maximum time that the shutdown of the server waits for an update, in seconds."""

_NOT_WANTED = frozenset({"cell_not_found", "cell_conflict", "not_a_code_cell", "run_superseded"})


class LateMirror:
    """Adds late outputs of a run to its cell, as long as the cell shows that run.

    An open page is sent operations and saves them with its next save, as JupyterLab does with late
    outputs of the user's own runs. Nothing is recorded, since the turn may have ended long ago.

    Parameters
    ----------
    execution_count:
        Execution count of the run, which identifies the run that the cell shows.
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
        """Operation in flight or to be retried."""
        self._attempts = 0
        self._rest = 0.0
        self._has_news = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start to add outputs; the cell already shows those from before the end of the run."""
        self._late.on_news = self._on_news
        self._on_news()

    def stop(self) -> None:
        """Stop adding outputs; an update in flight to a page is still applied."""
        self._is_stopped = True
        self._late.on_news = lambda: None
        self._late.stop()
        self._stop_timer()
        if self._notebook.late.get(self._cell_id) is self:
            del self._notebook.late[self._cell_id]

    async def flush(self) -> None:
        """Wait until the outputs so far are in the notebook, or writing them has failed."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if self._has_news and self._writing is None and not self._is_stopped:
            self._stop_timer()
            await asyncio.wait({self._begin()})

    async def close(self) -> None:
        """Write the outputs so far, waiting at most ``CLOSE_S`` seconds, and stop."""
        flushing = asyncio.create_task(self.flush())
        await asyncio.wait({flushing}, timeout=CLOSE_S)
        self.stop()
        await cancelled(task for task in (flushing, self._writing) if task is not None)

    def _on_news(self) -> None:
        self._has_news = True
        if self._late.is_over:
            self._stop_timer()  # No more outputs will arrive.
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
            # Not when retrying: that operation lacks the outputs that have arrived since.
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
        """Apply the operation through the current writer; ``None`` if stopped meanwhile."""
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
