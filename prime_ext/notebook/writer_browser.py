"""Writes an open notebook by sending operations to the browser that holds its lease."""

from __future__ import annotations

import uuid
from typing import Any

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, CellConflict, CellLocked, CellNotFound, CellNotInPage
from prime_ext.notebook.lease import LeaseHub, OperationRefused
from prime_ext.notebook.operations import Applied


class BrowserWriter:
    """Reads and writes open notebooks through the browser that has them open.

    Every method raises ``LeaseLost`` if no browser has the notebook open, ``CellNotFound``,
    ``CellConflict`` or ``CellLocked`` if the operation cannot be applied, and ``PrimeError`` for
    any other error that the browser reports.
    """

    name = "browser"

    def __init__(self, hub: LeaseHub) -> None:
        self._hub = hub

    async def read(self, path: str, cell_id: str | None = None) -> list[Cell]:
        """Return one cell, or all cells, as the browser shows them, including unsaved edits.

        A browser sends a large notebook in several pieces, each smaller than a socket's message
        limit.
        """
        if cell_id is not None:
            result = await self._request(path, {"op": "read", "cell_id": cell_id})
            return _cells(result)
        cells: list[Cell] = []
        start: int | None = 0
        while start is not None:
            result = await self._request(path, {"op": "read", "start": start})
            cells += _cells(result)
            start = result.get("next")
        return cells

    async def apply(
        self, path: str, operation: dict[str, Any], op_id: str | None = None
    ) -> Applied:
        """Apply one operation to the open document."""
        result = await self._request(path, operation, op_id)
        return Applied(result.get("before"), result.get("after"))

    async def save(self, path: str) -> None:
        """Save the document through the browser, which detects whether the file has changed."""
        await self._request(path, {"op": "save"})

    async def _request(
        self, path: str, operation: dict[str, Any], op_id: str | None = None
    ) -> dict[str, Any]:
        try:
            return await self._hub.request(path, operation, op_id or uuid.uuid4().hex)
        except OperationRefused as refused:
            raise _error(refused, operation) from refused


def _cells(result: dict[str, Any]) -> list[Cell]:
    try:
        return [Cell.from_nbformat(raw, int(raw["index"])) for raw in result["cells"]]
    except (KeyError, TypeError, ValueError):
        raise PrimeError(
            "The page that has the notebook open answered with something that is not its cells.",
            code="bad_answer",
            hint="Reload the page: it may be of another version of the extension.",
            status=502,
        ) from None


def _error(refused: OperationRefused, operation: dict[str, Any]) -> PrimeError:
    if refused.code == "cell_not_found":
        # Either the cell itself is missing, or the one that it should follow.
        cell_id = refused.cell_id or operation["cell_id"]
        return CellNotInPage(cell_id) if refused.is_behind else CellNotFound(cell_id)
    if refused.code == "cell_conflict":
        return CellConflict(operation["cell_id"], refused.source or "", operation.get("source"))
    if refused.code == "cell_locked":
        return CellLocked(operation["cell_id"], operation["op"])
    if refused.code == "save_conflict":
        return PrimeError(
            refused.message,
            code="save_conflict",
            hint="The change is in the open notebook but not on disk: the file was changed by "
            "another program or in another tab. The user has to save or reload it.",
            status=409,
        )
    if refused.code == "file_missing":
        return PrimeError(
            refused.message,
            code="file_missing",
            hint="The change is in the open notebook but not on disk. The user has to open the "
            "notebook where it is now and attach this session to it, or save it here again.",
            status=409,
        )
    return PrimeError(refused.message, code=refused.code, status=502)
