"""Waiting for something no longer than so many seconds."""

from __future__ import annotations

import asyncio

import pytest

from prime_ext.within import acquire_within, within


async def test_what_comes_in_time_is_returned() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    async def fail() -> None:
        raise ValueError("no")

    assert await within(30, work()) == 7
    with pytest.raises(ValueError, match="no"):
        await within(30, fail())


async def test_what_takes_longer_is_cancelled() -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, never)
    assert never.cancelled()


async def test_a_cancellation_that_comes_with_the_end_is_not_lost() -> None:
    ended = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(within(30, ended))
    await asyncio.sleep(0)
    ended.set_result(7)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_lock_is_held_by_nobody_who_gave_up() -> None:
    lock = asyncio.Lock()
    await acquire_within(0, lock)
    with pytest.raises(asyncio.TimeoutError):
        await acquire_within(0.01, lock)
    waiting = asyncio.create_task(acquire_within(30, lock))
    for _ in range(3):
        await asyncio.sleep(0)
    lock.release()
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await acquire_within(30, lock)
