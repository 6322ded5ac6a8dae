"""What a session knows of a notebook: the sources the model was shown, and what changed since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prime_ext.notebook.cell import Cell, source_hash


@dataclass(frozen=True)
class Changes:
    """What others did since the model last looked. Empty if it never did."""

    edited: list[Cell]
    inserted: list[Cell]
    deleted: list[tuple[str, str]]
    """Id and first line of each."""
    moved: bool = False

    def __bool__(self) -> bool:
        return bool(self.edited or self.inserted or self.deleted or self.moved)


@dataclass(frozen=True)
class _Known:
    hash: str
    first_line: str


class SeenCells:
    """Kept in memory: after a restart the first reading starts afresh.

    Parameters
    ----------
    resumed:
        The session goes on from before: the model may know cells that are not known here.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self.resumed = resumed
        self._shown: dict[str, str] = {}
        self._known: dict[str, _Known] | None = None
        self._order: list[str] = []

    def hash(self, cell_id: str) -> str | None:
        """Hash of the source the model was shown last, or wrote itself."""
        return self._shown.get(cell_id)

    def shown(self, cell: Cell) -> None:
        """The model is shown this cell's source in full."""
        self._shown[cell.id] = cell.hash

    def wrote(self, cell: Cell) -> None:
        """The model itself brought the cell to this source and place."""
        self._shown[cell.id] = cell.hash
        if self._known is not None:
            self._known[cell.id] = _Known(cell.hash, cell.first_line)
            if cell.id in self._order:
                self._order.remove(cell.id)
            self._order.insert(cell.index, cell.id)

    def told(self, cell_id: str, current: str) -> None:
        """An error has told the model what the cell holds now."""
        self._shown[cell_id] = source_hash(current)

    def forget(self, cell_id: str) -> None:
        """The model itself deleted the cell."""
        self._shown.pop(cell_id, None)
        if self._known is not None:
            self._known.pop(cell_id, None)
            if cell_id in self._order:
                self._order.remove(cell_id)

    def look(self, cells: list[Cell], shown: Iterable[Cell]) -> Changes:
        """The model looks at the notebook; returns what others changed since it last did.

        Parameters
        ----------
        cells:
            All cells as they are.
        shown:
            Those whose source the model is about to be shown in full. The others keep the hash
            they were last shown with, so that editing one blindly is a conflict.
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
