"""A transport over the WebSocket to a kernel behind a gateway.

The gateway client of jupyter_server drops binary buffers, sends no authorization header with its
WebSocket, blocks the event loop while it connects, and never reconnects. This transport implements
both framings of Jupyter Server's kernel WebSocket protocol, with the token, headers and TLS options
of `GatewayClient`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
    serialize_binary_message,
    serialize_msg_to_ws_v1,
)
from jupyter_server.utils import url_path_join
from tornado.escape import json_decode, url_escape
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketClosedError,
    WebSocketError,
    websocket_connect,
)

from prime_ext.kernel.transport import Channel, ConnectionLost, Deliver, KernelDied, Message
from prime_ext.within import within

PROTOCOL = "v1.kernel.websocket.jupyter.org"

MAX_MESSAGE_BYTES = 512 * 1024 * 1024
"""Largest message accepted. Outputs are not split, and a larger message closes the connection."""

PING_SECONDS = 30.0
"""Ping interval and timeout. A connection that does not answer a ping is replaced by a new one."""

_CLOSE_SECONDS = 2.0


def is_behind_gateway(manager: Any) -> bool:
    return isinstance(manager, GatewayKernelManager)


class GatewaySocket:
    """All channels of one kernel over one WebSocket, with reconnects."""

    def __init__(self, manager: Any, log: logging.Logger) -> None:
        self.session = manager.session.clone()
        self.session.session = uuid.uuid4().hex
        self.on_reconnected: Callable[[], None] = lambda: None
        """Called after a reconnect, when messages may have been lost."""
        self._kernel_id = str(manager.kernel_id)
        self._log = log
        self._socket: WebSocketClientConnection | None = None
        self._waiting: list[str | bytes] = []
        self._closing = False

    async def open(self, timeout: float | None = None) -> None:
        """Connect, within ``timeout`` seconds if that is less than `GatewayClient` allows.

        A gateway makes a connection wait while it restarts or shuts down the kernel.

        Raises
        ------
        KernelDied
            The gateway has no such kernel.
        OSError, tornado.httpclient.HTTPClientError
            The gateway cannot be reached, or refuses the connection.
        """
        options = GatewayClient.instance()
        url = url_path_join(
            options.ws_url or "", options.kernels_endpoint, url_escape(self._kernel_id), "channels"
        )
        # A reconnect uses the same session id, so that the gateway replays the messages it has
        # buffered and routes the kernel's replies here.
        arguments = options.load_connection_args()
        if timeout is not None:
            for each in ("connect_timeout", "request_timeout"):
                arguments[each] = min(arguments.get(each) or timeout, timeout)
        request = HTTPRequest(f"{url}?session_id={self.session.session}", **arguments)
        try:
            socket = await websocket_connect(
                request,
                subprotocols=[PROTOCOL],
                ping_interval=PING_SECONDS,
                ping_timeout=PING_SECONDS,
                max_message_size=MAX_MESSAGE_BYTES,
            )
        except HTTPClientError as error:
            if error.code == 404:
                raise KernelDied("The gateway does not know the kernel.") from None
            raise
        self._socket = socket
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self._write(frame)

    def send(self, channel: Channel, message: Message, buffers: Sequence[bytes]) -> None:
        if self._socket is not None and self._socket.selected_subprotocol == PROTOCOL:
            parts = [
                self.session.pack(message[part])
                for part in ("header", "parent_header", "metadata", "content")
            ]
            self._write(serialize_msg_to_ws_v1([*parts, *buffers], channel))
        else:
            # Always a binary frame: it may carry buffers, and needs none.
            self._write(
                serialize_binary_message({**message, "channel": channel, "buffers": list(buffers)})
            )

    def _write(self, frame: str | bytes) -> None:
        if self._socket is None:
            self._waiting.append(frame)  # Sent after the reconnect.
            return
        try:
            written = self._socket.write_message(frame, binary=True)
        except WebSocketClosedError:
            self._waiting.append(frame)
            return
        # The reader notices a connection that breaks during the write.
        written.add_done_callback(lambda future: future.exception())

    async def read(self, deliver: Deliver) -> None:
        """Pass each message and the name of its channel to ``deliver``, until cancelled.

        Raises
        ------
        KernelDied
            The gateway no longer knows the kernel.
        ConnectionLost
            The connection broke and all attempts to reconnect failed.
        """
        while True:
            assert self._socket is not None
            frame = await self._socket.read_message()
            if frame is None:
                await self._reconnect()
                continue
            try:
                channel, message = self._parse(frame)
            except (ValueError, KeyError, IndexError) as error:
                self._log.warning("Ignoring a message that is not the kernel's: %s", error)
                continue
            deliver(channel, message)

    def _parse(self, frame: str | bytes) -> tuple[str, Message]:
        assert self._socket is not None
        if isinstance(frame, bytes) and self._socket.selected_subprotocol == PROTOCOL:
            channel, parts = deserialize_msg_from_ws_v1(frame)
            header, parent, metadata, content = map(self.session.unpack, parts[:4])
            return channel, {
                "header": header,
                "msg_id": header["msg_id"],
                "msg_type": header["msg_type"],
                "parent_header": parent,
                "metadata": metadata,
                "content": content,
                "buffers": parts[4:],
            }
        message: Message = (
            deserialize_binary_message(frame) if isinstance(frame, bytes) else json_decode(frame)
        )
        message["msg_type"] = message["header"]["msg_type"]
        message.setdefault("buffers", [])
        return message["channel"], message

    async def _reconnect(self) -> None:
        options = GatewayClient.instance()
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()
        self._log.warning("The connection to kernel %s broke", self._kernel_id)
        for attempt in range(max(1, options.gateway_retry_max)):
            try:
                await self.open()
            except (OSError, HTTPClientError, WebSocketError) as error:
                self._log.info("Kernel %s is not reached again yet: %s", self._kernel_id, error)
                pause = options.gateway_retry_interval * 2**attempt
                await asyncio.sleep(min(pause, options.gateway_retry_interval_max))
            else:
                self._log.info("The connection to kernel %s is there again", self._kernel_id)
                self.on_reconnected()
                return
        raise ConnectionLost("The connection to the gateway was lost and could not be restored.")

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is None:
            return
        socket.close()
        with contextlib.suppress(asyncio.TimeoutError, WebSocketError):
            await within(_CLOSE_SECONDS, _until_closed(socket))


async def _until_closed(socket: WebSocketClientConnection) -> None:
    while await socket.read_message() is not None:
        pass
