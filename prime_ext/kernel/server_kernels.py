"""Have a say in how the server starts kernels and shuts them down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.kernel.connection import KERNEL_ACTIONS, is_being_replaced

_RESTART_SECONDS = 10.0
"""Longest wait for a restart that is under way."""
_PAUSE = 0.05


def follow_starts(
    event_logger: Any, on_start: Callable[[str], Awaitable[None]]
) -> Callable[[], None]:
    """Await ``on_start(kernel_id)`` after each start; returns a function that ends it.

    Parameters
    ----------
    event_logger:
        The server's ``jupyter_events`` logger.
    """

    async def listener(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        started = data.get("action") == "start" and data.get("status") == "success"
        if started and data.get("kernel_id"):
            await on_start(data["kernel_id"])

    event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=listener)
    return lambda: event_logger.remove_listener(listener=listener)


def replaced(manager: Any, name: str, method: Callable[..., Any]) -> Callable[[], None]:
    """Put ``method`` in the place of the manager's own; returns a function that takes it back."""
    setattr(manager, name, method)

    def undo() -> None:
        if getattr(manager, name) is method:
            delattr(manager, name)

    return undo


def before_shutdown(
    kernel_manager: Any, prepare: Callable[[str], Awaitable[None]], ending: set[str]
) -> Callable[[], None]:
    """Await ``prepare(kernel_id)`` before each shutdown; returns a function that ends it.

    Events are told only after the fact, and neither the manager of kernels nor a provisioner has
    a hook that comes before the process is asked to end. So the manager's method is replaced by
    one that calls it: culling, the sessions service and the kernels service all go through there.
    A kernel that is killed without being asked (``now``) is not held up. ``ending`` has the ids of
    those whose shutdown is under way.
    """
    original = kernel_manager.shutdown_kernel

    async def shutdown_kernel(kernel_id: str, *arguments: Any, **options: Any) -> Any:
        now = options.get("now", arguments[0] if arguments else False)
        ending.add(kernel_id)
        try:
            if not now:
                await prepare(kernel_id)
                await _end_restarts_of(kernel_manager, kernel_id)
            return await ensure_async(original(kernel_id, *arguments, **options))
        finally:
            ending.discard(kernel_id)

    return replaced(kernel_manager, "shutdown_kernel", shutdown_kernel)


async def end_restarts(kernel_manager: Any) -> None:
    """Let restarts of kernels end that are under way, and have no other begin.

    A kernel that has died may be restarted while an extension is stopped. To shut it down in the
    middle of that fails, and with it the end of the server, and the new process would run on.
    """
    for kernel_id in kernel_manager.list_kernel_ids():
        await _end_restarts_of(kernel_manager, kernel_id)


async def _end_restarts_of(kernel_manager: Any, kernel_id: str) -> None:
    try:
        kernel = kernel_manager.get_kernel(kernel_id)
    except (KeyError, HTTPError):  # the manager says so itself
        return
    deadline = time.monotonic() + _RESTART_SECONDS
    while is_being_replaced(kernel) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE)
    kernel.stop_restarter()
