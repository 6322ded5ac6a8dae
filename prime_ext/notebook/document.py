"""One notebook by path, written by the browser that has it open or else by the server."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prime_ext.completed import completed
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
from prime_ext.notebook.cell_run import STOP_SECONDS, CellRun, Kernel, OngoingRun, Outputs
from prime_ext.notebook.operation_log import OperationLog, cell_state
from prime_ext.notebook.seen import SeenCells
from prime_ext.notebook.shared_notebook import SharedNotebook
from prime_ext.notebook.writer import NotebookWriter
from prime_ext.session.records import NotebookOp

if TYPE_CHECKING:
    from prime_ext.kernel.execution import Interrupt


@dataclass(frozen=True)
class Change:
    """An operation that was applied."""

    op: NotebookOp
    cell: Cell
    """The cell after the operation; for a deletion, the deleted cell."""
    unsaved: str | None = None
    """Why the change was applied to the open notebook but is not saved yet, if so."""


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
            self._writer.hub.remind_waiting(self.path)
            try:
                return await self._run(
                    cell_id, kernel, on_outputs, on_busy, on_begun, expected_hash
                )
            finally:
                del self._notebook.running[cell_id]
                self._writer.hub.remind_waiting(self.path)

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
        run = OngoingRun(self._notebook, self._writer, self._operations, self._log, cell_id)
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
                await run.show(operation["expected_hash"])
                self._notebook.supersede(cell_id)
        except PrimeError as error:
            self._refused(run.op_id, operation, error)
            raise
        self.seen.shown(cell)
        return await run.carry_out(cell, kernel, on_outputs, on_busy, on_begun)

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
