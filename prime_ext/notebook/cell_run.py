"""One run of a cell, from its start in the kernel to its result in the notebook."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from prime_ext.completed import brought_to_end, completed
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, CellNotFound, CellNotInPage, source_hash
from prime_ext.notebook.late_mirror import LateMirror
from prime_ext.notebook.lease import LeaseLost
from prime_ext.notebook.mirror import RunMirror
from prime_ext.notebook.operation_log import OperationLog, Unsaved
from prime_ext.notebook.shared_notebook import SharedNotebook
from prime_ext.notebook.writer import NotebookWriter
from prime_ext.notebook.writer_browser import BrowserWriter
from prime_ext.notebook.writer_contents import ContentsWriter
from prime_ext.session.records import NotebookOp

if TYPE_CHECKING:
    from prime_ext.kernel.execution import Execution, Interrupt
    from prime_ext.kernel.late_outputs import LateOutputs

Outputs = list[dict[str, Any]]

STOP_SECONDS = 2.0
"""Seconds that a stopped call waits for an operation in progress.

A browser applies an operation that it was sent, so the operation must also be recorded. But the
browser may not answer.
"""

_IN_FILE_ONLY = Unsaved(
    "The outputs are in the file. The cell is not in the notebook that is open in the browser: the "
    "file was changed, and could not be merged with what the user has not saved. The user has to "
    "save or reload the notebook.",
    "outputs_in_file_only",
)

_OF_EARLIER_SOURCE = Unsaved(
    "The source of the cell was changed while it ran: the outputs that it shows now are those of "
    "the source that was run.",
    "outputs_of_earlier_source",
)


class Kernel(Protocol):
    """The methods of a notebook's kernel that a run needs; see ``NotebookKernel``."""

    async def metadata(self) -> dict[str, Any]: ...

    async def execute(
        self,
        code: str,
        *,
        store_history: bool,
        on_outputs: Callable[[Outputs], None] | None = None,
        on_busy: Callable[[], None] | None = None,
        on_count: Callable[[int], None] | None = None,
        on_begun: Callable[[Interrupt], None] | None = None,
        cell_id: str | None = None,
        follow: bool = False,
    ) -> Execution: ...


@dataclass(frozen=True)
class CellRun:
    """A run of a cell that reached the kernel."""

    op: NotebookOp
    cell: Cell
    """The cell as it was run."""
    execution: Execution
    """Result of the run, with full outputs."""
    unsaved: str | None = None
    """Why the outputs are not in the notebook or not saved, or belong to another source than the
    cell has by now, if so."""


