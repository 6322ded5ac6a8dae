"""The ZeroMQ sockets of a kernel, as one transport."""

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
    """Shell, control and IOPub of a kernel whose ports this machine reaches."""

    def __init__(self, manager: Any, log: logging.Logger) -> None:
        # Two sockets with one identity collide at the kernel's router, so the session that a
        # manager lends its clients gets an id of its own.
        self.session = manager.session.clone()
        self.session.session = uuid.uuid4().hex
        self.on_reconnected: Callable[[], None] = lambda: None
        """Never called: ZeroMQ reconnects by itself, without loss."""
        self._client = manager.client(session=self.session)
        self._log = log

    async def open(self) -> None:
        await ensure_async(self._client.start_channels(stdin=False, hb=False))

    def send(self, channel: Channel, message: Message, buffers: Sequence[bytes]) -> None:
        # Sent through the asyncio socket: sending past it, as `Session.send` does, can eat the
        # event that tells its reader of an incoming message.
        socket = getattr(self._client, f"{channel}_channel").socket
        socket.send_multipart([*self.session.serialize(message), *buffers])

    async def read(self, deliver: Deliver) -> None:
        """Hand each message to ``deliver`` with the name of its channel, until cancelled."""
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
