"""Our own messages to the process behind a connection: taught at first use, then asked by."""

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
"""The control channel answers this at once, also while a cell runs."""


class PrivateMessages:
    """What the process behind a connection has learned of us, and the questions that allows.

    Only ipykernel and what is built on it can learn.
    """

    def __init__(self, connection: KernelConnection, log: logging.Logger) -> None:
        self.sources: Callable[[], Awaitable[list[str]]] = _unknown
        """Reads the code of the cells that may be running."""
        self._connection = connection
        self._log = log
        self._preparation: asyncio.Task[None] | None = None
        self._prepared: bool | None = None
        self._token = ""
        self._on_shell: dict[str, Request] = {}
        """What the process was asked to do between cells, by ``op``."""

    @property
    def are_known(self) -> bool:
        """The process that was there when we asked last has learned them."""
        return bool(self._prepared)

    def forget(self) -> None:
        """The process is gone: the next has everything to learn."""
        self._prepared = None
        self._preparation = None

    async def prepare(self) -> bool:
        """Teach the process our own messages; return whether it can learn them.

        Waits while the kernel is busy, unless it has subshells.
        """
        if self._prepared is None:
            if self._preparation is None or self._preparation.done():
                self._preparation = self._connection.spawn(self._prepare())
            # Shared: a caller that gives up does not take it from the others.
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
        """Have the kernel process do ``op`` and return its answer.

        Binary buffers of the answer are in ``"buffers"``. ``still`` says, just before it is sent,
        whether the process that is there by then is to do it.

        Raises
        ------
        PrimeError
            ``kernel_language``, ``kernel_busy`` (no answer within ``timeout`` seconds),
            ``kernel_died``, ``kernel_replaced``, ``kernel_connection_lost`` (it may have done it
            all the same), or the code that the operation itself failed with.
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
        """End ``op`` on the shell with an interrupt; if a cell keeps it waiting, withdraw it.

        Its `ask` then raises, ``withdrawn`` in the second case. Nothing happens if the process was
        not asked for ``op``, or has answered.
        """
        request = self._on_shell.get(op)
        if request is None:
            return
        params = {"msg_id": request.msg_id}
        answer = await self.ask("withdraw", params, timeout=WITHDRAW_SECONDS)
        if answer["withdrawn"]:
            # The kernel says so too, but only when the cell has ended.
            request.fail(PrimeError("It was withdrawn before it began.", code="withdrawn"))
        elif self._on_shell.get(op) is request:
            await self._connection.interrupt()

    async def is_replaced(self, channels: KernelChannels, channel: Channel) -> bool:
        """Whether another process has taken the place of the one that we knew, unheard."""
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
            # Callbacks of the user's may hang there; the subshell then goes when they end.
            beside = self._connection.spawn(carried.teach_beside(channels))
            with contextlib.suppress(asyncio.TimeoutError):
                token = await within(_BESIDE_SECONDS, asyncio.shield(beside))
        if token is None:
            token = await carried.teach(channels)
        if token is None:
            self._log.info("Kernel %s does not take our messages", self._connection.kernel_id)
        if self._connection.is_by(channels):  # Else the process is another one by now.
            self._token = token or ""
            self._prepared = token is not None

    async def _may_capture(self, channels: KernelChannels) -> bool:
        """Whether the cell that runs may capture what is displayed, as far as its code tells.

        ipykernel then fails at a request to a subshell, and logs that into the output of the cell.
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
