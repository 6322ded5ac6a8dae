"""The interface of a connection to one kernel process: ZeroMQ sockets or a gateway's WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

Channel = Literal["shell", "control"]
Message = dict[str, Any]
Deliver = Callable[[str, Message], None]
"""Receives each incoming message: ``deliver(channel_name, message)``."""


class KernelDied(Exception):
    """The kernel's process ended, or was replaced, before it answered."""

    how = "died"


class KernelRestarted(KernelDied):
    """A person restarted the kernel."""

    how = "was restarted"


class KernelShutDown(KernelDied):
    """The kernel was shut down for good, by a person or by idle culling."""

    how = "was shut down"


class ConnectionLost(Exception):
    """The connection broke. The kernel may have processed the request all the same."""


class Transport(Protocol):
    """One connection to a kernel, with a messaging session of its own."""

    session: Any
    """Creates and serializes messages (a ``jupyter_client.session.Session``)."""
    on_reconnected: Callable[[], None]
    """Called after a reconnect, when messages may have been lost."""

    async def open(self, timeout: float) -> None:
        """Connect within ``timeout`` seconds.

        Raises `KernelDied` if there is no such kernel; other errors pass through.
        """

    def send(self, channel: Channel, message: Message, buffers: Sequence[bytes]) -> None: ...

    async def read(self, deliver: Deliver) -> None:
        """Deliver messages until cancelled. Raises `KernelDied` or `ConnectionLost`."""

    async def close(self) -> None: ...
