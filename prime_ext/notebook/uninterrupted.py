"""Operations that Stop does not cut in half."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

STOP_S = 2.0
"""Seconds that stopping waits for an operation under way."""

_AT_WORK: set[asyncio.Task[Any]] = set()
"""Operations under way; the event loop itself keeps no hold of them."""


async def uninterrupted(work: Coroutine[Any, Any, Any]) -> Any:
    """Bring ``work`` to its end even if the caller is cancelled meanwhile.

    Half an operation is worse than one too many: what a browser was sent, it applies. But
    whoever stops the agent does not wait long for a browser that does not answer; the work
    goes on, and is recorded, behind their back.
    """
    task = _begin(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=STOP_S)
        raise


async def brought_to_end(work: Coroutine[Any, Any, Any], *, stopped: bool) -> None:
    """Wait for ``work``, whatever comes of it; not for long if the caller was stopped."""
    await asyncio.wait([_begin(work)], timeout=STOP_S if stopped else None)


def _begin(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(work)
    _AT_WORK.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: asyncio.Task[Any]) -> None:
    _AT_WORK.discard(task)
    if not task.cancelled():
        # Seen, whether anybody still waits for it or not.
        task.exception()
