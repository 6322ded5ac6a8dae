"""One notebook by path, written by the browser that has it open or else by the server."""

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
from prime_ext.notebook.cell import (
    LOCKS,
    Cell,
    CellConflict,
    CellNotFound,
    CellNotInPage,
    CellRunning,
    CellType,
    CellUnread,
    clean_source,
    expect_unlocked,
    explain_missing,
    new_cell_id,
)
from prime_ext.notebook.late_mirror import LateMirror
from prime_ext.notebook.lease import LeaseLost
from prime_ext.notebook.mirror import RunMirror
from prime_ext.notebook.operation_log import OperationLog, Unsaved, cell_state
from prime_ext.notebook.seen import SeenCells
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
class Change:
    """An operation that was applied."""

    op: NotebookOp
    cell: Cell
    """The cell after the operation; for a deletion, the deleted cell."""
    unsaved: str | None = None
    """Why the change was applied to the open notebook but is not saved yet, if so."""


@dataclass(frozen=True)
class CellRun:
    """A run of a cell that reached the kernel."""

    op: NotebookOp
    cell: Cell
    """The cell as it was run."""
    execution: Execution
    """Result of the run, with full outputs."""
    unsaved: str | None = None
    """Why the outputs are not in the notebook or not saved, if so."""


class NotebookDocument:
    """A notebook as one session sees and changes it.

    Operations name cells by id and carry the hash of the expected source. The default is the hash
    that this session has last seen, so that an edit by anyone else in between is a conflict.
    Each operation is recorded as a ``notebook_op``, whether it was applied or not.

    Raises ``PrimeError`` with the codes ``cell_not_found``, ``cell_conflict``, ``cell_running``,
    ``cell_locked``, ``notebook_not_found``, ``notebook_invalid``, ``notebook_not_saved`` and
    ``notebook_busy``.
    """

    def __init__(
        self,
        notebook: SharedNotebook,
        writer: NotebookWriter,
        seen: SeenCells,
        operations: OperationLog,
        log: logging.Logger | logging.LoggerAdapter[Any],
    ) -> None:
        self._notebook = notebook
        self._writer = writer
        self._operations = operations
        self._log = log
        self.seen = seen
        """The cell sources that the session has seen."""

    @property
    def path(self) -> str:
        return self._notebook.path

    async def cells(self) -> list[Cell]:
        """Return all cells, including unsaved edits of an open notebook."""
        for late in list(self._notebook.late.values()):
            await late.flush()
        async with self._notebook.lock:
            return await self._writer.read(self.path, None)

    async def cell(self, cell_id: str) -> Cell:
        """Return one cell; a ``cell_not_found`` error lists the cells that may have been meant."""
        async with self._notebook.lock:
            return await self._cell(cell_id)

    async def insert(
        self, source: str, cell_type: CellType = "code", after: str | None = None
    ) -> Change:
        """Insert a cell after the cell ``after``; at the end if ``None``, at the top if ``""``."""
        return await self._change(
            {
                "op": "insert_cell",
                "cell_id": new_cell_id(),
                "source": clean_source(source),
                "cell_type": cell_type,
                "after": after,
            }
        )

    async def bring_back(
        self, cell_id: str, source: str, cell_type: str, after: str, cell: dict[str, Any] | None
    ) -> Change:
        """Insert a deleted cell under its old id, with outputs and metadata from ``cell``."""
        return await self._change(
            {
                "op": "insert_cell",
                "cell_id": cell_id,
                "source": source,
                "cell_type": cell_type,
                "after": after,
                **({} if cell is None else {"cell": cell}),
            }
        )

    async def edit(
        self,
        cell_id: str,
        source: str,
        expected_hash: str | None = None,
        *,
        shown: dict[str, Any] | None = None,
    ) -> Change:
        """Replace the source of a cell that has the expected source and is not running.

        ``shown``, ``{outputs, execution_count, trusted}``, replaces the outputs as well.
        """
        return await self._change(
            {
                "op": "edit_cell",
                "cell_id": cell_id,
                "source": clean_source(source),
                "expected_hash": expected_hash and expected_hash.lower(),
                **(shown or {}),
            }
        )

    async def delete(self, cell_id: str, expected_hash: str | None = None) -> Change:
        """Delete a cell that has the expected source and is not running."""
        return await self._change(
            {"op": "delete_cell", "cell_id": cell_id, "expected_hash": expected_hash}
        )

    async def move(self, cell_id: str, after: str) -> Change:
        """Move a cell after the cell ``after``, or to the top if that is ``""``."""
        return await self._change({"op": "move_cell", "cell_id": cell_id, "after": after})

    async def run(
        self,
        cell_id: str,
        kernel: Kernel,
        on_outputs: Callable[[Outputs], None] | None = None,
        *,
        on_busy: Callable[[], None] | None = None,
        on_begun: Callable[[Interrupt], None] | None = None,
        expected_hash: str | None = None,
    ) -> CellRun:
        """Run a code cell in ``kernel``, showing outputs in the notebook as they arrive.

        The run belongs to the server: it continues, and its outputs are complete, even if the
        browser disconnects. Until the kernel starts the run, the cell keeps its old outputs.
        ``on_begun`` is then called with a function that interrupts the run. Cancelling abandons
        the run; the outputs so far stay in the cell.
        """
        async with self._notebook.run_lock(cell_id):
            self._notebook.running[cell_id] = self.seen
            try:
                return await self._run(
                    cell_id, kernel, on_outputs, on_busy, on_begun, expected_hash
                )
            finally:
                del self._notebook.running[cell_id]

    # -- inside ----------------------------------------------------------------------------

    async def _run(
        self,
        cell_id: str,
        kernel: Kernel,
        on_outputs: Callable[[Outputs], None] | None,
        on_busy: Callable[[], None] | None,
        on_begun: Callable[[Interrupt], None] | None,
        expected_hash: str | None,
    ) -> CellRun:
        operation = {"op": "run_cell", "cell_id": cell_id, "expected_hash": expected_hash}
        op_id = uuid.uuid4().hex
        hub, browser = self._writer.hub, self._writer.browser
        mirror = RunMirror(hub, browser, lambda: self.path, cell_id, self._log)
        was: dict[str, Any] | None = None
        try:
            async with self._notebook.lock:
                cell = await self._cell(cell_id)
                self._expect(operation, cell)
                if cell.cell_type != "code":
                    raise PrimeError(
                        f"Cell {cell_id} is a {cell.cell_type} cell: there is nothing to run.",
                        code="not_a_code_cell",
                        hint="Only code cells are run.",
                    )
                if await hub.attached(self.path):
                    # A browser that disconnects now is treated as if none had been attached.
                    with contextlib.suppress(LeaseLost):
                        started = await mirror.start(operation["expected_hash"])
                        was = (started.before or {}).get("cell")
                self._notebook.supersede(cell_id)
        except PrimeError as error:
            self._refused(op_id, operation, error)
            raise
        self.seen.shown(cell)

        def update(outputs: Outputs) -> None:
            mirror.update(outputs)
            if on_outputs is not None:
                on_outputs(outputs)

        count: int | None = None

        def counted(execution_count: int) -> None:
            nonlocal count
            count = execution_count

        def begun(interrupt: Interrupt) -> None:
            mirror.begin()
            if on_begun is not None:
                on_begun(interrupt)

        mirror.follow()
        try:
            execution = await kernel.execute(
                cell.source,
                store_history=True,
                on_outputs=update,
                on_busy=on_busy,
                on_count=counted,
                on_begun=begun,
                cell_id=cell_id,
                follow=True,
            )
        except BaseException as error:
            stopped = isinstance(error, asyncio.CancelledError)
            status = "aborted" if stopped else "error"
            end = self._finish(mirror, op_id, cell, kernel, was, mirror.outputs, count, status)
            await brought_to_end(end, timeout=STOP_SECONDS if stopped else None)
            raise
        if execution.status != "aborted":
            mirror.begin()
        mirror.update(execution.outputs)
        # A kernel that dies sends no reply; one that runs an empty cell replies with the old count.
        count = (execution.execution_count or count) if cell.source.strip() else None
        op, unsaved = await completed(
            self._finish(
                mirror,
                op_id,
                cell,
                kernel,
                was,
                execution.outputs,
                count,
                execution.status,
                execution.late,
            ),
            patience=STOP_SECONDS,
        )
        return CellRun(op, cell, execution, unsaved)

    async def _cell(self, cell_id: str) -> Cell:
        try:
            (cell,) = await self._writer.read(self.path, cell_id)
        except CellNotFound as error:
            raise await self._explained(error) from error
        return cell

    async def _explained(self, error: CellNotFound) -> CellNotFound:
        if isinstance(error, CellNotInPage):
            return error
        return explain_missing(error.cell_id, await self._writer.read(self.path, None))

    def _expect(self, operation: dict[str, Any], cell: Cell) -> None:
        """Set the hash that the operation expects; raise if the cell differs already.

        The default is the hash of the source that this session has seen. A new session accepts an
        unseen cell as it is. In a resumed session the model may remember another source of the
        cell, so that changing an unseen cell raises ``CellUnread``.
        """
        expected = operation["expected_hash"] or self.seen.hash(cell.id)
        if expected is None:
            if self.seen.resumed and operation["op"] != "run_cell":
                raise CellUnread(cell.id, cell.source)
            expected = cell.hash
        operation["expected_hash"] = expected
        if expected != cell.hash:
            raise CellConflict(cell.id, cell.source, operation.get("source"))

    async def _change(self, operation: dict[str, Any]) -> Change:
        if self._operations.reverts is not None and operation["op"] in LOCKS:
            operation["undo"] = True
        return await completed(
            self._change_locked(uuid.uuid4().hex, operation), patience=STOP_SECONDS
        )

    async def _change_locked(self, op_id: str, operation: dict[str, Any]) -> Change:
        kind, cell_id = operation["op"], operation["cell_id"]
        async with self._notebook.lock:
            known: Cell | None = None
            try:
                if kind != "insert_cell":
                    known = await self._cell(cell_id)
                    # The writer checks it again. Here it goes before a conflict, which would have
                    # the model merge for nothing.
                    expect_unlocked(operation, known.metadata)
                    if "expected_hash" in operation:
                        self._expect(operation, known)
                if kind in ("edit_cell", "delete_cell") and self._notebook.is_running(cell_id):
                    own = self._notebook.running.get(cell_id) is self.seen
                    raise CellRunning(cell_id, own=own)
                try:
                    applied, writer, unsaved = await self._writer.apply(self.path, operation, op_id)
                except CellNotFound as error:
                    raise await self._explained(error) from error
            except PrimeError as error:
                self._refused(op_id, operation, error)
                raise
            if kind == "delete_cell" or "outputs" in operation:
                self._notebook.supersede(cell_id)
            before = applied.before or (None if known is None else cell_state(known))
            op = self._operations.applied(
                op_id,
                operation,
                writer=writer,
                before=before,
                after=applied.after,
                unsaved=unsaved,
            )
            cell = _cell_after(cell_id, applied.after or before or {}, known)
            if applied.after is None:
                self.seen.forget(cell_id)
            else:
                self.seen.wrote(cell)
            return Change(op, cell, unsaved and unsaved.reason)

    async def _finish(
        self,
        mirror: RunMirror,
        op_id: str,
        cell: Cell,
        kernel: Kernel,
        was: dict[str, Any] | None,
        outputs: Outputs,
        execution_count: int | None,
        status: str,
        late: LateOutputs | None = None,
    ) -> tuple[NotebookOp, str | None]:
        """Write the result of a run into the notebook, record it, and follow late outputs."""
        operation = {"op": "run_cell", "cell_id": cell.id}
        unsaved: Unsaved | None = None
        writer = BrowserWriter.name
        try:
            try:
                is_open = await mirror.finish(execution_count, status)
            except CellNotInPage:
                # The cell may be in the file, from which the page differs anyway.
                is_open, unsaved = False, _IN_FILE_ONLY
            if not mirror.has_begun:
                return self._operations.not_begun(op_id, operation, cell, writer=writer), None
            if is_open:
                unsaved = await self._writer.save(self.path)
            else:
                writer = ContentsWriter.name
                metadata = await kernel.metadata()
                async with self._notebook.lock:
                    applied = await self._writer.write_here(
                        self.path,
                        {
                            "op": "run_result",
                            "cell_id": cell.id,
                            "outputs": outputs,
                            "execution_count": execution_count,
                            "kernel": metadata,
                        },
                    )
                was = was or (applied.before or {}).get("cell")
        except PrimeError as error:
            if not mirror.has_begun:
                return self._operations.not_begun(op_id, operation, cell, writer=writer), None
            if late is not None:
                late.stop()
            deleted = isinstance(error, CellNotFound)
            reason = (
                "The cell was deleted while it ran; its output is kept only here."
                if deleted
                else f"The outputs are kept only here, not in the notebook: {error.message}"
            )
            op = self._operations.not_shown(
                op_id,
                operation,
                cell,
                writer=writer,
                reason=reason,
                code="cell_deleted" if deleted else error.code,
            )
            return op, reason
        if late is not None:
            follower = LateMirror(
                self._notebook, self._writer, cell.id, execution_count, late, self._log
            )
            self._notebook.late[cell.id] = follower
            follower.start()
        if self._notebook.ran_in.get(cell.id) == self._operations.turn:
            was = None  # an earlier run of this turn has kept it
        self._notebook.ran_in[cell.id] = self._operations.turn
        op = self._operations.ran(
            op_id,
            operation,
            cell,
            was=was,
            writer=writer,
            execution_count=execution_count,
            status=status,
            unsaved=unsaved,
        )
        if unsaved is None or unsaved is _IN_FILE_ONLY:
            return op, unsaved and unsaved.reason
        return op, f"The notebook is not saved: {unsaved.reason}"

    def _refused(self, op_id: str, operation: dict[str, Any], error: PrimeError) -> None:
        """Record an operation that changed nothing; a conflict has shown the current source."""
        if isinstance(error, CellConflict | CellUnread):
            self.seen.told(error.cell_id, error.current)
        self._operations.refused(op_id, operation, error, writer=self._writer.name(self.path))


def _cell_after(cell_id: str, state: dict[str, Any], known: Cell | None) -> Cell:
    return Cell(
        id=cell_id,
        cell_type=state.get("cell_type", "code"),
        source=state.get("source", ""),
        index=state.get("index", 0),
        execution_count=known.execution_count if known else None,
        outputs=known.outputs if known else [],
        metadata=known.metadata if known else {},
    )
