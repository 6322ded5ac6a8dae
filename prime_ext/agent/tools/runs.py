"""The run that a session has going on in its kernel, when it takes longer than one call may.

A call that runs code is answered at the latest after `Runs.notice_seconds`, so that the model can
decide: the run goes on, and the model waits for it or interrupts it by calls of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prime_ext.agent.tools.run_outcome import outcome_so_far
from prime_ext.agent.tools.tool import Tool, ToolOutcome
from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from prime_ext.agent.tools.tool import ToolContext

WAIT_FOR_RUN = "wait_for_run"
INTERRUPT_RUN = "interrupt_run"

WAIT_SECONDS = 240
"""Less than the five minutes that an entry of the prompt cache lives."""

Progress = Callable[[dict[str, Any]], None]

INTERRUPT_SECONDS = 15.0
"""How long an interrupted run may take to end before the model is told that it goes on."""


class _Run:
    """One run, and who is shown what it puts out."""

    def __init__(self, what: str, progress: Progress) -> None:
        self.what = what
        self.progress = progress
        self.outputs: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self.is_awaited = False
        self.task: asyncio.Task[ToolOutcome]

    def show(self, body: dict[str, Any]) -> None:
        self.outputs = body.get("outputs", self.outputs)
        self.progress(body)

    def so_far(self) -> ToolOutcome:
        """What there is while it goes on."""
        seconds = round(time.monotonic() - self.began)
        notice = (
            f"{self.what} is still running after {seconds} s, and goes on. Wait for it with "
            "wait_for_run, or stop it with interrupt_run. list_variables and inspect_variable "
            "answer meanwhile; other code has to wait."
        )
        return outcome_so_far(self.outputs, notice, is_error=False)

    def result(self) -> ToolOutcome:
        """What it came to.

        Raises
        ------
        PrimeError
            And whatever else the work raised.
        """
        if not self.task.cancelled():
            return self.task.result()
        notice = (
            f"{self.what} was interrupted. What it had done by then stays done; code that ignores "
            "interrupts may go on, and the kernel is then busy with it."
        )
        return outcome_so_far(self.outputs, notice, is_error=True)


class Runs:
    """At most one run at a time, which may outlast the call that began it.

    Parameters
    ----------
    notice_seconds:
        After so long a call is answered although its run goes on; 0: never.
    """

    def __init__(self, notice_seconds: float = 0.0) -> None:
        self.notice_seconds = notice_seconds
        self._run: _Run | None = None

    async def begin(
        self,
        what: str,
        work: Callable[[Progress], Awaitable[ToolOutcome]],
        progress: Progress,
        *,
        may_outlast: bool,
    ) -> ToolOutcome:
        """Carry out ``work``, and return what it came to, or that it goes on.

        Parameters
        ----------
        what:
            Names the run to the model, e.g. ``Cell [a1b2]``.
        work:
            Gets the callback for what the run has to show.
        may_outlast:
            The model has the tools to wait for it.

        Raises
        ------
        PrimeError
            ``run_going_on`` (409): another run has not ended.
        """
        if self._run is not None and self.is_going_on:
            raise PrimeError(
                f"Not run: {self._run.what} is still running.",
                code="run_going_on",
                hint="Wait for it with wait_for_run, or stop it with interrupt_run.",
                status=409,
            )
        run = _Run(what, progress)
        run.task = asyncio.ensure_future(work(run.show))
        # The run before may have ended a moment ago, with nobody told of it yet.
        before = self.ended()
        outcome = await self._until(run, self.notice_seconds if may_outlast else 0.0)
        if before is None:
            return outcome
        return replace(outcome, content=[*outcome.content, {"type": "text", "text": before}])

    async def wait(self, seconds: float, progress: Progress) -> ToolOutcome:
        """What the run came to, or that it goes on after so many seconds.

        Raises
        ------
        PrimeError
            ``no_run`` (409).
        """
        run = self._going()
        run.progress = progress
        if run.outputs:
            progress({"outputs": run.outputs})
        return await self._until(run, seconds)

    async def interrupt(self, progress: Progress) -> ToolOutcome:
        """Interrupt the run: what it came to, or that it does not react.

        Raises
        ------
        PrimeError
            ``no_run`` (409).
        """
        run = self._going()
        run.progress = progress
        run.task.cancel()
        return await self._until(run, INTERRUPT_SECONDS)

    def ended(self) -> str | None:
        """What a run came to that ended while nobody waited for it; told once."""
        run = self._run
        if run is None or run.is_awaited or not run.task.done():
            return None
        self._run = None
        try:
            outcome = run.result()
        except PrimeError as error:
            return f"{run.what}, which was still running, has failed: {error.message}"
        texts = [block["text"] for block in outcome.content if block["type"] == "text"]
        return "\n".join([f"{run.what}, which was still running, has ended:", *texts])

    @property
    def is_going_on(self) -> bool:
        """Whether a run has outlasted its call."""
        return self._run is not None and not self._run.task.done()

    async def settle(self) -> None:
        """Return when nothing runs any more; if cancelled, stop what runs."""
        if self._run is not None:
            try:
                await asyncio.wait({self._run.task})
            except asyncio.CancelledError:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Interrupt what runs, and wait until it has ended."""
        run = self._run
        if run is not None and not run.task.done():
            run.task.cancel()
            await asyncio.wait({run.task})

    def _going(self) -> _Run:
        if self._run is None:
            raise PrimeError(
                "Nothing that you began is running.",
                code="no_run",
                hint="The results of your runs are in the answers to the calls that began them.",
                status=409,
            )
        return self._run

    async def _until(self, run: _Run, seconds: float) -> ToolOutcome:
        """The outcome of ``run``, which is kept as the one going on if it takes longer."""
        self._run = run
        run.is_awaited = True
        try:
            await asyncio.wait({run.task}, timeout=seconds or None)
        except asyncio.CancelledError:
            await self.stop()
            self._run = None
            raise
        finally:
            run.is_awaited = False
        if not run.task.done():
            return run.so_far()
        self._run = None
        return run.result()


async def begin_run(
    context: ToolContext, what: str, work: Callable[[Progress], Awaitable[ToolOutcome]]
) -> ToolOutcome:
    """As `Runs.begin`, for a call."""
    if context.runs is None:
        return await work(context.progress)
    # A session of an older version learns of the tools with its next compaction.
    offered = any(tool["name"] == WAIT_FOR_RUN for tool in context.session.tools)
    return await context.runs.begin(what, work, context.progress, may_outlast=offered)


async def _wait(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    runs = context.runs or Runs()
    return await runs.wait(arguments.get("seconds", WAIT_SECONDS), context.progress)


async def _interrupt(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutcome:
    return await (context.runs or Runs()).interrupt(context.progress)


TOOLS = [
    Tool(
        name=WAIT_FOR_RUN,
        description=(
            "Wait for the run_cell or run_code that was answered as still running. Returns its "
            "result as soon as it has ended, or after `seconds` what it has put out so far. The "
            "user sees its outputs meanwhile and can stop it."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 3600,
                    "description": f"How long to wait at most; {WAIT_SECONDS} if left out.",
                }
            },
            "additionalProperties": False,
        },
        approval="read",
        handler=_wait,
        summary=lambda _arguments: "Wait for the run",
    ),
    Tool(
        name=INTERRUPT_RUN,
        description=(
            "Interrupt the run_cell or run_code that was answered as still running, as Ctrl-C "
            "would. Only what you began yourself is interrupted. Returns what it has put out."
        ),
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        approval="read",
        handler=_interrupt,
        summary=lambda _arguments: "Interrupt the run",
    ),
]
