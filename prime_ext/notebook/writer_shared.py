"""Writes a notebook that jupyter-collaboration keeps as a shared document on this server.

The shared document stays alive for a minute after the last page has closed it, and pages without
this extension may have it open. It overwrites the file when it saves itself, and reloads a file
that was changed by others; either would lose edits. Therefore, while a shared document exists, it
is written instead of the file; it saves itself a second later.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from prime_ext.notebook.cell import Cell, CellNotFound
from prime_ext.notebook.describe import shorten_outputs
from prime_ext.notebook.operations import Applied, apply_operation, superseded

EXTENSION = "jupyter_server_ydoc"

LOADING_S = 5.0
"""Maximum time to wait for a document that is being loaded, in seconds."""
LOADING_PAUSE_S = 0.1

FindShared = Callable[[str], Awaitable[Any]]
"""Returns the ``YNotebook`` of a path, or ``None``."""


def shared_documents(server: Any) -> FindShared:
    """Return a function that finds shared documents; it finds none without collaboration."""

    async def find(path: str) -> Any:
        # Looked up at each call: the extension may be loaded after this one.
        point = server.extension_manager.extension_points.get(EXTENSION)
        if point is None or not point.app:
            return None
        for _ in range(round(LOADING_S / LOADING_PAUSE_S)):
            document = await point.app.get_document(
                path=path, content_type="notebook", file_format="json", copy=False
            )
            if document is None or "nbformat" in _meta(document):
                return document
            await asyncio.sleep(LOADING_PAUSE_S)
        return None

    return find


class SharedWriter:
    """Reads and writes one shared notebook; each operation is one transaction.

    Parameters
    ----------
    document:
        The shared ``YNotebook`` itself, not a copy.
    """

    name = "server"

    def __init__(self, document: Any) -> None:
        self._document = document

    def read(self, cell_id: str | None = None) -> list[Cell]:
        """Return one cell, or all cells, of the shared document."""
        cells = [
            Cell.from_nbformat({**raw, "outputs": shorten_outputs(raw.get("outputs") or [])}, i)
            for i, raw in enumerate(self._cells())
            if cell_id is None or raw["id"] == cell_id
        ]
        if cell_id is not None and not cells:
            raise CellNotFound(cell_id)
        return cells

    def apply(self, operation: dict[str, Any], *, repeated: bool = False) -> Applied:
        """Apply one operation; see ``ContentsWriter.apply``."""
        cells = self._cells()
        if operation["op"] == "late_outputs" and self._is_running(cells, operation["cell_id"]):
            raise superseded(operation["cell_id"])
        after = copy.deepcopy(cells)
        applied = apply_operation({"cells": after}, operation, repeated=repeated)
        if after == cells:
            return applied
        with self._document.ydoc.transaction():
            self._keep_ids()
            self._change(operation, cells, after)
        return applied

    def _cells(self) -> list[dict[str, Any]]:
        # `get_cell` omits the id before nbformat 4.5, although the shared cell has one.
        ycells = self._document.ycells
        return [{**self._document.get_cell(i), "id": ycells[i]["id"]} for i in range(len(ycells))]

    def _is_running(self, cells: list[dict[str, Any]], cell_id: str) -> bool:
        return any(
            cell["id"] == cell_id and self._document.ycells[i].get("execution_state") == "running"
            for i, cell in enumerate(cells)
        )

    def _keep_ids(self) -> None:
        meta = _meta(self._document)
        if meta.get("nbformat_minor", 0) < 5:
            meta["nbformat_minor"] = 5

    def _change(
        self, operation: dict[str, Any], before: list[dict[str, Any]], after: list[dict[str, Any]]
    ) -> None:
        """Change the shared cells from ``before`` to ``after``, without touching equal parts."""
        ycells = self._document.ycells
        kind, cell_id = operation["op"], operation["cell_id"]
        old = next((i for i, cell in enumerate(before) if cell["id"] == cell_id), None)
        new = next((i for i, cell in enumerate(after) if cell["id"] == cell_id), None)
        if old is not None and kind in ("edit_cell", "run_result"):
            if kind == "edit_cell":
                _replace_text(ycells[old]["source"], after[old]["source"])
            if "outputs" in operation:
                self._show_result(ycells[old], after[old])
        elif old is not None and kind == "late_outputs":
            same = _common(before[old]["outputs"], after[old]["outputs"])
            self._show(ycells[old], after[old]["outputs"], same)
        else:
            state = None
            if old is not None:
                state = ycells[old].get("execution_state")
                del ycells[old]
            if new is not None:
                ycells.insert(new, self._document.create_ycell(after[new]))
                if state is not None:
                    # A new shared cell is idle, but the moved cell may be running.
                    ycells[new]["execution_state"] = state

    @staticmethod
    def _show(ycell: Any, outputs: list[dict[str, Any]], start: int) -> None:
        """Replace the cell's outputs from index ``start`` on by those of ``outputs``."""
        from pycrdt import Map, Text

        del ycell["outputs"][start:]
        for output in outputs[start:]:
            shared = dict(output)
            if shared["output_type"] == "stream":
                shared["text"] = Text(shared["text"])
            ycell["outputs"].append(Map(shared))

    def _show_result(self, ycell: Any, cell: dict[str, Any]) -> None:
        self._show(ycell, cell["outputs"], 0)
        ycell["execution_count"] = cell["execution_count"]
        ycell["execution_state"] = "idle"
        ycell["metadata"]["trusted"] = cell["metadata"]["trusted"]


def _meta(document: Any) -> Any:
    from pycrdt import Map

    return document.ydoc.get("meta", type=Map)


def _replace_text(text: Any, new: str) -> None:
    """Replace only the differing part, so that others' concurrent edits and cursors survive."""
    old = str(text)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    # Positions in a shared text count UTF-8 bytes.
    start = len(old[:head].encode())
    end = len(old[: len(old) - tail].encode())
    text[start:end] = new[head : len(new) - tail]


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common prefix."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
