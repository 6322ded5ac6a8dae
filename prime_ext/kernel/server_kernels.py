"""Hooks into how the server starts kernels and shuts them down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.kernel.connection import KERNEL_ACTIONS, is_being_replaced

_RESTART_SECONDS = 10.0
"""Longest wait for a restart in progress."""
_PAUSE = 0.05


def follow_starts(
    event_logger: Any, on_start: Callable[[str], Awaitable[None]]
) -> Callable[[], None]:
    """Await ``on_start(kernel_id)`` after each start; return a function that removes the hook.

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
    """Replace a method of ``manager``; return a function that restores the original."""
    setattr(manager, name, method)

    def undo() -> None:
        if getattr(manager, name) is method:
            delattr(manager, name)

    return undo


def before_shutdown(
    kernel_manager: Any, prepare: Callable[[str], Awaitable[None]], ending: set[str]
) -> Callable[[], None]:
    """Await ``prepare(kernel_id)`` before each shutdown; return a function that removes the hook.

    Events are emitted only after a shutdown, and neither the kernel manager nor a provisioner has a
    hook that runs before the process is asked to end. So the method ``shutdown_kernel`` of the
    manager is wrapped: culling, the sessions service and the kernels service all call it. A kernel
    that is killed immediately (``now``) is not delayed. ``ending`` receives the ids of the kernels
    whose shutdown is in progress.
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


async def prepare_shutdown(kernel_manager: Any) -> None:
    """End kernel restarts, and make sure that the server can shut its kernels down.

    A kernel that died may be restarted just while the extension stops. Shutting it down in the
    middle of the restart fails, which breaks the server's own shutdown and leaves the new process
    running.

    A kernel that failed to start breaks the shutdown as well: ``jupyter_client`` still lists it as
    pending, and the server then does not find it. Such kernels are removed from that list.
    """
    for kernel_id in kernel_manager.list_kernel_ids():
        await _end_restarts_of(kernel_manager, kernel_id)
    pending = getattr(kernel_manager, "_pending_kernels", {})
    for kernel_id, task in list(pending.items()):
        if task.done() and kernel_id not in kernel_manager:
            del pending[kernel_id]


async def _end_restarts_of(kernel_manager: Any, kernel_id: str) -> None:
    try:
        kernel = kernel_manager.get_kernel(kernel_id)
    except (KeyError, HTTPError):  # The manager itself reports unknown kernels.
        return
    deadline = time.monotonic() + _RESTART_SECONDS
    while is_being_replaced(kernel) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE)
    kernel.stop_restarter()
