"""Work that is completed even if the task that awaits it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def completed(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``. A cancellation of the caller is delayed until ``work`` ends.

    This is meant for short work that must not be missing, such as recording something that has
    already been done. If the caller was cancelled, an exception of ``work`` is dropped.

    Raises
    ------
    asyncio.CancelledError
        If the caller was cancelled. ``work`` has ended by then.
    """
    task = asyncio.create_task(work)
    stop: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancelled:
            stop = cancelled
    if stop is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it
    raise stop
