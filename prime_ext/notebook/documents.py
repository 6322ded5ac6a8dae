"""Provides the notebook documents, by path and by the session that works on one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.lease import LeaseHub, moved_path, normal_path
from prime_ext.notebook.operation_log import OperationLog, Recorder
from prime_ext.notebook.own_writes import OwnWrites
from prime_ext.notebook.seen import SeenCells
from prime_ext.notebook.shared_notebook import SharedNotebook
from prime_ext.notebook.writer import NotebookWriter
from prime_ext.notebook.writer_contents import ContentsWriter
from prime_ext.notebook.writer_shared import FindShared

Left = list[tuple[SharedNotebook, SeenCells]]
"""Cells that a closed session has seen, for each notebook."""


class NotebookDocuments:
    """The documents of all notebooks; one lock and one writer for each path.

    Parameters
    ----------
    shared:
        Returns the shared document of a path, if jupyter-collaboration is in use.
    """

    def __init__(
        self,
        hub: LeaseHub,
        contents_manager: Any,
        log: logging.Logger | logging.LoggerAdapter[Any] | None = None,
        shared: FindShared | None = None,
    ) -> None:
        self._hub = hub
        self._log = log or logging.getLogger(__name__)
        self._written = OwnWrites()
        contents = ContentsWriter(contents_manager, self._log, self._written)
        self._writer = NotebookWriter(hub, contents, shared or _nothing_shared)
        self._notebooks: dict[str, SharedNotebook] = {}
        hub.standing = self._standing
        hub.on_saved = self._written.note

    def get(
        self,
        path: str,
        session: Recorder,
        *,
        turn: str | None = None,
        reverts: str | None = None,
    ) -> NotebookDocument:
        """Return the document of ``path`` for ``session``; operations are recorded under ``turn``.

        With ``reverts``, the operations undo that turn. Then the user changes the cells, and the
        changes do not count as seen by the model.
        """
        path = normal_path(path)
        notebook = self._notebooks.get(path)
        if notebook is None:
            notebook = self._notebooks[path] = SharedNotebook(path)
        return NotebookDocument(
            notebook,
            self._writer,
            SeenCells() if reverts is not None else self._seen(notebook, session),
            OperationLog(session, turn, reverts=reverts),
            self._log,
        )

    @staticmethod
    def _seen(notebook: SharedNotebook, session: Recorder) -> SeenCells:
        seen = notebook.seen.get(session)
        if seen is None:
            # This runs at the first call of a session: a new one has no tool results yet.
            seen = SeenCells(resumed=bool(session.log.seqs_of("tool_result")))
            notebook.seen[session] = seen
        return seen

    def remind(self, path: str) -> None:
        """Have the pages that have the notebook open load the file first if it has changed."""
        self._hub.remind(path)

    def leave(self, session: Recorder) -> Left:
        """Remove and return the cells that a closed session has seen, for ``take_up``."""
        found = ((book, book.seen.pop(session, None)) for book in self._notebooks.values())
        return [(book, seen) for book, seen in found if seen is not None]

    @staticmethod
    def take_up(session: Recorder, left: Left) -> None:
        """Restore the result of ``leave`` for a session that is open again."""
        for notebook, seen in left:
            notebook.seen[session] = seen

    def _standing(self, path: str, version: str | None) -> dict[str, Any]:
        """Return the fields that a page is sent with its lease, see ``LeaseHub.standing``.

        ``written`` is the latest version of the file if only the server and its pages have written
        it since ``version``; ``running`` lists the cells that are running.
        """
        notebook = self._notebooks.get(path)
        running = [] if notebook is None else list(notebook.running)
        return {"written": self._written.since(path, version), "running": running}

    async def close(self) -> None:
        """Write the late outputs so far into the notebooks, and stop adding further ones."""
        await asyncio.gather(
            *(late.close() for book in self._notebooks.values() for late in book.late.values())
        )

    def rename(self, old: str, new: str) -> None:
        """Move documents and leases after the rename of a notebook or of a folder above it."""
        old, new = normal_path(old), normal_path(new)
        self._written.rename(old, new)
        self._hub.rename(old, new)
        for path, notebook in list(self._notebooks.items()):
            moved = moved_path(path, old, new)
            if moved is not None:
                notebook.path = moved
                self._notebooks.pop(path, None)
                # Sessions may already use the new path, if the file was moved outside of Jupyter.
                known = self._notebooks.setdefault(moved, notebook)
                if known is not notebook:
                    known.seen.update(notebook.seen)
                    known.late.update(notebook.late)


async def _nothing_shared(path: str) -> None:
    """Find no shared document: without collaboration there is only the file."""
