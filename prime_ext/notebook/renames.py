"""Notification of notebooks and folders that are renamed through the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from prime_ext.notebook.lease import normal_path

CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"


def follow_renames(
    event_logger: Any, on_rename: Callable[[str, str], Awaitable[None]]
) -> Callable[[], None]:
    """Await ``on_rename(old, new)`` after each rename; return a function that unsubscribes.

    A rename that bypasses the contents manager (``mv``, git) is not reported.

    Parameters
    ----------
    event_logger:
        The server's ``jupyter_events`` logger.
    """

    async def listener(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data.get("action") == "rename":
            await on_rename(normal_path(data["source_path"]), normal_path(data["path"]))

    event_logger.add_listener(schema_id=CONTENTS_EVENTS, listener=listener)
    return lambda: event_logger.remove_listener(listener=listener)
