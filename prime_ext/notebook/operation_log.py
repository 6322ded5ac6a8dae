"""Records the outcome of operations on a notebook in the session's log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, CellConflict, source_hash
from prime_ext.session.records import NotebookOp


class Log(Protocol):
    def seqs_of(self, *kinds: str) -> Sequence[int]: ...


class Recorder(Protocol):
    """The part of a session that records the operations of a document."""

    @property
    def log(self) -> Log: ...

    def append(self, record: Any, /) -> Any: ...

    def keep(self, name: str, data: bytes, *, text: str) -> bool: ...


MOST_KEPT = 2_000_000
"""Maximum size of a cell that is kept before a run, in characters of JSON; the same as ``PIECE`` in
``src/notebook/operations.ts``."""


class Unsaved(NamedTuple):
    """Why a change of the open notebook is not saved."""

    reason: str
    code: str


class OperationLog:
    """Records each operation, applied or not, as one ``notebook_op``.

    Parameters
    ----------
    turn:
        Turn that the operations belong to.
    reverts:
        Turn that the operations undo, if any.
    """

    def __init__(
        self, recorder: Recorder, turn: str | None = None, *, reverts: str | None = None
    ) -> None:
        self._recorder = recorder
        self.turn = turn
        self.reverts = reverts

    def applied(
        self,
        op_id: str,
        operation: dict[str, Any],
        *,
        writer: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        unsaved: Unsaved | None = None,
    ) -> NotebookOp:
        """Record an operation that changed a cell from ``before`` to ``after``; see ``Applied``."""
        before = None if before is None else dict(before)
        kept = self._keep(op_id, before.pop("cell", None)) if before else None
        return self._record(
            op_id,
            operation,
            "applied",
            writer=writer,
            before=_hashed(before),
            after=_hashed(after),
            kept=kept,
            **_why(unsaved),
        )

    def ran(
        self,
        op_id: str,
        operation: dict[str, Any],
        cell: Cell,
        *,
        writer: str,
        execution_count: int | None,
        status: str,
        was: dict[str, Any] | None = None,
        unsaved: Unsaved | None = None,
    ) -> NotebookOp:
        """Record a run whose result the cell shows.

        ``was`` is the whole cell before the run (nbformat); it is kept if it has outputs.
        """
        before = cell_state(cell)
        kept = self._keep(op_id, was, MOST_KEPT) if was and was.get("outputs") else None
        after = {**before, "execution_count": execution_count, "status": status}
        return self._record(
            op_id,
            operation,
            "applied",
            writer=writer,
            before=before,
            after=after,
            kept=kept,
            **_why(unsaved),
        )

    def not_shown(
        self,
        op_id: str,
        operation: dict[str, Any],
        cell: Cell,
        *,
        writer: str,
        reason: str,
        code: str,
    ) -> NotebookOp:
        """Record a run whose result could not be written into the notebook."""
        return self._record(
            op_id,
            operation,
            "failed",
            writer=writer,
            before=cell_state(cell),
            reason=reason,
            code=code,
        )

    def not_begun(
        self, op_id: str, operation: dict[str, Any], cell: Cell, *, writer: str
    ) -> NotebookOp:
        """Record a run that the kernel never started; the cell is unchanged."""
        before = cell_state(cell)
        return self._record(
            op_id, operation, "failed", writer=writer, before=before, code="not_begun"
        )

    def refused(
        self, op_id: str, operation: dict[str, Any], error: PrimeError, *, writer: str
    ) -> NotebookOp:
        """Record an operation that changed nothing; for a conflict, with both sources."""
        before = after = None
        if isinstance(error, CellConflict):
            before = {"source": error.current}
            after = None if error.proposed is None else {"source": error.proposed}
        return self._record(
            op_id,
            operation,
            "conflict" if isinstance(error, CellConflict) else "failed",
            writer=writer,
            before=before,
            after=after,
            reason=error.message,
            code=error.code,
        )

    def _keep(self, op_id: str, cell: dict[str, Any] | None, most: int | None = None) -> str | None:
        """Keep a whole cell in a file beside the log and return the name of the file.

        Return ``None`` if the cell was not kept, for example if it exceeds ``most`` characters.
        """
        if cell is None:
            return None
        name, text = f"cell-{op_id}.json", json.dumps(cell)
        if most is not None and len(text) > most:
            return None
        return name if self._recorder.keep(name, text.encode(), text=text) else None

    def _record(
        self, op_id: str, operation: dict[str, Any], status: str, **fields: Any
    ) -> NotebookOp:
        op = NotebookOp(
            op_id=op_id,
            op=operation["op"],
            cell_id=operation["cell_id"],
            status=status,
            turn=self.turn,
            reverts=self.reverts,
            **fields,
        )
        self._recorder.append(op)
        return op


def cell_state(cell: Cell) -> dict[str, Any]:
    """Return the state of a cell as in a record, without its neighbours."""
    return {"source": cell.source, "cell_type": cell.cell_type, "index": cell.index}


def _why(unsaved: Unsaved | None) -> dict[str, Any]:
    return {} if unsaved is None else unsaved._asdict()


def _hashed(state: dict[str, Any] | None) -> dict[str, Any] | None:
    """Add the hash of the original source, since the record may contain a redacted source."""
    return None if state is None else {**state, "hash": source_hash(state["source"])}
