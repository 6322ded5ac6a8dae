"""Waiting for an awaitable, or for a lock, with a timeout.

These functions replace `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that
arrives at the moment at which the awaited task finishes, so that pressing Stop would do nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """Return the result of ``work``, which is cancelled on timeout and if the caller is cancelled.

    Parameters
    ----------
    seconds:
        Timeout; ``None`` for no limit.

    Raises
    ------
    asyncio.TimeoutError
        If ``work`` took longer. Exceptions of ``work`` itself are passed on.
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
            # Retrieved, so that asyncio does not log it if the caller was cancelled.
            task.exception()
    if is_late and task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


async def acquire_within(seconds: float | None, lock: asyncio.Lock) -> None:
    """Acquire ``lock``. If this raises, the lock is not held by the caller.

    Raises
    ------
    asyncio.TimeoutError
        If the lock did not become free in time.
    """
    acquiring = asyncio.ensure_future(lock.acquire())
    try:
        await within(seconds, acquiring)
    except asyncio.CancelledError:
        if not acquiring.cancelled():
            lock.release()
        raise
