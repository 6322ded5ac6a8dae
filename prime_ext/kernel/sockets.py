"""A transport over the ZeroMQ sockets of a kernel."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_core.utils import ensure_async

from prime_ext.kernel.transport import Channel, Deliver, Message

CHANNELS = ("shell", "control", "iopub")


class KernelSockets:
    """Shell, control and IOPub sockets of a kernel whose ports are reachable from this machine."""

    def __init__(self, manager: Any, log: logging.Logger) -> None:
        # Two sockets with the same identity collide at the kernel's ROUTER socket. The identity
        # comes from the session id, so our copy of the manager's session gets an id of its own.
        self.session = manager.session.clone()
        self.session.session = uuid.uuid4().hex
        self.on_reconnected: Callable[[], None] = lambda: None
        """Never called: ZeroMQ reconnects by itself and does not report it."""
        self._client = manager.client(session=self.session)
        self._log = log

    async def open(self, timeout: float) -> None:
        del timeout  # It takes no time: nothing is waited for.
        await ensure_async(self._client.start_channels(stdin=False, hb=False))

    def send(self, channel: Channel, message: Message, buffers: Sequence[bytes]) -> None:
        # Send through the asyncio socket. `Session.send` bypasses it and can consume the
        # edge-triggered event that would wake the reader for an incoming message.
        socket = getattr(self._client, f"{channel}_channel").socket
        socket.send_multipart([*self.session.serialize(message), *buffers])

    async def read(self, deliver: Deliver) -> None:
        """Pass each message and the name of its channel to ``deliver``, until cancelled."""
        await asyncio.gather(*(self._read(channel, deliver) for channel in CHANNELS))

    async def _read(self, name: str, deliver: Deliver) -> None:
        channel = getattr(self._client, f"{name}_channel")
        while True:
            try:
                message = await ensure_async(channel.get_msg(timeout=None))
            except ValueError as error:
                self._log.warning("Ignoring a message that is not the kernel's: %s", error)
                continue
            deliver(name, message)

    async def close(self) -> None:
        self._client.stop_channels()
