"""Detection of other processes that have a notebook open and could become a second writer."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prime_ext.errors import PrimeError
from prime_ext.models.credentials import is_loopback
from prime_ext.notebook.notebook_locks import OPEN_ELSEWHERE

if TYPE_CHECKING:
    from prime_ext.session.store import SessionStore

SECONDS = 3.0
"""Timeout of the request for a server's open sessions."""


async def refuse_if_open(
    notebook: Path, path: str, store: SessionStore, log: logging.Logger
) -> None:
    """Raise an error if a server has a kernel for the notebook or holds a conversation about it.

    Parameters
    ----------
    path:
        Path of the notebook relative to the root folder, as sessions name it.

    Raises
    ------
    PrimeError
        ``open_elsewhere``, naming the server.
    """
    from jupyter_server.serverapp import list_running_servers

    def look() -> tuple[Path, list[dict[str, Any]]]:
        servers = list(list_running_servers(log=log))
        for server in servers:
            server["root_dir"] = str(Path(server.get("root_dir", "/")).resolve())
        return notebook.resolve(), servers

    file, servers = await asyncio.to_thread(look)
    asked = await asyncio.gather(*(_has_open(server, file, log) for server in servers))
    for server, is_open in zip(servers, asked, strict=True):
        if is_open:
            raise PrimeError(
                f"{notebook} is open in the Jupyter server at {server['url']}.",
                code=OPEN_ELSEWHERE,
                hint="Ask the agent there, or shut the notebook's kernel down there first.",
            )
    for summary in await asyncio.to_thread(store.list, path):
        if await asyncio.to_thread(store.is_held_elsewhere, summary.id):
            raise PrimeError(
                f"A conversation about {notebook} is open in another Jupyter server.",
                code=OPEN_ELSEWHERE,
                hint="Ask the agent there, or shut that server down.",
            )


async def _has_open(server: dict[str, Any], file: Path, log: logging.Logger) -> bool:
    """Whether a running server has a kernel for the notebook; ``False`` if it does not answer."""
    from tornado.httpclient import AsyncHTTPClient

    url = urlsplit(server.get("url", ""))
    root = Path(server["root_dir"])
    if url.scheme not in ("http", "https") or not file.is_relative_to(root):
        return False
    path = file.relative_to(root).as_posix()
    try:
        answer = await AsyncHTTPClient().fetch(
            f"{server['url']}api/sessions",
            headers={"Authorization": f"token {server.get('token', '')}"},
            request_timeout=SECONDS,
            follow_redirects=False,
            # A server on this machine usually has a self-signed certificate.
            validate_cert=not is_loopback(url.hostname or ""),
        )
        sessions = json.loads(answer.body)
        return any(str(s["path"]).removeprefix("RTC:").strip("/") == path for s in sessions)
    except Exception as error:
        log.info("%s does not say what it has open: %s", server.get("url"), error)
        return False
