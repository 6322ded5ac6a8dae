"""One execution of code in a kernel, from its place in the queue to its last output."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from prime_ext.errors import PrimeError
from prime_ext.kernel.client import KernelChannels, Request
from prime_ext.kernel.connection import KernelConnection
from prime_ext.kernel.late_outputs import LateOutputs
from prime_ext.kernel.outputs import Output, OutputCollector
from prime_ext.kernel.private_messages import WITHDRAW_SECONDS
from prime_ext.kernel.transport import ConnectionLost, KernelDied, Message
from prime_ext.within import within

Status = Literal["ok", "error", "aborted", "died"]

Interrupt = Callable[[], None]
"""Interrupts one run. It may be called repeatedly, and does nothing once the run has ended."""

BUSY_NOTICE_SECONDS = 0.3
"""How long a run may wait in the queue before ``on_busy`` is called."""

OUTPUT_INTERVAL_SECONDS = 0.1
OUTPUT_SHARE = 0.1
"""Minimum interval of live outputs, and the maximum share of time spent on delivering them: outputs
with many figures are large."""

_LAST_OUTPUTS_SECONDS = 4.0
_ENTER_SECONDS = 0.5
_INTERRUPT_SECONDS = 5.0
_ATTEMPTS = 5


@dataclass
class Execution:
    """The result of one execution.

    Parameters
    ----------
    status:
        ``"ok"``, ``"error"`` (an exception, including an interrupt), ``"aborted"`` (the run never
        began) or ``"died"`` (the kernel's process ended during the run). A run that was still
        queued when the process ended is ``"aborted"``. In both cases the error's ``ename`` is
        ``KernelDied``, ``KernelRestarted`` or ``KernelShutDown``.
    outputs:
        Notebook outputs (nbformat 4). Consecutive writes to one stream form one output, in which
        ``\\r`` and ``\\b`` have taken effect.
    error:
        ``{ename, evalue, traceback}``. The traceback is a list of lines with ANSI colours.
    duration_ms:
        Duration in milliseconds, without the time in the queue.
    left_out:
        Number of characters missing from ``outputs``, because there were too many to keep.
    late:
        Outputs after the end of the run, if the caller asked to follow them and the kernel is
        alive. The caller must call its ``stop``.
    """

    status: Status
    outputs: list[Output] = field(default_factory=list)
    execution_count: int | None = None
    error: dict[str, Any] | None = None
    duration_ms: int = 0
    left_out: int = 0
    late: LateOutputs | None = None


class _LiveOutputs:
    """Delivers the growing outputs at a limited rate."""

    def __init__(
        self,
        on_outputs: Callable[[list[Output]], None] | None,
        on_count: Callable[[int], None] | None = None,
    ) -> None:
        self.collector = OutputCollector()
        self._on_outputs = on_outputs
        self._on_count = on_count
        self._timer: asyncio.TimerHandle | None = None
        self._pause = OUTPUT_INTERVAL_SECONDS
        self._last_message = 0.0

    def add(self, msg_type: str, content: Message) -> None:
        self._last_message = time.monotonic()
        if msg_type == "execute_input" and self._on_count is not None:
            self._on_count(content["execution_count"])
        if self.collector.add(msg_type, content):
            self._schedule()

    def _schedule(self) -> None:
        if self._on_outputs is not None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pause, self._hand_on)

    def _hand_on(self) -> None:
        self._timer = None
        if self._on_outputs is not None:
            begun = time.monotonic()
            self._on_outputs(self.collector.outputs)
            took = time.monotonic() - begun
            self._pause = max(OUTPUT_INTERVAL_SECONDS, took / OUTPUT_SHARE)

    def idle_seconds(self) -> float:
        return time.monotonic() - self._last_message

    def finish(self) -> list[Output]:
        if self._timer is not None:
            self._timer.cancel()
            self._hand_on()
        return self.collector.outputs

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def execute(
    connection: KernelConnection,
    code: str,
    *,
    store_history: bool,
    on_outputs: Callable[[list[Output]], None] | None = None,
    on_busy: Callable[[], None] | None = None,
    on_count: Callable[[int], None] | None = None,
    on_begun: Callable[[Interrupt], None] | None = None,
    cell_id: str | None = None,
    follow: bool = False,
) -> Execution:
    """Run ``code`` once our earlier executions have ended, and return the result.

    Cancelling the task withdraws the request from the kernel's queue, or interrupts it if it runs;
    code of other clients is never interrupted. See `NotebookKernel.execute`.
    """
    loop = asyncio.get_running_loop()
    notice = loop.call_later(BUSY_NOTICE_SECONDS, on_busy) if on_busy is not None else None
    live = _LiveOutputs(on_outputs, on_count)
    try:
        async with connection.turn:
            return await _run(
                connection, code, store_history, live, notice, on_begun, cell_id, follow
            )
    finally:
        live.stop()
        if notice is not None:
            notice.cancel()


async def _run(
    connection: KernelConnection,
    code: str,
    store_history: bool,
    live: _LiveOutputs,
    notice: asyncio.TimerHandle | None,
    on_begun: Callable[[Interrupt], None] | None,
    cell_id: str | None,
    follow: bool,
) -> Execution:
    begun = time.monotonic()
    try:
        private = await connection.private.prepare()
        channels = await connection.channels()
        process = connection.incarnation
        for _attempt in range(_ATTEMPTS):
            request = _send(channels, code, store_history, live, private, cell_id)
            connection.followed.begin(request.msg_id, live.add)
            try:
                await request.started.wait()
                if notice is not None:
                    notice.cancel()
                begun = time.monotonic()
                if on_begun is not None and not request.reply.done():
                    on_begun(partial(_interrupt_soon, connection, request))
                reply = (await asyncio.shield(request.reply))["content"]
                await _last_outputs(request, live)
                if reply.get("status") == "error":
                    end = await connection.end_of(channels)
                    if end is not None:
                        raise end
            except asyncio.CancelledError:
                await _take_back(connection, channels, request, private)
                live.finish()
                raise
            except (KernelDied, ConnectionLost) as error:
                channels.forget(request)
                if isinstance(error, KernelDied) and request.never_began:
                    return _not_begun(error)
                execution = _cut_off(error, live, begun)
                break
            finally:
                connection.followed.leave(request.msg_id)
            channels.forget(request)
            execution = _ended(reply, live, begun)
            # A kernel that only knows the standard request aborts ours when another client's cell
            # ahead of it in the queue fails. That is no reason not to run ours, so send it again.
            if execution.status != "aborted":
                break
    except KernelDied as error:
        return _not_begun(error)
    except ConnectionLost as error:
        return _cut_off(error, live, begun)
    if follow and execution.status in ("ok", "error") and connection.incarnation == process:
        execution.late = connection.followed.end(request.msg_id, live.collector)
    return execution


def _ended(reply: dict[str, Any], live: _LiveOutputs, begun: float) -> Execution:
    live.collector.add_payload(reply.get("payload") or [])
    status = reply.get("status")
    return Execution(
        status if status in ("ok", "aborted") else "error",
        live.finish(),
        execution_count=reply.get("execution_count"),
        error=_error(reply) if status == "error" else None,
        duration_ms=_since(begun),
        left_out=live.collector.left_out,
    )


def _send(
    channels: KernelChannels,
    code: str,
    store_history: bool,
    live: _LiveOutputs,
    private: bool,
    cell_id: str | None,
) -> Request:
    return channels.send(
        "shell",
        "prime_execute_request" if private else "execute_request",
        {
            "code": code,
            "silent": False,
            "store_history": store_history,
            "user_expressions": {},
            # `input()` fails at once with a message, since nobody could answer it.
            "allow_stdin": False,
            # A failure of ours must not abort what other clients have queued behind it.
            "stop_on_error": False,
        },
        metadata={"cellId": cell_id} if cell_id else {},
        on_output=live.add,
    )


async def _last_outputs(request: Request, live: _LiveOutputs) -> None:
    """Wait for outputs that arrive after the reply, since they use another socket (IOPub).

    The idle status marks their end. In case it was lost, a few seconds without a message do too.
    """
    while not request.finished.is_set():
        try:
            await within(_LAST_OUTPUTS_SECONDS, request.finished.wait())
        except asyncio.TimeoutError:
            if live.idle_seconds() >= _LAST_OUTPUTS_SECONDS:
                return


async def _take_back(
    connection: KernelConnection, channels: KernelChannels, request: Request, private: bool
) -> None:
    """Make sure that a cancelled run neither continues nor begins later."""
    if request.reply.done():
        channels.forget(request)
        return
    if not request.started.is_set() and private:
        with contextlib.suppress(PrimeError):
            params = {"msg_id": request.msg_id}
            await connection.private.ask("withdraw", params, timeout=WITHDRAW_SECONDS)
            if not request.started.is_set():
                channels.forget(request)
                return
    if request.started.is_set():
        await _interrupt(connection, request)
        # The next request should not find the kernel still busy with this run, so wait for its
        # end, but only for a few seconds: code may ignore the interrupt.
        with contextlib.suppress(asyncio.TimeoutError):
            await within(_INTERRUPT_SECONDS, request.finished.wait())
        channels.forget(request)
    else:
        # The request cannot be withdrawn, so interrupt it as soon as it begins.
        connection.spawn(_interrupt_later(connection, channels, request))


async def _interrupt(connection: KernelConnection, request: Request) -> None:
    # A kernel ignores interrupts between the start of a request and the start of its code.
    with contextlib.suppress(asyncio.TimeoutError):
        await within(_ENTER_SECONDS, request.entered.wait())
    if request.finished.is_set():
        return
    with contextlib.suppress(Exception):
        await connection.interrupt()


def _interrupt_soon(connection: KernelConnection, request: Request) -> None:
    connection.spawn(_interrupt(connection, request))


async def _interrupt_later(
    connection: KernelConnection, channels: KernelChannels, request: Request
) -> None:
    try:
        await request.started.wait()
        await _interrupt(connection, request)
    finally:
        channels.forget(request)


def _error(reply: dict[str, Any]) -> dict[str, Any]:
    return {
        "ename": str(reply.get("ename", "")),
        "evalue": str(reply.get("evalue", "")),
        "traceback": list(reply.get("traceback") or []),
    }


def _not_begun(cause: KernelDied) -> Execution:
    """Return the result of a run that was still queued when the kernel's process ended."""
    what = f"The kernel {cause.how} before it began with this code."
    return Execution("aborted", error=_told(cause, what))


def _cut_off(cause: Exception, live: _LiveOutputs, begun: float) -> Execution:
    if isinstance(cause, KernelDied):
        status: Status = "died"
        what = f"The kernel {cause.how} while this code was running."
    else:
        status = "error"
        what = (
            "The connection to the kernel broke while this code was running. The kernel lives, and "
            "the code may have run to its end; look at the variables before running it again."
        )
    error = _told(cause, what)
    live.add("error", error)
    return Execution(
        status,
        live.finish(),
        error=error,
        duration_ms=_since(begun),
        left_out=live.collector.left_out,
    )


def _told(cause: Exception, what: str) -> dict[str, Any]:
    name = type(cause).__name__
    return {"ename": name, "evalue": what, "traceback": [f"{name}: {what}"]}


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
