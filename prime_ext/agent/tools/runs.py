"""Runs: code that a tool call executes in the kernel, and that may outlast the call.

A call that runs code gets its result after `Runs.notice_seconds` at the latest. If the run still
goes on then, the model can wait for it or interrupt it with further tool calls. Code may ignore an
interrupt, so a run is tracked until it has ended in the kernel, even beyond the end of its turn. If
a run ends while no call waits for it, its outcome becomes a ``run_end`` record, so that none of its
outputs are lost.
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
"""Default wait; less than the five minutes after which an entry of the prompt cache expires."""

Progress = Callable[[dict[str, Any]], None]

INTERRUPT_SECONDS = 15.0
"""Seconds after which the model is told that a run goes on although the model interrupted it."""
STOP_SECONDS = 5.0
"""Seconds after which a turn that a person stopped ends, even if its run still goes on."""

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
    """One execution of code in the kernel.

    Parameters
    ----------
    what:
        Name of the run for the model, e.g. ``Cell [a1b2]``.
    progress:
        Publishes the outputs while the call that began the run waits for it.
    call_id:
        Id of the tool call that began the run.
    turn:
        Id of that call's turn.
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
        """Number of calls that wait for the run and will report its outcome as their result."""
        self.is_answered_for = False
        """Whether a call that waited for the run has reported its outcome."""
        self.is_cut_off = False
        """Whether the run was abandoned although it goes on in the kernel."""
        self.answered = asyncio.Event()
        """Set once the result of the call that began the run is recorded.

        The record of the run's end must come after it.
        """
        self.is_left = False
        """Whether a person stopped the turn of the run, and the run did not end in time.

        Later turns do not wait for such a run.
        """
        self.is_told = False
        """Whether the model has been told that the run was left running."""
        self.task: asyncio.Task[ToolOutcome]
        self.end: asyncio.Task[None]
        """Done when the run has ended and, unless a call waits for the run, that is recorded."""
        self._began_at = time.monotonic()
        self._interrupt: Interrupt | None = None
        self._was_interrupted = False

    def show(self, body: dict[str, Any]) -> None:
        self.outputs = body.get("outputs", self.outputs)
        self.progress(body)

    def begun(self, interrupt: Interrupt) -> None:
        """Note that the kernel has begun to execute the run; ``interrupt`` interrupts it there."""
        self._interrupt = interrupt

    def interrupt(self) -> None:
        """Interrupt the run, or cancel its request if the kernel has not begun with it."""
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
        """Whether the run was cancelled before the kernel had begun with it."""
        return self._interrupt is None and self.is_over and self.task.cancelled()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_at

    @property
    def standing(self) -> str:
        """State of a run that goes on, as a sentence without its full stop."""
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
        """Return the outputs so far of a run that goes on, with a notice that it does."""
        notice = (
            f"{self.standing}. {self.how_to_end} list_variables and inspect_variable "
            "answer meanwhile; other code has to wait."
        )
        return outcome_so_far(self.outputs, notice, is_error=False)

    def result(self) -> ToolOutcome:
        """Return the outcome of a run that has ended.

        Raises
        ------
        Exception
            The exception that the work raised, often a ``PrimeError``.
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
        """Return the outcome for a model that did not wait for the run."""
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
        # The text stays the first block, because outputs refer to images by their index.
        images = [block for block in outcome.content if block["type"] != "text"]
        return replace(outcome, content=[{"type": "text", "text": text}, *images])


class Runs:
    """The runs of one session: at most one at a time, which may outlast its call and its turn.

    Parameters
    ----------
    notice_seconds:
        Seconds after which a call gets its result although its run goes on. 0 means that a call
        waits until the run has ended.
    """

    def __init__(self, notice_seconds: float = 0.0) -> None:
        self.notice_seconds = notice_seconds
        self.on_end: Callable[[Run], Awaitable[None]] | None = None
        """Records the outcome of a run that no call waits for."""
        self._run: Run | None = None
        self._begun: Run | None = None
        """The run that was begun last."""
        self._ending: set[asyncio.Task[None]] = set()

    async def begin(
        self,
        run: Run,
        work: Callable[[Run], Awaitable[ToolOutcome]],
        *,
        may_outlast: bool,
    ) -> ToolOutcome:
        """Carry out ``work``, and return its outcome, or a notice that the run goes on.

        Parameters
        ----------
        work:
            Executes the code. It is passed ``run``, and reports to it the outputs and the moment
            at which the kernel begins with the code.
        may_outlast:
            Whether the call may end before the run: the model has the tools to wait for it.

        Raises
        ------
        PrimeError
            ``run_going_on`` (409) if another run has not ended.
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
        """Wait for the run for at most ``seconds``; return its outcome, or that it goes on.

        Raises
        ------
        PrimeError
            ``no_run`` (409) if no run goes on.
        """
        run = await self._going()
        run.progress = progress
        if run.outputs:
            progress({"outputs": run.outputs})
        return await self._until(run, seconds)

    async def interrupt(self, progress: Progress) -> ToolOutcome:
        """Interrupt the run; return its outcome, or that it goes on nevertheless.

        Raises
        ------
        PrimeError
            ``no_run`` (409) if no run goes on.
        """
        run = await self._going()
        run.progress = progress
        run.interrupt()
        return await self._until(run, INTERRUPT_SECONDS)

    def notice(self) -> str | None:
        """Return a notice for the model that a run was left running, if it has not had one.

        Calling this marks the notice as delivered.
        """
        run = self._run
        if run is None or not self.is_left or run.is_told:
            return None
        run.is_told = True
        return f"{run.standing}. {run.how_to_end} You will be told when it ends."

    def answered(self, call_id: str) -> None:
        """Note that the result of a call has been recorded."""
        if self._begun is not None and self._begun.call_id == call_id:
            self._begun.answered.set()

    def was_taken_back(self, call_id: str) -> bool:
        """Return whether the call's run was cancelled before the kernel had begun with it."""
        run = self._begun
        return run is not None and run.call_id == call_id and run.was_taken_back

    @property
    def call_id(self) -> str | None:
        """Id of the call that began the current run; ``None`` if there is no run."""
        return self._run.call_id if self._run is not None else None

    @property
    def is_going_on(self) -> bool:
        """Whether there is a current run."""
        return self._run is not None

    @property
    def is_idle(self) -> bool:
        """Whether no run goes on, and the end of every run has been recorded."""
        return self._run is None and not self._ending

    @property
    def is_left(self) -> bool:
        """Whether a run goes on although its turn was stopped."""
        return self._run is not None and self._run.is_left and not self._run.is_over

    @property
    def holds_turn(self) -> bool:
        """Whether the turn must wait for a run, or for the record of its end."""
        return bool(self._ending) or (self.is_going_on and not self.is_left)

    async def settle(self) -> None:
        """Wait for the run that the turn must wait for, and for the record of its end.

        If this is cancelled, the run is interrupted.
        """
        try:
            if self._run is not None and not self.is_left:
                await asyncio.wait({self._run.end})
            await self.ended()
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Interrupt the turn's run, and leave it running if it does not end within seconds."""
        if self._run is not None and not self.is_left:
            await self._stop(self._run)
        await self.ended()

    async def close(self) -> None:
        """Abandon the run for good, and record that."""
        run = self._run
        if run is not None and not run.is_over:
            run.is_cut_off = True
            run.task.cancel()
            await asyncio.wait({run.end})
        await self.ended()

    async def ended(self) -> None:
        """Wait until the end of every run that has ended is recorded."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def _see_to_end(self, run: Run) -> None:
        await asyncio.wait({run.task})
        task = asyncio.current_task()
        # The call that waited may have been woken first, and have reported the outcome.
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
            await self.ended()  # so that the result of this call includes its end
            raise PrimeError(
                "Nothing that you began is running.",
                code="no_run",
                hint="The results of your runs are in the answers to the calls that began them.",
                status=409,
            )
        return self._run

    async def _until(self, run: Run, seconds: float) -> ToolOutcome:
        """Wait for ``run`` for at most ``seconds``, without limit if 0, and return its outcome.

        If the run takes longer, it stays the current run, and its outputs so far are returned.
        """
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
    """Begin a run for a tool call. See `Runs.begin`.

    ``what`` names the run for the model, e.g. ``Cell [a1b2]``.
    """
    run = Run(what, context.progress, context.call_id, context.turn)
    if context.runs is None:
        return await work(run)
    # A session that an older version started is offered these tools after its next compaction.
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
