"""The kernels of all notebooks, found by the notebook's path and started only if none runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.closing import cancelled
from prime_ext.errors import PrimeError
from prime_ext.kernel.connection import KernelConnection
from prime_ext.kernel.kernelspec import kernelspec_metadata, kernelspec_of
from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.kernel.server_sessions import document_path, session_at
from prime_ext.notebook_file import read_notebook

_SESSION_ATTEMPTS = 50
_SESSION_PAUSE = 0.2


class NotebookKernels:
    """The kernels of all notebooks the agent works on; one `NotebookKernel` for each path.

    ``store`` is the fsspec URL for snapshots of kernels that cannot access the server's files. If
    it is empty, their snapshots are transferred to the server.
    """

    def __init__(
        self, session_manager: Any, kernel_manager: Any, log: logging.Logger, store: str = ""
    ) -> None:
        self._session_manager = session_manager
        self._kernel_manager = kernel_manager
        self.log = log
        self.store = store
        self._notebooks: dict[str, NotebookKernel] = {}
        self._connections: dict[str, KernelConnection] = {}
        self._following: set[asyncio.Task[None]] = set()

    def for_notebook(self, path: str) -> NotebookKernel:
        """Return the kernel of the notebook at ``path``, whether one runs or not."""
        path = path.strip("/")
        if path not in self._notebooks:
            self._notebooks[path] = NotebookKernel(path, self)
        return self._notebooks[path]

    def rename(self, old: str, new: str) -> None:
        """Note that a notebook was moved. It keeps its kernel."""
        notebook = self._notebooks.pop(old.strip("/"), None)
        if notebook is not None:
            notebook.path = new.strip("/")
            self._notebooks[notebook.path] = notebook

    async def move_along(self, old: str, new: str) -> None:
        """Give the server's session of a moved notebook the new path."""
        kept = await self.session_of(old.strip("/"))
        if kept is not None and await self.session_of(new.strip("/")) is None:
            await ensure_async(
                self._session_manager.update_session(
                    kept["id"], path=new.strip("/"), name=Path(new).name
                )
            )

    async def close(self) -> None:
        """Close all connections. The kernels continue to run."""
        await cancelled(self._following)
        for connection in list(self._connections.values()):
            await connection.close()
        self._connections.clear()
        self._notebooks.clear()

    async def session_of(self, path: str) -> dict[str, Any] | None:
        """Return the server's session model for ``path``, if there is one with a live kernel."""
        return await session_at(self._session_manager, path)

    async def started(self, kernel_id: str) -> None:
        """Follow a kernel that the server has started, if it belongs to a notebook we know.

        The server announces a kernel before its session exists, so look for the session repeatedly.
        """
        # Nobody who announces a start waits for the end of this.
        task = asyncio.create_task(self._look_for(kernel_id))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        await task

    async def _look_for(self, kernel_id: str) -> None:
        for _ in range(_SESSION_ATTEMPTS):
            with contextlib.suppress(HTTPError):
                model = await ensure_async(self._session_manager.get_session(kernel_id=kernel_id))
                path = document_path(model["path"], model["name"], model["type"])
                notebook = self._notebooks.get(path.strip("/"))
                if notebook is None or not notebook.on_state or await notebook.follow():
                    return
            await asyncio.sleep(_SESSION_PAUSE)

    async def start(self, path: str, attempts: int = 2) -> KernelConnection:
        """Start a kernel of the notebook's kernelspec and connect to it.

        Raises
        ------
        PrimeError
            ``notebook_not_found``, ``notebook_invalid``, ``kernel_start_failed``, or
            ``kernel_no_answer`` if it is alive but does not answer.
        """
        kernel_name = await self._kernelspec_name(path)
        try:
            model: dict[str, Any] = await ensure_async(
                self._session_manager.create_session(
                    path=path, name=Path(path).name, type="notebook", kernel_name=kernel_name
                )
            )
        except Exception as error:
            self.log.warning("Starting a kernel for %s failed", path, exc_info=True)
            raise _start_failed(kernel_name, _message(error)) from error
        connection = self.connection(model["kernel"]["id"])
        try:
            await connection.channels()
        except PrimeError as error:
            if error.code != "kernel_dead":
                raise  # It may answer later, or a page may have started it.
            name = connection.kernel_name
            await self.discard(model, connection)
            # Another program may have taken a port between its selection and its use.
            if attempts > 1:
                return await self.start(path, attempts - 1)
            raise _start_failed(name, error.message) from error
        return connection

    async def discard(self, model: dict[str, Any], connection: KernelConnection) -> None:
        """Delete a session whose kernel never answered."""
        for _ in range(_SESSION_ATTEMPTS):
            if connection.stop_restarts():
                with contextlib.suppress(Exception):
                    await ensure_async(self._session_manager.delete_session(model["id"]))
                if not await self._session_manager.session_exists(path=model["path"]):
                    return
            await asyncio.sleep(_SESSION_PAUSE)
        self.log.warning("The session of a kernel that did not come up is left: %s", model["path"])

    def connection(self, kernel_id: str) -> KernelConnection:
        """Return the connection to a kernel of the server; there is one for each."""
        known = self._connections.get(kernel_id)
        if known is None or known.gone:
            known = KernelConnection(kernel_id, self._kernel_manager, self.log)
            known.on_gone = partial(self._forget, known)
            self._connections[kernel_id] = known
        return known

    def _forget(self, connection: KernelConnection) -> None:
        if self._connections.get(connection.kernel_id) is connection:
            del self._connections[connection.kernel_id]

    async def kernelspec(self, name: str) -> dict[str, Any]:
        """Return a kernelspec as it stands in a notebook's metadata."""
        return await kernelspec_metadata(self._kernel_manager.kernel_spec_manager, name)

    async def sources(self, path: str) -> list[str]:
        """Return the source of all code cells as last saved; none if the file is unreadable."""
        try:
            content = await self._read(path)
        except PrimeError:
            return []
        cells = content.get("cells", ())
        return [str(cell["source"]) for cell in cells if cell["cell_type"] == "code"]

    async def _kernelspec_name(self, path: str) -> str | None:
        name = kernelspec_of(await self._read(path)).get("name")
        return name if isinstance(name, str) and name else None

    async def _read(self, path: str) -> dict[str, Any]:
        return await read_notebook(self._session_manager.contents_manager, path, self.log)


def _start_failed(kernel_name: str | None, why: str) -> PrimeError:
    kernel = f"kernel {kernel_name!r}" if kernel_name else "default kernel"
    return PrimeError(
        f"The {kernel} could not be started. {why}".strip(),
        code="kernel_start_failed",
        hint="Choose another kernel for the notebook, or see the server's log; "
        "`jupyter kernelspec list` shows what is installed.",
        status=502,
    )


def _message(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return error.log_message or error.reason or str(error)
    return str(error) or type(error).__name__
