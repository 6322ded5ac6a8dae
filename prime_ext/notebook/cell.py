"""A notebook cell as the agent sees it, and the errors that concern one."""

from __future__ import annotations

import difflib
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_ext.clean_text import well_formed
from prime_ext.errors import PrimeError

CellType = Literal["code", "markdown", "raw"]

LOCKS = {"edit_cell": "editable", "delete_cell": "deletable"}
"""Operation → metadata of a cell (nbformat) that forbids it if false.

As in JupyterLab, a locked cell can be run and moved, and one that is locked against editing only
can be deleted.
"""

NEAR = 2
"""Number of cells listed on either side of an index that was given instead of an id."""


@dataclass(frozen=True)
class Cell:
    """Snapshot of one cell of a notebook (nbformat 4.5)."""

    id: str
    cell_type: str
    source: str
    index: int
    """Position from 0 at the time of reading. Operations never use it to name a cell."""
    execution_count: int | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """Shortened nbformat outputs: long text truncated, rich data as ``{mime: {"chars": n}}``."""
    metadata: dict[str, Any] = field(default_factory=dict)
    running: bool = False
    """Whether it is running or queued in the kernel."""

    @property
    def hash(self) -> str:
        return source_hash(self.source)

    @property
    def first_line(self) -> str:
        """First line that is not blank, truncated to 60 characters."""
        line = next((line.strip() for line in self.source.splitlines() if line.strip()), "(empty)")
        return line if len(line) <= 60 else line[:59] + "…"

    @property
    def may_raise(self) -> bool:
        """Whether the cell is tagged so that its exceptions stop no runs behind it (nbformat)."""
        tags = self.metadata.get("tags")
        return isinstance(tags, list) and "raises-exception" in tags

    @property
    def locks(self) -> list[str]:
        """The operations that the cell's author forbids."""
        return [kind for kind, flag in LOCKS.items() if self.metadata.get(flag) is False]

    @classmethod
    def from_nbformat(cls, cell: dict[str, Any], index: int) -> Cell:
        source = cell.get("source", "")
        return cls(
            id=cell["id"],
            cell_type=cell["cell_type"],
            source=source if isinstance(source, str) else "".join(source),
            index=index,
            execution_count=cell.get("execution_count"),
            outputs=list(cell.get("outputs") or []),
            metadata=dict(cell.get("metadata") or {}),
            running=bool(cell.get("running", False)),
        )


def source_hash(source: str) -> str:
    """Return the SHA-256 of the source in UTF-8, in hex.

    Lone surrogates are replaced by U+FFFD, as a browser's ``TextEncoder`` does.
    """
    return hashlib.sha256(well_formed(source).encode()).hexdigest()


def clean_source(source: str) -> str:
    """Normalise a source as an editor does: no lone surrogates, line endings ``\\n``."""
    return well_formed(source).replace("\r\n", "\n").replace("\r", "\n")


def new_cell_id() -> str:
    """Return a random id of the same length as nbformat's."""
    return secrets.token_hex(4)


class CellNotFound(PrimeError):
    """No cell has this id. ``explain_missing`` creates one that lists similar cells."""

    def __init__(
        self, cell_id: str, message: str = "", hint: str = "", *, code: str = "cell_not_found"
    ) -> None:
        super().__init__(
            message or f"The notebook has no cell with the id {cell_id!r}.",
            code=code,
            hint=hint or "Call read_notebook for the ids as they are now.",
            status=404,
        )
        self.cell_id = cell_id


class CellNotInPage(CellNotFound):
    """The page that has the notebook open lacks the cell, and changes of the file."""

    def __init__(self, cell_id: str) -> None:
        super().__init__(
            cell_id,
            f"The notebook that is open in the browser has no cell with the id {cell_id!r}, but it "
            "is not up to date: the file was changed, and could not be merged with what the user "
            "has not saved.",
            "The user has to save or reload the notebook. Until then read_notebook shows it as it "
            "is in the browser.",
            code="cell_not_in_page",
        )


