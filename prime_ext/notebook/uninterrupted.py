"""Operations that are completed even if the turn is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

STOP_S = 2.0
"""Maximum time that a cancelled caller waits for an operation in progress, in seconds."""

_AT_WORK: set[asyncio.Task[Any]] = set()
"""Operations in progress; the event loop itself only holds weak references to tasks."""


async def uninterrupted(work: Coroutine[Any, Any, Any]) -> Any:
    """Await ``work``, and let it complete even if the caller is cancelled meanwhile.

    A browser applies an operation that it was sent, so the operation must also be recorded. A
    cancelled caller waits at most ``STOP_S`` seconds, in case the browser does not answer; the work
    then continues in the background.
    """
    task = _begin(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=STOP_S)
        raise


async def brought_to_end(work: Coroutine[Any, Any, Any], *, stopped: bool) -> None:
    """Wait for ``work`` and ignore its outcome; at most ``STOP_S`` seconds if ``stopped``."""
    await asyncio.wait([_begin(work)], timeout=STOP_S if stopped else None)


def _begin(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(work)
    _AT_WORK.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: asyncio.Task[Any]) -> None:
    _AT_WORK.discard(task)
    if not task.cancelled():
        # Retrieve the exception, so that asyncio does not log it if nobody awaits the task.
        task.exception()
