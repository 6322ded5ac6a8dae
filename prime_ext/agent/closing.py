"""Closing what consists of several parts: each is closed, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any


async def take_each(log: logging.Logger, *steps: Callable[[], Awaitable[object]]) -> None:
    """Take the steps one after the other; one that fails is logged, and the next is taken.

    If the caller is cancelled, the step under way ends with that; those behind it are taken.
    """
    async with AsyncExitStack() as stack:
        for step in reversed(steps):
            stack.push_async_callback(_take, log, step)


async def _take(log: logging.Logger, step: Callable[[], Awaitable[object]]) -> None:
    try:
        await step()
    except Exception:
        log.exception("A part did not close well")


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel ``tasks``, and return when they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
