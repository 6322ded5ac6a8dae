"""Selects the current writer of a notebook: the page that holds the lease, or the server."""

from __future__ import annotations

import contextlib
from typing import Any

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell
from prime_ext.notebook.lease import LeaseHub, LeaseLost
from prime_ext.notebook.operation_log import Unsaved
from prime_ext.notebook.operations import Applied
from prime_ext.notebook.writer_browser import BrowserWriter
from prime_ext.notebook.writer_contents import ContentsWriter
from prime_ext.notebook.writer_shared import FindShared, SharedWriter


class NotebookWriter:
    """Reads and writes notebooks by path, through the current writer of each."""

    def __init__(self, hub: LeaseHub, contents: ContentsWriter, shared: FindShared) -> None:
        self.hub = hub
        self.browser = BrowserWriter(hub)
        self._contents = contents
        self._shared = shared

    def name(self, path: str) -> str:
        """Return the name of the current writer: ``browser`` or ``server``."""
        return self.browser.name if self.hub.held(path) else self._contents.name

    async def read(self, path: str, cell_id: str | None) -> list[Cell]:
        """Return one cell, or all cells, including unsaved edits of an open notebook."""
        if await self.hub.attached(path):
            with contextlib.suppress(LeaseLost):
                return await self.browser.read(path, cell_id)
        document = await self._shared(path)
        if document is not None:
            return SharedWriter(document).read(cell_id)
        return await self._contents.read(path, cell_id)

    async def apply(
        self, path: str, operation: dict[str, Any], op_id: str
    ) -> tuple[Applied, str, Unsaved | None]:
        """Apply and save an operation; return the outcome, the writer, and why it is not saved."""
        repeated = False
        if await self.hub.attached(path):
            try:
                applied = await self.browser.apply(path, operation, op_id)
                return applied, self.browser.name, await self.save(path)
            except LeaseLost:
                repeated = True
        applied = await self.write_here(path, operation, repeated=repeated)
        return applied, self._contents.name, None

    async def write_here(
        self, path: str, operation: dict[str, Any], *, repeated: bool = False
    ) -> Applied:
        """Apply an operation on the server, when no page with this extension has it open."""
        document = await self._shared(path)
        if document is not None:
            return SharedWriter(document).apply(operation, repeated=repeated)
        applied = await self._contents.apply(path, operation, repeated=repeated)
        # A page may have opened the notebook meanwhile and read the file before this change.
        self.hub.remind(path)
        return applied

    async def save(self, path: str) -> Unsaved | None:
        """Save the open notebook; return why it could not be saved, if so."""
        try:
            await self.browser.save(path)
        except LeaseLost:
            return Unsaved("The browser went away before it had saved the notebook.", "page_gone")
        except PrimeError as error:
            return Unsaved(f"{error.message} {error.hint}".strip(), error.code)
        return None
