"""Helpers to close objects with several parts, each of them even if another one fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any


async def take_each(log: logging.Logger, *steps: Callable[[], Awaitable[object]]) -> None:
    """Await the steps one after the other. If a step fails, that is logged, and the next follows.

    If the caller is cancelled, that cancels the current step; the remaining steps still follow.
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
    """Cancel ``tasks``, and wait until they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
