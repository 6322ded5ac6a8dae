"""The run that a session has going on in its kernel, when it takes longer than one call may.

A call that runs code is answered at the latest after `Runs.notice_seconds`, so that the model can
decide: the run goes on, and the model waits for it or interrupts it by calls of their own. An
interrupt is a request that code may refuse, so a run is kept until the kernel has ended it, even
behind the end of the turn that began it. What becomes of a run that no call waits for is recorded
as it ends, so that nothing it puts out is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prime_ext.agent.tools.run_outcome import outcome_by_then, outcome_so_far
from prime_ext.agent.tools.tool import Tool, ToolOutcome
from prime_ext.errors import PrimeError, sentences

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


CUT_OFF = (
    "was still running when its session was closed or the server stopped. What it has put out "
    "since is lost, and how it ended is not known: look before you run it again."
)


class Run:
    """One run, who is shown what it puts out, and how it is interrupted.

    Parameters
    ----------
    call_id:
        The call that began it.
    turn:
        That call's turn.
    """

    def __init__(
        self, what: str, progress: Progress, call_id: str = "", turn: str | None = None
    ) -> None:
        self.what = what
        self.progress = self.own_progress = progress
        self.call_id = call_id
        self.turn = turn
        self.outputs: list[dict[str, Any]] = []
        self.awaited_by = 0
        """How many calls wait for it, whose results will say what it came to."""
        self.is_answered_for = False
        """The result of a call that waited for it says what it came to."""
        self.is_cut_off = False
        """It is given up although it goes on."""
        self.answered = asyncio.Event()
        """The result of the call that began it is recorded: its end has to stand behind that."""
        self.is_left = False
        """A person stopped its turn, which has ended without it: no later turn lasts as long."""
        self.is_told = False
        """The model knows that it was left."""
        self.task: asyncio.Task[ToolOutcome]
        self.end: asyncio.Task[None]
        """Done when it has ended and that is recorded, unless a call waits for it."""
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
    def was_taken_back(self) -> bool:
        """It ended before the kernel had begun with it."""
        return self._interrupt is None and self.is_over and self.task.cancelled()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_at

    @property
    def standing(self) -> str:
        """How it stands while it goes on, in a sentence without its end."""
        seconds = round(self.seconds)
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
        return replace(outcome, content=[*outcome.content, {"type": "text", "text": notice}])

    def told(self) -> ToolOutcome:
        """What it came to, for a model that did not wait for it."""
        if self.is_cut_off and self.task.cancelled():
            return outcome_by_then(self.outputs, f"{self.what} {CUT_OFF}")
        if self.was_taken_back:
            return self.result()
        was = "was still running" if self._interrupt is not None else "had not begun"
        try:
            outcome = self.result()
        except PrimeError as error:
            text = f"{self.what}, which {was}, has failed: "
            return ToolOutcome.text(text + sentences(error.message, error.hint), is_error=True)
        texts = [block["text"] for block in outcome.content if block["type"] == "text"]
        text = "\n".join([f"{self.what}, which {was}, has ended:", *texts])
        # The text stays the first block: outputs name images by their place.
        images = [block for block in outcome.content if block["type"] != "text"]
        return replace(outcome, content=[{"type": "text", "text": text}, *images])


class Runs:
    """At most one run at a time, which may outlast the call and the turn that began it.

    Parameters
    ----------
    notice_seconds:
        After so long a call is answered although its run goes on; 0: never.
    """

    def __init__(self, notice_seconds: float = 0.0) -> None:
        self.notice_seconds = notice_seconds
        self.on_end: Callable[[Run], Awaitable[None]] | None = None
        """Records what became of a run that no call waits for."""
        self._run: Run | None = None
        self._begun: Run | None = None
        """The last one that was begun."""
        self._ending: set[asyncio.Task[None]] = set()

    async def begin(
        self,
        run: Run,
        work: Callable[[Run], Awaitable[ToolOutcome]],
        *,
        may_outlast: bool,
    ) -> ToolOutcome:
        """Carry out ``work``, and return what it came to, or that it goes on.

        Parameters
        ----------
        work:
            Gets ``run``, to be told what it has to show, and when the kernel begins with it.
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
        self._begun = run
        run.task = asyncio.ensure_future(work(run))
        run.end = asyncio.create_task(self._see_to_end(run))
        return await self._until(run, self.notice_seconds if may_outlast else 0.0)

    async def wait(self, seconds: float, progress: Progress) -> ToolOutcome:
        """What the run came to, or that it goes on after so many seconds.

        Raises
        ------
        PrimeError
            ``no_run`` (409).
        """
        run = await self._going()
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
        run = await self._going()
        run.progress = progress
        run.interrupt()
        return await self._until(run, INTERRUPT_SECONDS)

    def notice(self) -> str | None:
        """That a run was left that goes on, for the model; told once."""
        run = self._run
        if run is None or not self.is_left or run.is_told:
            return None
        run.is_told = True
        return f"{run.standing}. {run.how_to_end} Its end will be told."

    def answered(self, call_id: str) -> None:
        """The result of a call is recorded."""
        if self._begun is not None and self._begun.call_id == call_id:
            self._begun.answered.set()

    def was_taken_back(self, call_id: str) -> bool:
        """Whether the run that a call began ended before the kernel had begun with it."""
        run = self._begun
        return run is not None and run.call_id == call_id and run.was_taken_back

    @property
    def call_id(self) -> str | None:
        """The call whose run goes on."""
        return self._run.call_id if self._run is not None else None

    @property
    def is_going_on(self) -> bool:
        """Whether a run has outlasted its call."""
        return self._run is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing goes on, and all that has ended is recorded."""
        return self._run is None and not self._ending

    @property
    def is_left(self) -> bool:
        """Whether it goes on although its turn was stopped."""
        return self._run is not None and self._run.is_left and not self._run.is_over

    @property
    def holds_turn(self) -> bool:
        """Whether one goes on, or its end is being recorded, and the turn lasts as long."""
        return bool(self._ending) or (self.is_going_on and not self.is_left)

    async def settle(self) -> None:
        """Return when nothing runs any more that the turn lasts for; if cancelled, stop it."""
        try:
            if self._run is not None and not self.is_left:
                await asyncio.wait({self._run.end})
            await self.ended()
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Interrupt what the turn has run, and leave it if it does not end within seconds."""
        if self._run is not None and not self.is_left:
            await self._stop(self._run)
        await self.ended()

    async def close(self) -> None:
        """Give up what runs, for good."""
        run = self._run
        if run is not None and not run.is_over:
            run.is_cut_off = True
            run.task.cancel()
            await asyncio.wait({run.end})
        await self.ended()

    async def ended(self) -> None:
        """Return when what has ended is recorded."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def _see_to_end(self, run: Run) -> None:
        await asyncio.wait({run.task})
        task = asyncio.current_task()
        # The call that waited may have been woken before this.
        if run.awaited_by or run.is_answered_for or task is None:
            return
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        if self._run is run:
            self._run = None
        if self.on_end is not None:
            await run.answered.wait()
            await self.on_end(run)

    async def _stop(self, run: Run) -> None:
        run.interrupt()
        try:
            await asyncio.wait({run.end}, timeout=STOP_SECONDS)
        finally:
            run.is_left, run.is_told = not run.is_over, False

    async def _going(self) -> Run:
        if self._run is None:
            await self.ended()  # so that the result of this call tells of it
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
        run.awaited_by += 1
        try:
            await asyncio.wait({run.task}, timeout=seconds or None)
        except asyncio.CancelledError:
            await self._stop(run)
            if run.is_over:
                self._run = None
            raise
        finally:
            run.awaited_by -= 1
            if not run.awaited_by:
                run.progress = run.own_progress
        if not run.is_over:
            return run.so_far()
        self._run = None
        run.is_answered_for = True
        return run.result()


async def begin_run(
    context: ToolContext, what: str, work: Callable[[Run], Awaitable[ToolOutcome]]
) -> ToolOutcome:
    """As `Runs.begin`, for a call; ``what`` names the run to the model, e.g. ``Cell [a1b2]``."""
    run = Run(what, context.progress, context.call_id, context.turn)
    if context.runs is None:
        return await work(run)
    # A session of an older version learns of the tools with its next compaction.
    offered = any(tool["name"] == WAIT_FOR_RUN for tool in context.session.tools)
    return await context.runs.begin(run, work, may_outlast=offered)


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
