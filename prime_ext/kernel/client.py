"""Our own channels to one kernel process: send requests, and follow their replies and outputs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_core.utils import ensure_async

from prime_ext.closing import cancelled
from prime_ext.kernel.gateway import GatewaySocket, is_behind_gateway
from prime_ext.kernel.sockets import KernelSockets
from prime_ext.kernel.transport import (
    Channel,
    ConnectionLost,
    KernelDied,
    KernelRestarted,
    KernelShutDown,
    Message,
    Transport,
)

EXECUTE_TYPES = frozenset({"execute_request", "prime_execute_request"})
"""Requests that run user code. The kernel is busy while one of them runs, no matter who sent it."""

_NUDGE_SECONDS = 0.5
_STARTING_SECONDS = 10.0
"""A kernel reported as starting that stays silent for longer than this is assumed to be busy."""

_LATE_REPLY_SECONDS = 2.0


class Request:
    """One request message that was sent, and what the kernel has returned for it so far."""

    def __init__(
        self, msg_id: str, channel: Channel, on_output: Callable[[str, Message], None] | None
    ) -> None:
        self.msg_id = msg_id
        self.channel = channel
        self.reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.started = asyncio.Event()
        """Set once the kernel has begun to process the request, or the request has failed."""
        self.has_begun = False
        """Whether any message shows that the kernel has begun to process the request."""
        self.never_began = False
        """Whether the request was still queued when the process ended."""
        self.entered = asyncio.Event()
        """Set once the user code itself runs, so that an interrupt reaches it. Some kernels publish
        nothing that would tell."""
        self.finished = asyncio.Event()
        """Set once the kernel is idle again after the request: all of its outputs have arrived."""
        self.on_output = on_output

    async def answer(self) -> Message | None:
        """Wait for the reply; return ``None`` if the kernel goes idle without one.

        Kernels do so if they do not know the message type.
        """
        finished = asyncio.create_task(self.finished.wait())
        try:
            either: set[asyncio.Future[Any]] = {self.reply, finished}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not self.reply.done():
                await asyncio.wait({self.reply}, timeout=_LATE_REPLY_SECONDS)
        finally:
            finished.cancel()
        return self.reply.result() if self.reply.done() else None

    def begin(self) -> None:
        """Note that the kernel has begun to process the request."""
        self.has_begun = True
        self.started.set()

    def fail(self, error: Exception) -> None:
        """End the request with ``error``, for all that wait for it."""
        if not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # Mark it as retrieved: perhaps nobody awaits it any more.
        self.started.set()
        self.entered.set()
        self.finished.set()


class KernelChannels:
    """The shell, control and IOPub channels of one kernel process, read until the process ends."""

    def __init__(self, transport: Transport, log: logging.Logger) -> None:
        self._transport = transport
        self._log = log
        self._requests: dict[str, Request] = {}
        self._reader: asyncio.Task[None] | None = None
        self.sender: str | None = None
        """The session id in the kernel's last reply, which tells its processes apart: by Jupyter's
        messaging protocol it is regenerated when a kernel is restarted. ``None`` if the kernel
        repeats the id of the request."""
        self.is_sender_constant = False
        """Whether the last two replies had the same `sender`."""
        self.is_broken = False
        """Whether the connection has failed for good."""
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Done when these channels serve no more requests, with the error that those got."""
        self._heard = asyncio.Event()
        self.running: set[str] = set()
        """Message ids of the execute requests that are running now, from any client.

        The empty id stands for a request that began before we listened.
        """
        self._by_others: set[str] = set()
        """Ids in ``running`` of other clients, whose start was published while we listened."""
        self.last_cell: dict[str, Any] | None = None
        """Header of the last execute request whose start was published."""
        self.last_code = ""
        """Code of the last ``execute_input`` message."""
        self.on_publication: Callable[[str, str, Message], object] = lambda *_message: None
        """Called with the parent's message id, the type and the content of each IOPub message.

        This includes messages for other clients, but no status messages.
        """
        self.on_busy_change: Callable[[], None] = lambda: None
        self.on_run: Callable[[], None] = lambda: None
        self.on_input: Callable[[Message], None] = lambda _message: None
        """Called with each ``execute_input`` message, which is published when code begins."""
        self.on_death: Callable[[], None] = lambda: None
        self.on_reconnected: Callable[[], None] = lambda: None
        """Called when a broken connection works again: messages may have been lost."""
        self.on_broken: Callable[[Exception], None] = lambda _error: None
        """Called with the error when the connection fails for good. All open requests have failed
        with the same error by then."""
        self.info: dict[str, Any] = {}
        """Content of the ``kernel_info_reply``."""

    @classmethod
    async def open(
        cls,
        manager: Any,
        log: logging.Logger,
        *,
        timeout: float,
        is_current: Callable[[], bool] = lambda: True,
    ) -> KernelChannels:
        """Connect to the kernel of ``manager`` and wait until it answers.

        ``is_current`` tells whether the process is still the one that this connection was opened
        to: its successor may listen on other ports.

        Raises
        ------
        KernelDied
            The process ended before it answered.
        TimeoutError
            The process is alive, but does not answer within ``timeout`` seconds.
        """
        transport: Transport = (
            GatewaySocket(manager, log)
            if is_behind_gateway(manager)
            else KernelSockets(manager, log)
        )
        channels = cls(transport, log)
        transport.on_reconnected = lambda: channels.on_reconnected()
        try:
            await transport.open(timeout)
            channels._reader = asyncio.create_task(channels._read())
            await channels._wait_until_heard(manager, timeout, is_current)
        except BaseException:
            await channels.close(KernelDied("The connection was not made."))
            raise
        if getattr(manager, "execution_state", None) == "busy":
            # Its start was published before we listened; the next idle ends it.
            channels.running.add("")
        return channels

    def send(
        self,
        channel: Channel,
        msg_type: str,
        content: dict[str, Any],
        *,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[bytes] = (),
        on_output: Callable[[str, Message], None] | None = None,
        subshell_id: str | None = None,
    ) -> Request:
        message = self._transport.session.msg(msg_type, content, metadata=metadata)
        if subshell_id is not None:
            message["header"]["subshell_id"] = subshell_id
        request = Request(message["header"]["msg_id"], channel, on_output)
        self._requests[request.msg_id] = request
        self._transport.send(channel, message, buffers)
        return request

    def forget(self, request: Request) -> None:
        """Stop delivering replies and outputs to ``request``."""
        self._requests.pop(request.msg_id, None)

    async def close(self, error: Exception) -> None:
        """Fail every open request with ``error`` and close the transport."""
        self.abandon(error)
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close the transport; open requests stay open until they are abandoned."""
        try:
            if self._reader is not None:
                await cancelled([self._reader])
        finally:
            await self._transport.close()

    @property
    def has_subshells(self) -> bool:
        """Whether the kernel supports subshells, which serve requests while a cell runs."""
        return "kernel subshells" in self.info.get("supported_features", ())

    @property
    def open_requests(self) -> list[Request]:
        """Requests that have no reply yet."""
        return [request for request in self._requests.values() if not request.reply.done()]

    def abandon(self, error: Exception) -> None:
        """Fail every open request with ``error``."""
        if not self.ended.done():
            self.ended.set_result(error)
        # Code that crashes its process at once may die before its busy status is published. So a
        # request without a status counts as begun, unless something else explains the end: other
        # code that was running, or a restart or shutdown.
        # The end of our own code ahead of it may be lost too, so only code of other clients counts.
        is_explained = bool(self._by_others & self.running) or isinstance(
            error, (KernelRestarted, KernelShutDown)
        )
        for request in list(self._requests.values()):
            request.never_began = is_explained and not request.has_begun
            request.fail(error)
        self._requests.clear()
        self.running.clear()
        self._by_others.clear()

    async def _wait_until_heard(
        self, manager: Any, timeout: float, is_current: Callable[[], bool]
    ) -> None:
        # An IOPub subscription takes effect some time after connecting. Requests are repeated
        # until one was answered and something arrived on IOPub; from then on no output can be
        # missed. The control channel answers while a cell runs; a kernel that ignores it answers
        # on shell. While a kernel is still starting, ipykernel 6 on Python 3.9 fails on a message
        # on control.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        starting = getattr(manager, "execution_state", None) == "starting"
        alert_at = loop.time() + (_STARTING_SECONDS if starting else 0)
        requests = [self.send("shell", "kernel_info_request", {})]
        heard = asyncio.create_task(self._heard.wait())
        try:
            while True:
                alert = heard.done() or loop.time() >= alert_at
                requests.append(
                    self.send("control" if alert else "shell", "kernel_info_request", {})
                )
                pending = {request.reply for request in requests if not request.reply.done()}
                answered = len(pending) < len(requests)
                if answered and heard.done():
                    break
                await asyncio.wait(
                    {heard} if answered else pending,
                    timeout=_NUDGE_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not is_current() or not await ensure_async(manager.is_alive()):
                    raise KernelDied("The kernel ended before it answered.")
                if loop.time() > deadline:
                    raise TimeoutError("The kernel does not answer.")
        finally:
            heard.cancel()
            for request in requests:
                self.forget(request)
        self.info = next(r.reply.result()["content"] for r in requests if r.reply.done())

    async def _read(self) -> None:
        try:
            await self._transport.read(self._deliver)
        except (KernelDied, ConnectionLost) as error:
            self._break(error)
        except Exception:
            # Nothing would ever arrive again, so what waits must not wait any longer.
            self._log.exception("Listening to the kernel failed")
            self._break(ConnectionLost("The connection to the kernel failed."))

    def _break(self, error: KernelDied | ConnectionLost) -> None:
        self.is_broken = True
        self.abandon(error)
        self.on_broken(error)

    def _deliver(self, channel: str, message: Message) -> None:
        try:
            if channel == "iopub":
                self._on_publication(message)
            elif channel in ("shell", "control"):
                self._on_reply(message)
        except Exception:
            self._log.exception("Handling a message of the kernel failed")

    def _on_reply(self, message: Message) -> None:
        sender = message["header"].get("session")
        if sender == self._transport.session.session:
            sender = None
        self.is_sender_constant = sender is not None and sender == self.sender
        self.sender = sender
        request = self._requests.get(message.get("parent_header", {}).get("msg_id", ""))
        if request is not None and not request.reply.done():
            request.reply.set_result(message)
            request.begin()  # The busy status may have been lost: IOPub is not reliable.

    def _on_publication(self, message: Message) -> None:
        self._heard.set()
        parent = message.get("parent_header") or {}
        msg_id = parent.get("msg_id", "")
        request = self._requests.get(msg_id)
        if message["msg_type"] == "execute_input":
            self.last_code = str(message["content"].get("code", ""))
            self.on_input(message)
        if message["msg_type"] == "status":
            state = message["content"].get("execution_state")
            if state in ("restarting", "dead") and not parent:
                self.on_death()  # Only gateways publish this; local processes are watched.
                return
            if request is not None:
                if state == "busy":
                    request.begin()
                elif state == "idle":
                    request.entered.set()
                    request.finished.set()
            if parent.get("msg_type") in EXECUTE_TYPES:
                self._track(parent, state)
        else:
            if request is not None:
                request.begin()
                request.entered.set()
                if request.on_output is not None:
                    request.on_output(message["msg_type"], message["content"])
            self.on_publication(msg_id, message["msg_type"], message["content"])

    def _track(self, header: dict[str, Any], state: str) -> None:
        if state == "busy":
            self.running.add(header["msg_id"])
            if header.get("session") != self._transport.session.session:
                self._by_others.add(header["msg_id"])
            self.on_run()
            self.last_cell = json.loads(json.dumps(header, default=str))
        elif state == "idle":
            self.running.discard(header["msg_id"])
            self._by_others.discard(header["msg_id"])
            if header.get("subshell_id") is None:  # else: beside the main shell
                self.running.discard("")
        self.on_busy_change()
