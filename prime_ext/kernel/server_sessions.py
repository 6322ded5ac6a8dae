"""One session, and so one kernel, for each document: for its pages and the agent alike."""

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
"""Types of sessions; consoles have paths of their own."""


def document_path(path: str, name: str | None, kind: str | None) -> str:
    """Path of the document that a session is for.

    A page asks for a session by a random path in the document's folder, and gives the session the
    path of the document once its kernel is there.
    """
    folder, slash, last = path.rpartition("/")
    if name and kind in _OF_DOCUMENTS and _RANDOM.fullmatch(last):
        path = f"{folder}{slash}{name}"
    # jupyter-collaboration before 4.0 put the name of its drive before the path.
    return path.removeprefix("RTC:")


async def session_at(session_manager: Any, path: str) -> dict[str, Any] | None:
    """The model of the session that has the path of a document, if its kernel lives."""
    for candidate in (path, f"RTC:{path}"):
        try:
            model: dict[str, Any] = await ensure_async(session_manager.get_session(path=candidate))
        except HTTPError:
            continue
        return model
    return None


def one_session_for_a_document(session_manager: Any, ending: Collection[str]) -> Callable[[], None]:
    """Give the agent and a page that ask for a document's session the same one.

    The server looks whether there is one, and if not, takes seconds to start a kernel for it. A
    page that was just opened and the agent would get one each, and work in two kernels: the page
    has looked before, and the agent does not see what the page calls by a random path still.

    Whoever asks by the document's path gets the session that is there, as in the server's own
    door, or the one that a page is about to have. A page is given the one that is there if its
    kernel is the one that it asks for; it goes on if it finds the path in it that it has asked by.
    What several pages ask for is left as it is: one that has thought better of it shuts its
    session down, which must not be another's.

    Parameters
    ----------
    ending:
        Ids of the kernels that are being shut down.

    Returns
    -------
    A function that ends it.
    """
    original = session_manager.create_session
    locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
    opening: dict[str, set[asyncio.Task[Any]]] = {}
    """Document → the starts that pages have asked for and that are under way."""

    async def begun_by_page(document: str) -> dict[str, Any] | None:
        """The newest session that a page has got and not given the document's path yet."""
        for model in reversed(await ensure_async(session_manager.list_sessions())):
            of = document_path(model["path"], model["name"], model["type"])
            if of == document and model["kernel"]["id"] not in ending:
                # The page may be gone, and then nobody else would find it by the document's path.
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
