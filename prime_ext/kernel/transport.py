"""What carries messages to one kernel process and back: ZeroMQ sockets or a gateway's WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

Channel = Literal["shell", "control"]
Message = dict[str, Any]
Deliver = Callable[[str, Message], None]
"""Takes each message that comes, with the name of its channel."""


class KernelDied(Exception):
    """The process behind the kernel ended, or was replaced, before it answered."""

    how = "died"


class KernelRestarted(KernelDied):
    """A person replaced it."""

    how = "was restarted"


class KernelShutDown(KernelDied):
    """A person, or culling, ended it for good."""

    how = "was shut down"


class ConnectionLost(Exception):
    """The connection broke; what was asked may have been answered meanwhile."""


class Transport(Protocol):
    """One connection, with a session of its own."""

    session: Any
    """Makes and packs messages (a ``jupyter_client.session.Session``)."""
    on_reconnected: Callable[[], None]
    """Called when a broken connection works again: messages may have been lost."""

    async def open(self) -> None:
        """Connect. Raises `KernelDied` if there is no such kernel any more, or what it meets."""

    def send(self, channel: Channel, message: Message, buffers: Sequence[bytes]) -> None: ...

    async def read(self, deliver: Deliver) -> None:
        """Deliver messages until cancelled. Raises `KernelDied` or `ConnectionLost`."""

    async def close(self) -> None: ...