class OngoingRun:
    """Runs one cell of a notebook, and shows and records the result.

    Parameters
    ----------
    cell_id:
        Id of the cell. The caller holds its run lock.
    """

    def __init__(
        self,
        notebook: SharedNotebook,
        writer: NotebookWriter,
        operations: OperationLog,
        log: logging.Logger | logging.LoggerAdapter[Any],
        cell_id: str,
    ) -> None:
        self._notebook = notebook
        self._writer = writer
        self._operations = operations
        self._log = log
        self.op_id = uuid.uuid4().hex
        self._operation = {"op": "run_cell", "cell_id": cell_id}
        self._mirror = RunMirror(writer.hub, writer.browser, lambda: notebook.path, cell_id, log)
        self._was: dict[str, Any] | None = None
        """The whole cell before the run (nbformat), if it is known."""
        self._count: int | None = None

    async def show(self, expected_hash: str | None) -> None:
        """Show the cell as running in the page that has the notebook open, if there is one.

        Raises
        ------
        PrimeError
            ``cell_not_found`` or ``cell_conflict``, if the page has changed meanwhile.
        """
        if await self._writer.hub.attached(self._notebook.path):
            # A browser that disconnects now is treated as if none had been attached.
            with contextlib.suppress(LeaseLost):
                started = await self._mirror.start(expected_hash)
                self._was = (started.before or {}).get("cell")

    async def carry_out(
        self,
        cell: Cell,
        kernel: Kernel,
        on_outputs: Callable[[Outputs], None] | None,
        on_busy: Callable[[], None] | None,
        on_begun: Callable[[Interrupt], None] | None,
    ) -> CellRun:
        """Run ``cell``, and return the result once it is in the notebook and recorded.

        See ``NotebookDocument.run``.
        """

        def update(outputs: Outputs) -> None:
            self._mirror.update(outputs)
            if on_outputs is not None:
                on_outputs(outputs)

        def counted(execution_count: int) -> None:
            self._count = execution_count

        def begun(interrupt: Interrupt) -> None:
            self._mirror.begin()
            if on_begun is not None:
                on_begun(interrupt)

        self._mirror.follow()
        try:
            execution = await kernel.execute(
                cell.source,
                store_history=True,
                on_outputs=update,
                on_busy=on_busy,
                on_count=counted,
                on_begun=begun,
                cell_id=cell.id,
                follow=True,
            )
        except BaseException as error:
            stopped = isinstance(error, asyncio.CancelledError)
            end = self._finish(cell, kernel, "aborted" if stopped else "error")
            await brought_to_end(end, timeout=STOP_SECONDS if stopped else None)
            raise
        if execution.status != "aborted":
            self._mirror.begin()
        self._mirror.update(execution.outputs)
        # A kernel that dies sends no reply; one that runs an empty cell replies with the old count.
        count = execution.execution_count or self._count
        self._count = count if cell.source.strip() else None
        op, unsaved = await completed(
            self._finish(cell, kernel, execution.status, execution.late), patience=STOP_SECONDS
        )
        return CellRun(op, cell, execution, unsaved)

    async def _finish(
        self, cell: Cell, kernel: Kernel, status: str, late: LateOutputs | None = None
    ) -> tuple[NotebookOp, str | None]:
        """Write the result of the run into the notebook, record it, and follow late outputs."""
        unsaved: Unsaved | None = None
        writer = BrowserWriter.name
        try:
            try:
                is_open = await self._mirror.finish(self._count, status)
            except CellNotInPage:
                # The cell may be in the file, from which the page differs anyway.
                is_open, unsaved = False, _IN_FILE_ONLY
            if not self._mirror.has_begun:
                return self._not_begun(cell, writer), None
            if is_open:
                unsaved = await self._writer.save(self._notebook.path)
            else:
                writer = ContentsWriter.name
                before = await self._write(cell, kernel)
                if unsaved is None and source_hash(before["source"]) != cell.hash:
                    unsaved = _OF_EARLIER_SOURCE
        except PrimeError as error:
            if not self._mirror.has_begun:
                return self._not_begun(cell, writer), None
            if late is not None:
                late.stop()
            return self._not_shown(cell, writer, error)
        if late is not None:
            self._follow_late(cell.id, late)
        if self._notebook.ran_in.get(cell.id) == self._operations.turn:
            self._was = None  # an earlier run of this turn has kept it
        self._notebook.ran_in[cell.id] = self._operations.turn
        op = self._operations.ran(
            self.op_id,
            self._operation,
            cell,
            was=self._was,
            writer=writer,
            execution_count=self._count,
            status=status,
            unsaved=unsaved,
        )
        if unsaved is None or unsaved in (_IN_FILE_ONLY, _OF_EARLIER_SOURCE):
            return op, unsaved and unsaved.reason
        return op, f"The notebook is not saved: {unsaved.reason}"

    async def _write(self, cell: Cell, kernel: Kernel) -> dict[str, Any]:
        """Write the outputs on the server; return the state of the cell that was found there."""
        metadata = await kernel.metadata()
        async with self._notebook.lock:
            applied = await self._writer.write_here(
                self._notebook.path,
                {
                    "op": "run_result",
                    "cell_id": cell.id,
                    "outputs": self._mirror.outputs,
                    "execution_count": self._count,
                    "kernel": metadata,
                },
            )
        before = applied.before or {}
        self._was = self._was or before.get("cell")
        return before

    def _follow_late(self, cell_id: str, late: LateOutputs) -> None:
        follower = LateMirror(self._notebook, self._writer, cell_id, self._count, late, self._log)
        self._notebook.late[cell_id] = follower
        follower.start()

    def _not_begun(self, cell: Cell, writer: str) -> NotebookOp:
        return self._operations.not_begun(self.op_id, self._operation, cell, writer=writer)

    def _not_shown(self, cell: Cell, writer: str, error: PrimeError) -> tuple[NotebookOp, str]:
        deleted = isinstance(error, CellNotFound)
        reason = (
            "The cell was deleted while it ran; its output is kept only here."
            if deleted
            else f"The outputs are kept only here, not in the notebook: {error.message}"
        )
        op = self._operations.not_shown(
            self.op_id,
            self._operation,
            cell,
            writer=writer,
            reason=reason,
            code="cell_deleted" if deleted else error.code,
        )
        return op, reason
