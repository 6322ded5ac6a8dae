"""When an idle connection to a gateway is given back, and what is noticed without it."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from prime_ext.kernel.connection import KernelConnection

QUIET_SECONDS = 300.0
"""How long an idle connection to a gateway is kept after the last execution or request."""

LOOK_SECONDS = 60.0
"""Interval at which a kernel without a connection of ours is looked at."""

_PATIENCE_SECONDS = 10.0
_COUNTED_LOOKS = 2


class IdleConnection:
    """Gives the connection to a kernel behind a gateway back while nobody uses it.

    A gateway does not cull kernels that have connections. While there is none, two things tell what
    happens:

    - The kernel's last activity in the gateway's model. If it changes, code may have run.
    - A look: a connection for a moment, to compare the kernel's process. A crash and the restart
      that follows may leave everything in the model as it was, since the gateway may not hear the
      first messages of the new process.

    Gateways with a recent jupyter_server do not take a look for activity. Others count every
    message of a kernel, so that looks would keep it from being culled. There, no more are made.
    """

    def __init__(self, connection: KernelConnection, manager: Any, log: logging.Logger) -> None:
        self._connection = connection
        self._manager = manager
        self._log = log
        self._activity: Any = None
        """The kernel's last activity when the connection ended; ``None`` while there is one."""
        self._looked_at = 0.0
        self._counted = 0
        """How many looks in a row changed the last activity."""
        self._settles = False
        """Whether messages of such a look may still change it."""

    def begin(self) -> None:
        """Note that there is no connection any more."""
        self._activity = getattr(self._manager, "last_activity", None)
        self._looked_at = time.monotonic()

    def end(self) -> None:
        """Note that there is a connection."""
        self._activity = None
        self._settles = False

    async def attend(self) -> None:
        """Give the connection back, make it again, or look, if it is time to.

        The gateway's model of the kernel has to be fresh.
        """
        if self._connection.open_channels is not None:
            await self._give_back_if_quiet()
        elif self._activity is None:
            pass  # There was none yet.
        elif self._settles:
            self._settles = False
            self._note_activity()
        elif self._activity != self._manager.last_activity:
            with contextlib.suppress(PrimeError):  # The next call tries again.
                await self._connection.channels()
                self._connection.count_run()
        elif self._counted < _COUNTED_LOOKS and time.monotonic() - self._looked_at > LOOK_SECONDS:
            await self._look()

    async def _give_back_if_quiet(self) -> bool:
        channels = self._connection.open_channels
        if (
            channels is None
            or time.monotonic() - self._connection.used_at <= QUIET_SECONDS
            or channels.running
            or channels.open_requests
        ):
            return False
        await self._connection.give_back()
        return True

    async def _look(self) -> None:
        connection, activity = self._connection, self._activity
        incarnation = connection.incarnation
        self._looked_at = time.monotonic()  # A look that fails is not repeated earlier either.
        try:
            await connection.connect(_PATIENCE_SECONDS)  # This compares the process.
        except PrimeError:
            return
        if connection.incarnation != incarnation:
            connection.used_at = time.monotonic()  # Those who hear of the crash will use it.
            return
        if not await self._give_back_if_quiet():
            return
        if self._activity is not None:
            self._activity = activity  # What changed since is not known yet.
        with contextlib.suppress(HTTPError, OSError):
            await ensure_async(self._manager.is_alive())  # This fetches the model.
        if self._manager.last_activity == activity:
            self._counted = 0
            return
        # It was the look, or somebody ran code just before we listened.
        self._counted += 1
        self._settles = True
        self._note_activity()
        if self._counted == _COUNTED_LOOKS:
            self._log.info(
                "The gateway counts a connection to kernel %s as activity. The kernel is not looked"
                " at any more: a crash while it is idle is noticed at its next use",
                connection.kernel_id,
            )

    def _note_activity(self) -> None:
        """Take the kernel's activity for that of a look, but not for certain."""
        activity = self._manager.last_activity
        if self._activity not in (None, activity):
            self._activity = activity
            self._connection.runs += 1
