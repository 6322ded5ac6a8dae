"""One session, and so one kernel, for each document, shared by its pages and the agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakValueDictionary

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.kernel.server_kernels import replaced

_RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_OF_DOCUMENTS = ("notebook", "file")
"""Types of sessions that belong to a document; consoles have paths of their own."""


def document_path(path: str, name: str | None, kind: str | None) -> str:
    """Return the path of the document that a session belongs to.

    A JupyterLab page requests a session with a random path in the document's folder, and sets the
    document's path once the kernel has started.
    """
    folder, slash, last = path.rpartition("/")
    if name and kind in _OF_DOCUMENTS and _RANDOM.fullmatch(last):
        path = f"{folder}{slash}{name}"
    # jupyter-collaboration before 4.0 put the name of its drive before the path.
    return path.removeprefix("RTC:")


async def session_at(session_manager: Any, path: str) -> dict[str, Any] | None:
    """Return the model of the session with this path; ``None`` if there is no live one."""
    for candidate in (path, f"RTC:{path}"):
        try:
            model: dict[str, Any] = await ensure_async(session_manager.get_session(path=candidate))
        except HTTPError:
            continue
        return model
    return None


def one_session_for_a_document(session_manager: Any, ending: Collection[str]) -> Callable[[], None]:
    """Make concurrent requests of the agent and a page for a document's session share one session.

    The server checks whether a session exists and, if not, takes seconds to start a kernel for it.
    Without this hook a page that was just opened and the agent could get a session each and work in
    two kernels: the page checks before the agent's session exists, and the agent does not find the
    session of the page, which still has a random path.

    A request with the document's path gets the existing session, as in the server's own REST
    handler, or the session that a page is about to get. A page's request gets the existing session
    if that has the requested kernelspec; the response contains the random path of the request,
    since the page expects it. Requests of several pages are not merged: a page that discards its
    session shuts it down, and must not shut down the session of another page.

    Parameters
    ----------
    ending:
        Ids of the kernels that are being shut down.

    Returns
    -------
    A function that removes the hook.
    """
    original = session_manager.create_session
    locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
    opening: dict[str, set[asyncio.Task[Any]]] = {}
    """Document → session starts in progress that pages have requested."""

    async def begun_by_page(document: str) -> dict[str, Any] | None:
        """The newest session of a page that does not have the document's path yet."""
        for model in reversed(await ensure_async(session_manager.list_sessions())):
            of = document_path(model["path"], model["name"], model["type"])
            if of == document and model["kernel"]["id"] not in ending:
                # The page may be gone already; then nobody else would set the document's path.
                await ensure_async(session_manager.update_session(model["id"], path=document))
                return await session_at(session_manager, document)
        return None

    def is_asked_for(model: dict[str, Any], kernel_name: str | None) -> bool:
        name = kernel_name or session_manager.kernel_manager.default_kernel_name
        kernel = model["kernel"]
        return bool(kernel["name"] == name) and kernel["id"] not in ending

    async def create_session(path: str | None = None, **options: Any) -> Any:
        async def start() -> Any:
            return await ensure_async(original(path=path, **options))

        if path is None:
            return await start()
        kernel_id = options.get("kernel_id")
        document = document_path(path, options.get("name"), options.get("type"))
        lock = locks.setdefault(document, asyncio.Lock())
        if path.removeprefix("RTC:") == document:
            if kernel_id is not None:
                return await start()
            while True:
                async with lock:
                    model = await session_at(session_manager, document)
                    model = model or await begun_by_page(document)
                    if model is not None:
                        return model
                    if document not in opening:
                        return await start()
                    others = set(opening[document])
                await asyncio.wait(others)
        async with lock:
            model = await session_at(session_manager, document)
            if model and kernel_id is None and is_asked_for(model, options.get("kernel_name")):
                return _by_path(model, path)
            started = asyncio.create_task(start())
            opening.setdefault(document, set()).add(started)
        try:
            return await started
        finally:
            opening[document].discard(started)
            if not opening[document]:
                del opening[document]

    return replaced(session_manager, "create_session", create_session)


def _by_path(model: dict[str, Any], path: str) -> dict[str, Any]:
    by_path = {**model, "path": path}
    if "notebook" in model:
        by_path["notebook"] = {**model["notebook"], "path": path}
    return by_path
