"""Our own request messages to a kernel process. Their handlers are installed at first use."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from prime_ext.errors import PrimeError
from prime_ext.kernel import carried
from prime_ext.kernel.client import KernelChannels, Request
from prime_ext.kernel.refusals import (
    connection_lost,
    died_before_answer,
    kernel_busy,
    kernel_replaced,
    wrong_language,
)
from prime_ext.kernel.transport import Channel, ConnectionLost, KernelDied, Message
from prime_ext.within import within

if TYPE_CHECKING:
    from prime_ext.kernel.connection import KernelConnection

_PREPARE_SECONDS = 3.0
_BESIDE_SECONDS = 20.0

WITHDRAW_SECONDS = 2.0
"""Timeout of a withdrawal, which the control channel answers at once, even while a cell runs."""


class PrivateMessages:
    """Our private requests to the process behind a connection.

    They need handlers that `carried` installs in the process, which works for ipykernel and the
    kernels built on it.
    """

    def __init__(self, connection: KernelConnection, log: logging.Logger) -> None:
        self.sources: Callable[[], Awaitable[list[str]]] = _unknown
        """Read the source of the notebook's code cells, any of which may be running."""
        self._connection = connection
        self._log = log
        self._preparation: asyncio.Task[None] | None = None
        self._prepared: bool | None = None
        self._token = ""
        self._on_shell: dict[str, Request] = {}
        """Open requests on the shell channel, by ``op``."""

    @property
    def are_known(self) -> bool:
        """Whether the process of the last request has our handlers."""
        return bool(self._prepared)

    def forget(self) -> None:
        """Forget the installation: the process is gone, and its successor has none."""
        self._prepared = None
        self._preparation = None

    async def prepare(self) -> bool:
        """Install our handlers in the process unless it has them; return whether it has them.

        Waits while the kernel is busy, unless it has subshells.
        """
        if self._prepared is None:
            if self._preparation is None or self._preparation.done():
                self._preparation = self._connection.spawn(self._prepare())
            # The task is shared, so a cancelled caller must not cancel it for the others.
            await asyncio.shield(self._preparation)
        return bool(self._prepared)

    async def ask(
        self,
        op: str,
        params: dict[str, Any],
        *,
        channel: Channel = "control",
        timeout: float,
        buffers: Sequence[bytes] = (),
        still: Callable[[], bool] = lambda: True,
    ) -> dict[str, Any]:
        """Have the kernel process perform the operation ``op`` and return its result.

        Binary buffers of the reply are in ``"buffers"`` of the result. ``still`` is called just
        before the request is sent: False, if the process meant by the caller has been replaced.

        Raises
        ------
        PrimeError
            ``kernel_language``, ``kernel_busy`` (no answer within ``timeout`` seconds),
            ``kernel_died``, ``kernel_replaced``, ``kernel_connection_lost`` (the operation may have
            been performed all the same), or the code with which the operation itself failed.
        """
        channels = await self._connection.channels()
        try:
            await within(min(timeout, _PREPARE_SECONDS), self.prepare())
        except asyncio.TimeoutError:
            raise kernel_busy("It runs a cell and cannot be asked before that ends.") from None
        except KernelDied:
            raise died_before_answer() from None
        except ConnectionLost:
            raise connection_lost() from None
        if not self._prepared:
            raise wrong_language(self._connection.language)
        if not still():
            raise kernel_replaced()
        try:
            content = {"op": op, "params": params}
            request = channels.send(channel, "prime_request", content, buffers=buffers)
            if channel == "shell":
                self._on_shell[op] = request
            try:
                message = await within(timeout, request.answer())
            finally:
                channels.forget(request)
                if self._on_shell.get(op) is request:
                    del self._on_shell[op]
        except asyncio.TimeoutError:
            raise kernel_busy(f"It has not answered for {timeout:g} seconds.") from None
        except KernelDied:
            raise died_before_answer() from None
        except ConnectionLost:
            raise connection_lost() from None
        if message is None:
            self._prepared = None
            raise kernel_replaced()
        return _result(message)

    async def give_up(self, op: str) -> None:
        """Interrupt ``op`` on the shell channel, or withdraw it while it waits behind a cell.

        The `ask` in question then raises, with ``withdrawn`` in the second case. Do nothing if no
        request for ``op`` is open.
        """
        request = self._on_shell.get(op)
        if request is None:
            return
        params = {"msg_id": request.msg_id}
        answer = await self.ask("withdraw", params, timeout=WITHDRAW_SECONDS)
        if answer["withdrawn"]:
            # The kernel's own reply would come only after the running cell has ended.
            request.fail(PrimeError("It was withdrawn before it began.", code="withdrawn"))
        elif self._on_shell.get(op) is request:
            await self._connection.interrupt()

    async def is_replaced(self, channels: KernelChannels, channel: Channel) -> bool:
        """Whether another process took the place of the one we knew without our noticing."""
        if self._prepared:
            return await carried.token(channels, channel) != self._token
        request = channels.send(channel, "kernel_info_request", {})
        try:
            await request.reply
        finally:
            channels.forget(request)
        return False

    async def _prepare(self) -> None:
        channels = await self._connection.channels()
        if self._connection.language != "python":
            self._prepared = False
            return
        token = None
        if channels.running and channels.has_subshells and not await self._may_capture(channels):
            # Callbacks of the user may hang there; the subshell is then deleted once they return.
            beside = self._connection.spawn(carried.teach_beside(channels))
            with contextlib.suppress(asyncio.TimeoutError):
                token = await within(_BESIDE_SECONDS, asyncio.shield(beside))
        if token is None:
            token = await carried.teach(channels)
        if token is None:
            self._log.info("Kernel %s does not take our messages", self._connection.kernel_id)
        if self._connection.is_by(channels):  # Otherwise the process has been replaced meanwhile.
            self._token = token or ""
            self._prepared = token is not None

    async def _may_capture(self, channels: KernelChannels) -> bool:
        """Whether the running cell may capture displays, judging by the notebook's source.

        ipykernel would then fail on a request to a subshell, and log the failure into the output
        of the cell.
        """
        sources = [channels.last_code, *await self.sources()]
        return any(name in source for source in sources for name in carried.CAPTURES)


async def _unknown() -> list[str]:
    return []


def _result(message: Message) -> dict[str, Any]:
    content = message["content"]
    if content.get("status") != "ok":
        raise PrimeError(
            content.get("evalue") or content.get("ename") or "The kernel refused.",
            code=content.get("code") or "kernel_operation_failed",
        )
    result: dict[str, Any] = content["result"]
    if message.get("buffers"):
        result["buffers"] = message["buffers"]
    return result
