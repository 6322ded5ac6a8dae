"""Waiting for something no longer than so many seconds.

In place of `asyncio.wait_for`, which before Python 3.12 loses a cancellation that comes in the
moment in which what it waits for ends: a Stop would not stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """What ``work`` comes to. It is cancelled if that takes longer, and if the caller is.

    ``seconds``: ``None`` for as long as it takes.

    Raises
    ------
    asyncio.TimeoutError
        And whatever ``work`` raises.
    """
    task = asyncio.ensure_future(work)
    is_late = False
    try:
        await asyncio.wait({task}, timeout=seconds)
        is_late = not task.done()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # Seen, also if the caller was cancelled.
    if is_late and task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


async def acquire_within(seconds: float | None, lock: asyncio.Lock) -> None:
    """Acquire ``lock``; it is not held if this raises.

    Raises
    ------
    asyncio.TimeoutError
        It was held by somebody else all the time.
    """
    acquiring = asyncio.ensure_future(lock.acquire())
    try:
        await within(seconds, acquiring)
    except asyncio.CancelledError:
        if not acquiring.cancelled():
            lock.release()
        raise
