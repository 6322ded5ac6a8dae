"""The connection to one running kernel of the server, across restarts of its process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from jupyter_core.utils import ensure_async

from prime_ext.closing import cancelled
from prime_ext.errors import PrimeError
from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.followed_runs import FollowedRuns
from prime_ext.kernel.gateway import is_behind_gateway
from prime_ext.kernel.idle_connection import IdleConnection
from prime_ext.kernel.missed_runs import Run
from prime_ext.kernel.private_messages import PrivateMessages
from prime_ext.kernel.refusals import kernel_dead, kernel_silent, kernel_unreachable
from prime_ext.kernel.transport import (
    ConnectionLost,
    KernelDied,
    KernelRestarted,
    KernelShutDown,
    Message,
)
from prime_ext.within import within

Reason = Literal["crash", "user", "new"]

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"

_POLL_SECONDS = 0.5
_POLL_SECONDS_REMOTE = 5.0
_RESTART_SECONDS = 30.0
_LATE_REPLY_SECONDS = 2.0


GAP_NOTICE = (
    "\n[The connection to the kernel broke for a while. Outputs from then may be missing here.]\n"
)


def is_being_replaced(kernel_manager: Any) -> bool:
    """Whether the kernel is being started, restarted or shut down at this moment."""
    ready = getattr(kernel_manager, "_ready", None)
    starting = ready is not None and not ready.done()
    return bool(getattr(kernel_manager, "shutting_down", False)) or starting


class KernelConnection:
    """The connection to the kernel with a given id, no matter who started that kernel.

    The connection follows the process behind the kernel. When that process ends, open requests fail
    with ``KernelDied`` and, unless the kernel was shut down, ``on_lost`` is called. When another
    process takes its place, ``on_renewed`` is called with the reason.
    """

    def __init__(self, kernel_id: str, kernel_manager: Any, log: logging.Logger) -> None:
        self.kernel_id = kernel_id
        self.turn = asyncio.Lock()
        """Held by the running execution of ours: they run one at a time."""
        self.followed = FollowedRuns()
        """Our executions in the current process whose outputs are still followed."""
        self.on_state: list[Callable[[], None]] = []
        self.runs = 0
        """Number of execute requests that began since we connected, from any client."""
        self.on_run: list[Callable[[Run], None]] = []
        """Called for each run published as ``execute_input``: all but silent ones."""
        self._last_run: Run | None = None
        self.on_lost: list[Callable[[Reason], None]] = []
        self.on_renewed: list[Callable[[Reason], None]] = []
        self.on_gone: Callable[[], None] = lambda: None
        """Called once the kernel was shut down and is not followed any more."""
        self.private = PrivateMessages(self, log)
        self._kernel_manager = kernel_manager
        self._manager = kernel_manager.get_kernel(kernel_id)
        self._log = log
        self._channels: KernelChannels | None = None
        self._opening = asyncio.Lock()
        self.language_info: dict[str, Any] = {}
        """The kernel's own, from ``kernel_info_reply``; empty before the first connection."""
        self.used_at = 0.0
        """When it was last used, on the monotonic clock."""
        self._idle = IdleConnection(self, self._manager, log)
        self._lost: Reason | None = None
        self._losses = 0
        self._parting: tuple[KernelChannels | None, float] | None = None
        """The channels to a process that ended as intended, and when that was noticed. Whether it
        was a restart or a shutdown is not known yet."""
        self._renewed_pid: int | None = None
        self._connected_pid: int | None = None
        """Process id when the channels were opened."""
        self._sender: str | None = None
        """The kernel's session id in the last connection, if it was the same in its replies."""
        self._alive = asyncio.Event()
        self._alive.set()
        self._gone = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._follow()

    # -- state ------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """``starting``, ``idle``, ``busy``, ``dead``, or ``none`` once the kernel was shut down."""
        if self._gone:
            return "none"
        if self._lost is not None or self._parting is not None:
            return "dead"
        if self._channels is None:
            known = getattr(self._manager, "execution_state", None)
            return known if known in ("idle", "busy", "dead") else "starting"
        return "busy" if self._channels.running else "idle"

    @property
    def gone(self) -> bool:
        """Whether the server no longer has a kernel with this id."""
        return self._gone or self.kernel_id not in self._kernel_manager

    @property
    def incarnation(self) -> int:
        """How many processes of this kernel have been lost since we began to follow it."""
        return self._losses

    @property
    def language(self) -> str:
        """Language of the kernel in lower case; empty before the first connection."""
        return str(self.language_info.get("name", "")).lower()

    @property
    def kernel_name(self) -> str:
        """Name of the kernelspec."""
        if is_behind_gateway(self._manager):  # A gateway's manager keeps the default `kernel_name`.
            return str((self._manager.kernel or {}).get("name", ""))
        return str(getattr(self._manager, "kernel_name", ""))

    # -- the process behind it --------------------------------------------------------------

    def _follow(self) -> None:
        self._callbacks = {"restart": self._on_crash, "dead": self._on_dead}
        for event, callback in self._callbacks.items():
            with contextlib.suppress(NotImplementedError):
                self._manager.add_restart_callback(callback, event)
        # A restart by a person calls no restart callback; the server emits an event instead.
        events = getattr(self._manager, "event_logger", None)
        if events is not None:
            events.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_action)
        self.spawn(self._watch())

    def _unfollow(self) -> None:
        for event, callback in self._callbacks.items():
            with contextlib.suppress(NotImplementedError):
                self._manager.remove_restart_callback(callback, event)
        events = getattr(self._manager, "event_logger", None)
        if events is not None:
            with contextlib.suppress(KeyError, ValueError):
                events.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._on_action)

    def _on_crash(self) -> None:
        self._lose("crash")

    def _on_dead(self) -> None:
        self._lose("crash")
        self._log.warning("Kernel %s is dead and is not restarted", self.kernel_id)

    async def _on_action(self, *, data: dict[str, Any], **_event: Any) -> None:
        if data.get("kernel_id") != self.kernel_id:
            return
        if data.get("status") != "success":
            if self._parting is not None:
                self._lose("user")
        elif data.get("action") == "restart":
            # The event also follows a restart after a crash, which `_watch` may have handled.
            if self._lost is None and self._pid is not None and self._pid == self._renewed_pid:
                return
            self._lose("user")
            self._renew()
        elif data.get("action") == "shutdown":
            self._gone = True
            self._lose("user")

    async def _watch(self) -> None:
        # Restart callbacks come up to a few seconds late, or never if automatic restarts are
        # switched off, so the process is also polled directly.
        local = getattr(self._manager, "provisioner", None) is not None
        reachable = True
        while not self.gone:
            soon = local or self.state == "dead"
            await asyncio.sleep(_POLL_SECONDS if soon else _POLL_SECONDS_REMOTE)
            try:
                alive = await self._is_alive()
            except Exception:
                if reachable:
                    self._log.warning("Kernel %s cannot be asked", self.kernel_id, exc_info=True)
                reachable = False
                continue
            reachable = True
            if alive:
                if not is_being_replaced(self._manager):
                    if self._parting is not None:
                        self._lose("user")
                    if self._lost is not None:
                        self._renew()
                if is_behind_gateway(self._manager):
                    await self._idle.attend()
            elif is_behind_gateway(self._manager):
                self._gone = True  # Dead kernels stay listed there; this one was removed.
            elif not self.gone:
                await self._on_end()
        self._gone = True
        self._lose("user")
        self._alive.set()
        self._unfollow()
        self._changed()
        self.on_gone()

    async def _on_end(self) -> None:
        """Handle the end of the process before the server has said what ended it."""
        if self._lost is not None:
            return
        intended = self._parting is not None or is_being_replaced(self._manager)
        if not intended:
            self._lose("crash")
        elif getattr(self._manager, "event_logger", None) is None:
            self._lose("user")  # Nothing will tell more.
        elif self._parting is None:
            # A restart or a shutdown? The event that follows tells. Until then nothing may be sent:
            # the next process would run it.
            self._alive.clear()
            channels, self._channels = self._channels, None
            self._parting = (channels, time.monotonic())
            if channels is not None:
                await channels.hang_up()
            self._changed()
        elif time.monotonic() - self._parting[1] > _RESTART_SECONDS:
            self._lose("user")

    async def _is_alive(self) -> bool:
        if not await ensure_async(self._manager.is_alive()):
            return False
        # A gateway continues to list a kernel that it no longer restarts.
        return getattr(self._manager, "execution_state", None) != "dead"

    @property
    def outlives_server(self) -> bool:
        """Whether the kernel survives the end of the server, as kernels behind a gateway do."""
        return is_behind_gateway(self._manager)

    @property
    def _pid(self) -> int | None:
        """Process id, if the server started the kernel locally."""
        return getattr(getattr(self._manager, "provisioner", None), "pid", None)

    def stop_restarts(self) -> bool:
        """Switch automatic restarts off, unless a restart is in progress; return whether it worked.

        If a kernel is shut down in the middle of a restart, the server forgets it, but its process
        lives on.
        """
        if is_being_replaced(self._manager):
            return False
        self._manager.stop_restarter()
        return True

    def _lose(self, reason: Reason) -> None:
        """Handle the loss of the process. Only the first reason reported counts."""
        if self._lost is not None:
            return
        self._lost = reason
        self._losses += 1
        self._alive.clear()
        self._sender = None
        self.private.forget()
        channels, self._channels = self._channels, None
        if self._parting is not None:
            channels, self._parting = self._parting[0], None
        if channels is not None:
            if self._last_run is not None:
                self._last_run.cut_off = self._last_run.msg_id in channels.running
                self._last_run = None
            died = self._ending(reason)
            channels.abandon(died)
            self.spawn(channels.close(died))
        self.followed.lose()
        if not self._gone:
            for callback in list(self.on_lost):
                callback(reason)
        self._changed()

    def _ending(self, reason: Reason) -> KernelDied:
        if reason == "crash":
            return KernelDied("The kernel died.")
        if self._gone:
            return KernelShutDown("The kernel was shut down.")
        return KernelRestarted("The kernel was restarted.")

    def _renew(self) -> None:
        reason, self._lost = self._lost, None
        self._renewed_pid = self._pid
        self._alive.set()
        if reason is not None:
            for callback in list(self.on_renewed):
                callback(reason)
            self._changed()

    # -- talking to it ----------------------------------------------------------------------

    async def channels(self) -> KernelChannels:
        """Return open channels to the process; connect, or wait for a restart, if necessary.

        Raises
        ------
        PrimeError
            ``kernel_dead`` if the process ended and is not restarted, ``kernel_no_answer`` if it
            is alive but does not answer or cannot be reached.
        """
        self.used_at = time.monotonic()
        return await self.connect()

    async def connect(self, patience: float | None = None) -> KernelChannels:
        """Do what `channels` does, without counting as a use of the connection.

        ``patience`` is for how many seconds the kernel may stay silent, if not as long as usual.
        """
        async with self._opening:
            if self._channels is not None:
                return self._channels
            try:
                await within(_RESTART_SECONDS, self._alive.wait())
            except asyncio.TimeoutError:
                raise kernel_dead() from None
            if self.gone:
                raise kernel_dead()
            timeout = patience or float(getattr(self._kernel_manager, "kernel_info_timeout", 60.0))
            try:
                channels = await self._open(timeout)
            except KernelDied:
                raise kernel_dead() from None
            except (TimeoutError, asyncio.TimeoutError):
                raise kernel_silent(timeout) from None
            except Exception as error:
                self._log.warning("Connecting to kernel %s failed", self.kernel_id, exc_info=True)
                raise kernel_unreachable(error) from error
            channels.on_publication = self._on_publication
            channels.on_busy_change = self._changed
            channels.on_run = self.count_run
            channels.on_input = self._on_input
            channels.on_death = self._on_crash
            channels.on_reconnected = partial(self._on_reconnected, channels)
            channels.on_broken = partial(self._on_broken, channels)
            self._channels = channels
            self._connected_pid = self._pid
            self._idle.end()
            self.language_info = channels.info.get("language_info") or {}
            self._changed()
            return channels

    async def _open(self, timeout: float) -> KernelChannels:
        losses = self._losses
        channels = await KernelChannels.open(
            self._manager,
            self._log,
            timeout=timeout,
            is_current=lambda: self._losses == losses,
        )
        if None not in (self._sender, channels.sender) and channels.sender != self._sender:
            self._lose("crash")
            self._renew()
        return channels

    @property
    def open_channels(self) -> KernelChannels | None:
        """The channels, while there is a connection."""
        return self._channels

    async def give_back(self) -> None:
        """Close the connection. The next use makes it again."""
        channels, self._channels = self._channels, None
        if channels is not None:
            self._part_from(channels)
            await channels.close(ConnectionLost("The connection was given back."))

    def _part_from(self, channels: KernelChannels) -> None:
        if channels.is_sender_constant:
            self._sender = channels.sender
        self._idle.begin()

    def is_by(self, channels: KernelChannels) -> bool:
        """Whether ``channels`` are the current ones."""
        return channels is self._channels

    async def end_of(self, channels: KernelChannels) -> KernelDied | None:
        """Return how the process behind ``channels`` ends, if the server is ending it now.

        The server interrupts a kernel before it ends it, so code that runs then may fail first. If
        the end does not come, ``None`` is returned.
        """
        deadline = time.monotonic() + _RESTART_SECONDS
        while not channels.ended.done():
            is_ending = is_being_replaced(self._manager) or self._pid != self._connected_pid
            if not is_ending or time.monotonic() > deadline:
                return None
            await asyncio.wait({channels.ended}, timeout=_POLL_SECONDS)
        error = channels.ended.result()
        return error if isinstance(error, (KernelRestarted, KernelShutDown)) else None

    def _on_broken(self, channels: KernelChannels, error: Exception) -> None:
        if channels is not self._channels:
            return
        self._channels = None
        self.spawn(channels.close(error))
        if isinstance(error, KernelDied):
            self._gone = True
            self._lose("user")
        else:
            self._part_from(channels)
        self._changed()

    def _on_reconnected(self, channels: KernelChannels) -> None:
        self.spawn(self._after_gap(channels))

    async def _after_gap(self, channels: KernelChannels) -> None:
        """Settle open requests after a reconnect: messages sent during the gap may be lost.

        The shell channel answers in order. Once a request sent after the gap was answered, all
        earlier ones have been answered too, or never arrived.
        """
        lost = ConnectionLost("The connection to the kernel broke.")
        earlier = channels.open_requests
        running = set(channels.running)
        for request in earlier:
            if request.channel == "control":
                request.fail(lost)
            elif request.on_output is not None:
                request.on_output("stream", {"name": "stderr", "text": GAP_NOTICE})
        earlier = [request for request in earlier if request.channel == "shell"]
        if await self.private.is_replaced(channels, "shell"):
            self._lose("crash")
            self._renew()
            return
        replies = [request.reply for request in earlier]
        if replies:
            await asyncio.wait(replies, timeout=_LATE_REPLY_SECONDS)
        for request in earlier:
            request.fail(lost)
        channels.running -= running
        self._changed()

    def _on_publication(self, msg_id: str, msg_type: str, content: Message) -> None:
        if self.followed.hear(msg_id, msg_type, content):
            self.used_at = time.monotonic()

    def count_run(self) -> None:
        """Note that code runs or may have run, no matter whose."""
        self.runs += 1
        self.used_at = time.monotonic()

    def _on_input(self, message: Message) -> None:
        self._last_run = run = Run.begun_by(message)
        for callback in list(self.on_run):
            callback(run)

    def _changed(self) -> None:
        for callback in list(self.on_state):
            callback()

    async def interrupt(self) -> None:
        """Interrupt the kernel, no matter whose code it runs."""
        await ensure_async(self._kernel_manager.interrupt_kernel(self.kernel_id))

    def spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        """Run ``coroutine`` as a background task that is cancelled when the connection closes."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, (KernelDied, ConnectionLost, PrimeError)):
            self._log.error("Following kernel %s failed", self.kernel_id, exc_info=error)

    async def close(self) -> None:
        """Stop following the kernel, which continues to run."""
        self._unfollow()
        self._gone = True
        self._alive.set()
        parting, self._parting = self._parting, None
        channels, self._channels = self._channels, None
        for each in (channels, parting and parting[0]):
            if each is not None:
                await each.close(KernelDied("The connection was closed."))
        self.followed.lose()
        await cancelled(task for task in self._tasks if task is not asyncio.current_task())
