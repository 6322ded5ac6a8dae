"""Writes a closed notebook through the server's contents manager, preserving others' changes.

The contents API has no conditional save. Therefore the file's modification time, size and hash are
checked right before saving. If they have changed since the file was read, the operation is applied
again to the new content. The operation carries the hash of the expected source, so that a change to
the cell itself is still a conflict.
"""

from __future__ import annotations

import copy
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, CellNotFound
from prime_ext.notebook.describe import shorten_outputs
from prime_ext.notebook.operations import Applied, apply_operation, upgrade_ids
from prime_ext.notebook.own_writes import OwnWrites
from prime_ext.notebook_file import not_a_notebook, not_read, read_notebook

ATTEMPTS = 5
"""Maximum number of attempts to apply an operation while the file keeps changing."""
REMEMBERED = 8
"""Number of parsed notebooks that are cached between operations."""


@dataclass(frozen=True)
class _Version:
    """Metadata of a file that the contents manager returns without its content."""

    last_modified: Any
    size: Any
    hash: str | None


@dataclass(frozen=True)
class _Loaded:
    notebook: dict[str, Any]
    version: _Version


class ContentsWriter:
    """Reads and writes notebooks through a contents manager, sync or async.

    Callers must hold a lock for the path, since ``apply`` is a read-modify-write cycle.
    """

    name = "server"

    def __init__(
        self,
        contents_manager: Any,
        log: logging.Logger | logging.LoggerAdapter[Any] | None = None,
        written: OwnWrites | None = None,
    ) -> None:
        self._contents = contents_manager
        self._written = OwnWrites() if written is None else written
        self._log = log or logging.getLogger(__name__)
        self._hashes = True
        # Not only for speed: if nbformat has to repair cell ids, each reading gives random ones,
        # and the next operation would not find the id that was read before.
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()

    async def read(self, path: str, cell_id: str | None = None) -> list[Cell]:
        """Return one cell, or all cells, from the file."""
        loaded = await self._load(path)
        cells = [
            Cell.from_nbformat({**raw, "outputs": shorten_outputs(raw.get("outputs", []))}, i)
            for i, raw in enumerate(loaded.notebook["cells"])
            if cell_id is None or raw["id"] == cell_id
        ]
        if cell_id is not None and not cells:
            raise CellNotFound(cell_id)
        return cells

    async def apply(
        self, path: str, operation: dict[str, Any], *, repeated: bool = False
    ) -> Applied:
        """Apply one operation and save.

        Parameters
        ----------
        repeated:
            Whether a browser was sent the operation before and may have applied and saved it.
        """
        for _ in range(ATTEMPTS):
            loaded = await self._load(path)
            notebook = copy.deepcopy(loaded.notebook)
            applied = apply_operation(notebook, operation, repeated=repeated)
            if notebook == loaded.notebook:
                return applied
            if await self._version(path) != loaded.version:
                continue
            await self._save(path, notebook, loaded.version)
            return applied
        raise PrimeError(
            f"{path} keeps being changed by another program.",
            code="notebook_busy",
            hint="Try again once that program is done.",
            status=409,
        )

    async def _load(self, path: str) -> _Loaded:
        version = await self._version(path)
        known = self._loaded.get(path)
        if known is not None and known.version == version:
            self._loaded.move_to_end(path)
            return known
        notebook = await read_notebook(self._contents, path, self._log)
        if notebook.get("nbformat") != 4 or not isinstance(notebook.get("cells"), list):
            raise not_a_notebook(path, "it is not a notebook of nbformat 4")
        upgrade_ids(notebook)
        return self._remember(path, _Loaded(notebook, version))

    def _remember(self, path: str, loaded: _Loaded) -> _Loaded:
        self._loaded[path] = loaded
        self._loaded.move_to_end(path)
        while len(self._loaded) > REMEMBERED:
            self._loaded.popitem(last=False)
        return loaded

    async def _version(self, path: str) -> _Version:
        try:
            model = await self._metadata(path)
        except HTTPError as error:
            raise not_read(path, error) from error
        return _Version(model.get("last_modified"), model.get("size"), model.get("hash"))

    async def _metadata(self, path: str) -> Any:
        if self._hashes:
            try:
                return await ensure_async(
                    self._contents.get(path, content=False, type="notebook", require_hash=True)
                )
            except TypeError:
                # A contents manager without support for hashes (before jupyter_server 2.11).
                self._hashes = False
        return await ensure_async(self._contents.get(path, content=False, type="notebook"))

    async def _save(self, path: str, notebook: dict[str, Any], over: _Version) -> None:
        try:
            await ensure_async(
                self._contents.save(
                    {"type": "notebook", "format": "json", "content": notebook}, path
                )
            )
        except HTTPError as error:
            self._loaded.pop(path, None)
            reason = error.log_message or error.reason or str(error.status_code)
            raise PrimeError(
                f"{path} could not be saved: {reason}",
                code="notebook_not_saved",
                hint="Nothing was changed. Is the file read-only, or the disk full?",
                status=error.status_code,
            ) from error
        version = await self._version(path)
        self._written.note(path, over.hash, version.hash)
        self._remember(path, _Loaded(notebook, version))
