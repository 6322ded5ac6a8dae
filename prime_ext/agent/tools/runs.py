"""The run that a session has going on in its kernel, when it takes longer than one call may.

A call that runs code is answered at the latest after `Runs.notice_seconds`, so that the model can
decide: the run goes on, and the model waits for it or interrupts it by calls of their own. An
interrupt is a request that code may refuse, so a run is kept until the kernel has ended it, even
behind the end of the turn that began it.
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
    from prime_ext.kernel.execution import Interrupt

WAIT_FOR_RUN = "wait_for_run"
INTERRUPT_RUN = "interrupt_run"

WAIT_SECONDS = 240
"""Less than the five minutes that an entry of the prompt cache lives."""

Progress = Callable[[dict[str, Any]], None]

INTERRUPT_SECONDS = 15.0
"""How long a run that the model interrupts may take to end before the model is told that it goes
on."""
STOP_SECONDS = 5.0
"""How long one that a person stops may take before its turn ends without it."""

_HOW_TO_END = (
    "Wait for it with wait_for_run, or interrupt it again with interrupt_run. If that does not "
    "help, only a restart of the kernel ends it, which loses the variables: that is for the user "
    "to decide."
)


class Run:
    """One run, who is shown what it puts out, and how it is interrupted."""

    def __init__(self, what: str, progress: Progress) -> None:
        self.what = what
        self.progress = progress
        self.outputs: list[dict[str, Any]] = []
        self.is_awaited = False
        self.is_left = False
        """A person stopped its turn, which has ended without it: no later turn lasts as long."""
        self.is_told = False
        """The model knows that it was left."""
        self.task: asyncio.Task[ToolOutcome]
        self._began_at = time.monotonic()
        self._interrupt: Interrupt | None = None
        self._was_interrupted = False

    def show(self, body: dict[str, Any]) -> None:
        self.outputs = body.get("outputs", self.outputs)
        self.progress(body)

    def begun(self, interrupt: Interrupt) -> None:
        """The kernel has begun with it; ``interrupt`` interrupts it there."""
        self._interrupt = interrupt

    def interrupt(self) -> None:
        """Interrupt it; if the kernel has not begun with it, take it back."""
        if self._interrupt is not None:
            self._interrupt()
        elif not self._was_interrupted:
            self.task.cancel()
        self._was_interrupted = True

    @property
    def is_over(self) -> bool:
        return self.task.done()

    @property
    def standing(self) -> str:
        """How it stands while it goes on, in a sentence without its end."""
        seconds = round(time.monotonic() - self._began_at)
        if self._interrupt is None:
            return (
                f"{self.what} has not begun after {seconds} s: it waits for the kernel, which "
                "starts or runs something else"
            )
        if self._was_interrupted:
            return f"{self.what} was interrupted, but still runs after {seconds} s"
        return f"{self.what} is still running after {seconds} s"

    @property
    def how_to_end(self) -> str:
        if self._interrupt is None:
            return "Wait for it with wait_for_run, or take it back with interrupt_run."
        if self._was_interrupted:
            return _HOW_TO_END
        return "Wait for it with wait_for_run, or stop it with interrupt_run."

    def so_far(self) -> ToolOutcome:
        """What there is while it goes on."""
        notice = (
            f"{self.standing}. {self.how_to_end} list_variables and inspect_variable "
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
        if self.task.cancelled():
            notice = f"{self.what} was taken back before the kernel had begun with it."
            return outcome_so_far(self.outputs, notice, is_error=True)
        outcome = self.task.result()
        if not (self._was_interrupted and outcome.is_error):
            return outcome
        notice = f"{self.what} was interrupted. What it had done by then stays done."
        return _with_text(outcome, notice)


class Runs:
    """At most one run at a time, which may outlast the call and the turn that began it.

    Parameters
    ----------
    notice_seconds:
        After so long a call is answered although its run goes on; 0: never.
    """

    def __init__(self, notice_seconds: float = 0.0) -> None:
        self.notice_seconds = notice_seconds
        self._run: Run | None = None

    async def begin(
        self,
        what: str,
        work: Callable[[Run], Awaitable[ToolOutcome]],
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
            Gets the run, to be told what it has to show, and when the kernel begins with it.
        may_outlast:
            The model has the tools to wait for it.

        Raises
        ------
        PrimeError
            ``run_going_on`` (409): another run has not ended.
        """
        if self._run is not None and not self._run.is_over:
            raise PrimeError(
                f"Not run: {self._run.standing}.",
                code="run_going_on",
                hint=self._run.how_to_end,
                status=409,
            )
        run = Run(what, progress)
        run.task = asyncio.ensure_future(work(run))
        # The run before may have ended a moment ago, with nobody told of it yet.
        before = self.news()
        outcome = await self._until(run, self.notice_seconds if may_outlast else 0.0)
        return outcome if before is None else _with_text(outcome, before)

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
        """Interrupt the run: what it came to, or that it goes on all the same.

        Raises
        ------
        PrimeError
            ``no_run`` (409).
        """
        run = self._going()
        run.progress = progress
        run.interrupt()
        return await self._until(run, INTERRUPT_SECONDS)

    def news(self) -> str | None:
        """What became of a run that nobody waits for, for the model; each told once."""
        run = self._run
        if run is None or run.is_awaited:
            return None
        if not run.is_over:
            if not run.is_left or run.is_told:
                return None
            run.is_told = True
            return f"{run.standing}. {run.how_to_end} Its end will be told."
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
        return self._run is not None and not self._run.is_over

    @property
    def is_idle(self) -> bool:
        """Whether nothing goes on, and nothing has ended that is still to be told."""
        return self._run is None

    @property
    def is_left(self) -> bool:
        """Whether it goes on although its turn was stopped."""
        return self._run is not None and self._run.is_left and not self._run.is_over

    @property
    def holds_turn(self) -> bool:
        """Whether it goes on, and the turn lasts as long."""
        return self.is_going_on and not self.is_left

    async def settle(self) -> None:
        """Return when nothing runs any more that the turn lasts for; if cancelled, stop it."""
        if self._run is not None and self.holds_turn:
            try:
                await asyncio.wait({self._run.task})
            except asyncio.CancelledError:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Interrupt what the turn has run, and leave it if it does not end within seconds."""
        if self._run is not None and self.holds_turn:
            await self._stop(self._run)

    async def close(self) -> None:
        """Give up what runs, for good."""
        if self._run is not None and not self._run.is_over:
            self._run.task.cancel()
            await asyncio.wait({self._run.task})

    async def _stop(self, run: Run) -> None:
        run.interrupt()
        try:
            await asyncio.wait({run.task}, timeout=STOP_SECONDS)
        finally:
            run.is_left, run.is_told = not run.is_over, False

    def _going(self) -> Run:
        if self._run is None:
            raise PrimeError(
                "Nothing that you began is running.",
                code="no_run",
                hint="The results of your runs are in the answers to the calls that began them.",
                status=409,
            )
        return self._run

    async def _until(self, run: Run, seconds: float) -> ToolOutcome:
        """The outcome of ``run``, which is kept as the one going on if it takes longer."""
        self._run = run
        run.is_awaited = True
        try:
            await asyncio.wait({run.task}, timeout=seconds or None)
        except asyncio.CancelledError:
            await self._stop(run)
            if run.is_over:
                self._run = None
            raise
        finally:
            run.is_awaited = False
        if not run.is_over:
            return run.so_far()
        self._run = None
        return run.result()


def _with_text(outcome: ToolOutcome, text: str) -> ToolOutcome:
    return replace(outcome, content=[*outcome.content, {"type": "text", "text": text}])


async def begin_run(
    context: ToolContext, what: str, work: Callable[[Run], Awaitable[ToolOutcome]]
) -> ToolOutcome:
    """As `Runs.begin`, for a call."""
    if context.runs is None:
        return await work(Run(what, context.progress))
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
            "would. Only what you began yourself is interrupted. Returns what it has put out, and "
            "whether it still runs: code may ignore an interrupt."
        ),
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        approval="read",
        handler=_interrupt,
        summary=lambda _arguments: "Interrupt the run",
    ),
]