class CellConflict(PrimeError):
    """The source of the cell differs from the expected one. Nothing was changed."""

    def __init__(self, cell_id: str, current: str, proposed: str | None) -> None:
        parts = [
            f"Cell {cell_id} does not hold what you expect: it was changed since you last saw it. "
            f"Nothing was done.\n\nIt now holds (hash {source_hash(current)}):\n{fence(current)}"
        ]
        if proposed is not None:
            parts.append(f"\n\nYou wanted:\n{fence(proposed)}")
        super().__init__(
            "".join(parts),
            code="cell_conflict",
            hint="Keep the other change: merge yours into it and try again, or ask the user.",
            status=409,
        )
        self.cell_id = cell_id
        self.current = current
        self.proposed = proposed


class CellLocked(PrimeError):
    """The author of the notebook forbids the operation on this cell. Nothing was changed."""

    def __init__(self, cell_id: str, kind: str) -> None:
        edits = kind == "edit_cell"
        super().__init__(
            f"Cell [{cell_id}] is locked against {'editing' if edits else 'deletion'} by its "
            f"author (metadata {LOCKS[kind]}: false). Nothing was done.",
            code="cell_locked",
            hint="Ask the user to unlock it, or insert a new cell."
            if edits
            else "Ask the user to unlock it, or leave it where it is.",
            status=409,
        )


class CellRunning(PrimeError):
    """The cell is running, so its source must not be changed. Nothing was changed.

    ``own``: whether the session that wanted to change the cell also runs it, and so can interrupt
    the run.
    """

    def __init__(self, cell_id: str, *, own: bool) -> None:
        super().__init__(
            f"Cell {cell_id} is being run with the source that it has now, and is to show what "
            "comes of that. Nothing was done.",
            code="cell_running",
            hint="Wait for the run to end (wait_for_run), or interrupt it (interrupt_run). Then "
            "try again."
            if own
            else "Another session runs it, which you can neither wait for nor interrupt. Try again "
            "later, or ask the user to stop it there.",
            status=409,
        )


class CellUnread(PrimeError):
    """The session has not read the cell since the server started. Nothing was changed."""

    def __init__(self, cell_id: str, current: str) -> None:
        super().__init__(
            f"You have not read cell {cell_id} since the server was started; it may have been "
            f"changed. Nothing was done.\n\nIt now holds (hash {source_hash(current)}):\n"
            f"{fence(current)}",
            code="cell_unread",
            hint="If your change still fits, make it again.",
            status=409,
        )
        self.cell_id = cell_id
        self.current = current


def expect_unlocked(operation: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Raise ``CellLocked`` if the cell's metadata forbid the operation.

    Locks do not concern an undo, which a person has asked for; nor does JupyterLab's own.
    """
    flag = LOCKS.get(operation["op"])
    if flag is not None and metadata.get(flag) is False and not operation.get("undo"):
        raise CellLocked(operation["cell_id"], operation["op"])


def fence(text: str, language: str = "") -> str:
    """Return ``text`` as a Markdown code block, with a fence longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{marks}{language}\n{text}{end}{marks}"


def explain_missing(cell_id: str, cells: Sequence[Cell]) -> CellNotFound:
    """Return the error for an unknown cell id, listing the cells that may have been meant."""
    if not cells:
        return CellNotFound(cell_id, "The notebook has no cells.", "Insert one with insert_cell.")
    number = re.fullmatch(r"(?:In|Out)?\s*\[?\s*(-?\d{1,6})\s*\]?:?", cell_id.strip())
    if number:
        index = int(number[1])
        at = min(max(index + len(cells) if index < 0 else index, 0), len(cells) - 1)
        near = list(cells[max(0, at - NEAR) : at + NEAR + 1])
        near += [c for c in cells if c.execution_count == index and c not in near]
        message = f"{cell_id!r} is not a cell id. Cells are named by id, never by position."
    else:
        ids = difflib.get_close_matches(cell_id, [c.id for c in cells], n=3, cutoff=0.6)
        near = [c for c in cells if c.id in ids] or list(cells[-(2 * NEAR + 1) :])
        message = f"The notebook has no cell with the id {cell_id!r}; it may have been deleted."
    listing = "\n".join(
        f"- {c.id} (cell {c.index + 1} of {len(cells)}, {c.cell_type}): {c.first_line}"
        for c in near
    )
    return CellNotFound(cell_id, f"{message} Cells near it:\n{listing}")
