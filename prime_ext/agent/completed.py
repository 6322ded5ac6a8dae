"""Work that is done whole although the task that awaits it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def completed(work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` returns; whoever is cancelled meanwhile, however often, waits for its end.

    For what takes a moment and would be wrong if it were missing, such as the record of what has
    been done already. What ``work`` raises is dropped if the caller was cancelled.

    Raises
    ------
    asyncio.CancelledError
        The caller was cancelled; ``work`` has ended.
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
        task.exception()  # seen, so that asyncio does not report it as forgotten
    raise stop
