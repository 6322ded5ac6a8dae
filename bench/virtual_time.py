"""Two days in a few minutes: an event loop whose time jumps to what happens next.

Everything in the process that waits on the loop waits on this time: the people, the tools and the
model of a benchmark, and the timers of the program it measures. Code runs at its real speed and
takes no virtual time.
"""

from __future__ import annotations

import asyncio
import fcntl
import selectors
import struct
import termios
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter

from tests.messages_api.clock import Clock

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Result = TypeVar("_Result")

LONG_JUMP_SECONDS = 1.0
ON_THE_WIRE_SECONDS = 0.002
"""How long loopback may take to deliver what has left the sender; real time. Before a long jump,
which may be to a timeout, it is waited for."""
WITHHELD_SECONDS = 2.0
"""How long a jump waits for bytes that the system keeps back from a receiver; real time. In the
middle of a large request it does if the receiver's window is nearly closed: until a delayed
acknowledgement (40 ms) or the sender's probe (200 ms or more) opens it. Bytes that are there longer
are those of a receiver who does not read, and may itself wait for the jump."""


class _Selector(selectors.DefaultSelector):
    """Does not wait for a timer: once nothing else is going on, its moment has come."""

    def __init__(self) -> None:
        super().__init__()
        self.in_threads = 0
        """Pieces of work that the loop has given to threads."""
        self.limiter: CapacityLimiter | None = None
        """Counts those that anyio has, which keeps threads of its own."""
        self.passed = 0.0
        """Virtual seconds so far."""
        self._seen: set[int] = set()
        """Descriptors that were waited for; some may be closed by now, or be something else."""

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._seen.add(key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self.in_threads or timeout is None or (self.limiter and self.limiter.borrowed_tokens):
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > LONG_JUMP_SECONDS:
            ready = self._select_once_delivered()
        if not ready:
            self.passed += timeout
        return ready

    def _select_once_delivered(self) -> list[tuple[selectors.SelectorKey, int]]:
        give_up_at = time.monotonic() + WITHHELD_SECONDS
        while True:
            # In this order: what was delivered is then seen.
            delivered = not self._is_sending()
            ready = super().select(ON_THE_WIRE_SECONDS)
            if ready or delivered or time.monotonic() > give_up_at:
                return ready

    def _is_sending(self) -> bool:
        """Whether a receiver has yet to acknowledge anything that was written to a socket."""
        return any(_unacknowledged(descriptor) for descriptor in tuple(self._seen))


def _unacknowledged(descriptor: int) -> int:
    """Bytes written that the other side has not acknowledged: Linux, tcp(7), ``SIOCOUTQ``."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))[0])
    except OSError:  # closed, or nothing that is written to
        return 0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time stands still while anything runs, here or in a thread that the loop waits for."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.passed

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._virtual.in_threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._virtual.in_threads -= 1

    async def watch(self, main: Coroutine[Any, Any, _Result]) -> _Result:
        """Run ``main``, whose work in anyio's threads is waited for as well."""
        self._virtual.limiter = current_default_thread_limiter()
        return await main


class LoopClock(Clock):
    """The running loop's time as the clock of the test API."""

    def __init__(self) -> None:
        super().__init__(virtual=False)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """``asyncio.run`` in virtual time."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(loop.watch(main))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
