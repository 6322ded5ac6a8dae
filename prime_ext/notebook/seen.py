"""The cell sources that a session's model was shown, and what others have changed since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prime_ext.notebook.cell import Cell, source_hash


@dataclass(frozen=True)
class Changes:
    """Changes by others since the model last read the notebook; empty at the first reading."""

    edited: list[Cell]
    inserted: list[Cell]
    deleted: list[tuple[str, str]]
    """Id and first line of each deleted cell."""
    moved: bool = False

    def __bool__(self) -> bool:
        return bool(self.edited or self.inserted or self.deleted or self.moved)


@dataclass(frozen=True)
class _Known:
    hash: str
    first_line: str


class SeenCells:
    """The cells that a session has seen. Kept in memory only, so it is empty after a restart.

    Parameters
    ----------
    resumed:
        Whether the session continues from before: the model may know cells that are not listed
        here.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self.resumed = resumed
        self._shown: dict[str, str] = {}
        self._known: dict[str, _Known] | None = None
        self._order: list[str] = []

    def hash(self, cell_id: str) -> str | None:
        """Return the hash of the source that the model was last shown or wrote itself."""
        return self._shown.get(cell_id)

    def shown(self, cell: Cell) -> None:
        """Record that the model is shown this cell's full source."""
        self._shown[cell.id] = cell.hash

    def wrote(self, cell: Cell) -> None:
        """Record that the model itself wrote this source or moved the cell here."""
        self._shown[cell.id] = cell.hash
        if self._known is not None:
            self._known[cell.id] = _Known(cell.hash, cell.first_line)
            if cell.id in self._order:
                self._order.remove(cell.id)
            self._order.insert(cell.index, cell.id)

    def told(self, cell_id: str, current: str) -> None:
        """Record that an error message has shown the model the cell's current source."""
        self._shown[cell_id] = source_hash(current)

    def forget(self, cell_id: str) -> None:
        """Forget a cell that the model itself has deleted."""
        self._shown.pop(cell_id, None)
        if self._known is not None:
            self._known.pop(cell_id, None)
            if cell_id in self._order:
                self._order.remove(cell_id)

    def look(self, cells: list[Cell], shown: Iterable[Cell]) -> Changes:
        """Record a reading of the notebook and return what others have changed since the last one.

        Parameters
        ----------
        cells:
            All current cells.
        shown:
            The cells whose full source the model is about to be shown. The others keep the hash
            with which they were last shown, so that editing an unread change is a conflict.
        """
        known = self._known
        if known is None:
            changes = Changes([], [], [])
        else:
            ids = [cell.id for cell in cells]
            left = set(ids)
            changes = Changes(
                edited=[c for c in cells if c.id in known and known[c.id].hash != c.hash],
                inserted=[c for c in cells if c.id not in known],
                deleted=[(i, k.first_line) for i, k in known.items() if i not in left],
                moved=[i for i in ids if i in known] != [i for i in self._order if i in left],
            )
        self._known = {cell.id: _Known(cell.hash, cell.first_line) for cell in cells}
        self._order = [cell.id for cell in cells]
        for cell in shown:
            self.shown(cell)
        for cell_id in set(self._shown) - set(self._known):
            del self._shown[cell_id]
        return changes
