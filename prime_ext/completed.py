"""Work that completes even if the task that awaits it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_AT_WORK: set[asyncio.Task[Any]] = set()
"""Work in progress; the event loop itself only holds weak references to tasks."""


async def completed(work: Coroutine[Any, Any, T], *, patience: float | None = None) -> T:
    """Return the result of ``work``. A cancellation of the caller is delayed until ``work`` ends.

    This is meant for work that must not be cut off, such as recording something that has already
    been done. If the caller was cancelled, an exception of ``work`` is dropped.

    Parameters
    ----------
    patience:
        Maximum delay of a cancellation, in seconds; ``work`` then continues in the background.
        ``None`` for short work that is certain to end.

    Raises
    ------
    asyncio.CancelledError
        If the caller was cancelled.
    """
    task = _begin(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        if patience is None:
            await _end_of(task)
        else:
            await asyncio.wait([task], timeout=patience)
        raise
    return task.result()


async def _end_of(task: asyncio.Task[Any]) -> None:
    """Wait for ``task``, whatever happens to the caller."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])


async def brought_to_end(work: Coroutine[Any, Any, Any], *, timeout: float | None) -> None:
    """Wait for ``work`` and ignore its outcome. After ``timeout`` s it continues in the background.

    ``None`` for no limit.
    """
    await asyncio.wait([_begin(work)], timeout=timeout)


async def all_completed(timeout: float) -> None:
    """Wait for work that goes on in the background, at most ``timeout`` s, as when a program ends.

    Only the work of this thread's event loop counts.
    """
    loop = asyncio.get_running_loop()
    going_on = [task for task in _AT_WORK if task.get_loop() is loop]
    if going_on:
        await asyncio.wait(going_on, timeout=timeout)


def _begin(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.create_task(work)
    _AT_WORK.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: asyncio.Task[Any]) -> None:
    _AT_WORK.discard(task)
    if not task.cancelled():
        # Retrieve the exception, so that asyncio does not log it if nobody awaits the task.
        task.exception()
