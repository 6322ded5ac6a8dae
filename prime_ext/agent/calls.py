"""The tool calls of one reply: they are validated, approved, run, capped and recorded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from prime_ext.agent.approvals import Approvals
from prime_ext.agent.history import History
from prime_ext.agent.image_scaling import with_scaled_images
from prime_ext.agent.outputs import for_panel, for_record
from prime_ext.agent.permissions import DECLINED, PLAN_REFUSAL, decide, in_force
from prime_ext.agent.tools.packages import call_handler
from prime_ext.agent.tools.runs import INTERRUPT_RUN, WAIT_FOR_RUN, Run, Runs
from prime_ext.agent.tools.tool import ApprovalClass, Question, Tool, ToolContext, ToolOutcome
from prime_ext.closing import cancelled
from prime_ext.completed import completed
from prime_ext.context.cap import cap_text
from prime_ext.context.projection import open_calls
from prime_ext.context.tokens import count_text
from prime_ext.errors import PrimeError, sentences
from prime_ext.session.records import ApprovalRequest, Block, RunEnd, ToolResult

if TYPE_CHECKING:
    from prime_ext.agent.services import AgentServices
    from prime_ext.agent.session_kernel import SessionKernel
    from prime_ext.agent.work import Work
    from prime_ext.session.session import Session

STOPPED = "Stopped by the user before it ended. What it had done by then stays done."
CLOSED = "The session was closed before it ended. What it had done by then stays done."
TAKEN_BACK = "Stopped by the user before the kernel had begun with it: nothing of it was run."
NOT_RUN = "Not run: the turn was stopped first."
RUN_FAILED = "Not run: a run before it in the same reply did not succeed."


class ToolCalls:
    """Run the tool calls in the replies of one session."""

    def __init__(
        self,
        session: Session,
        services: AgentServices,
        variables: SessionKernel,
        history: History,
        approvals: Approvals,
        work: Work,
    ) -> None:
        self._session = session
        self._services = services
        self._registry = services.tools
        self._variables = variables
        self._kernel = variables.kernel
        self._history = history
        self._approvals = approvals
        self._work = work
        self._log = services.log
        self.runs = Runs(services.model_config.run_notice_seconds)
        self.runs.on_end = self._record_end
        self._cap_tokens = 0
        """Size limit of a result, as passed to the latest ``run``."""
        self._ran_code = False
        """Whether a call of the latest ``run`` has run code or handled a run."""

    def refuse(self, call: Block, turn: str, why: str) -> None:
        """Record an error as the result of a call that is not run."""
        self._session.append(
            ToolResult(
                tool_use_id=call["id"],
                name=call["name"],
                content=[{"type": "text", "text": why}],
                is_error=True,
                synthetic=True,
                turn=turn,
            )
        )

    def close_open(self, turn: str) -> None:
        """Record an error for every call of ``turn`` that has no result yet."""
        records = [r for r in self._session.context_records() if r.turn == turn]
        for call in open_calls(records):
            self.refuse(call, turn, NOT_RUN)

    async def run(self, calls: Sequence[Block], turn: str, cap_tokens: int) -> None:
        """Carry out the calls of one reply, with one ``tool_result`` record for each.

        Consecutive calls of class ``read`` run concurrently; all others run one after the other,
        in the order of the calls. After a ``run`` call has failed, later ``run`` calls are
        refused. If the task is cancelled, the calls that have begun get a result that says so; the
        others are left to ``close_open``.

        Parameters
        ----------
        cap_tokens:
            Size limit of one result, in tokens of the public tokenizer.
        """
        self._cap_tokens = cap_tokens
        self._ran_code = False
        run_failed = False
        for group in self._groups(calls):
            runs = self._approval(group[0]["name"]) == "run"
            if runs and run_failed:
                self.refuse(group[0], turn, RUN_FAILED)
                continue
            tasks = [asyncio.ensure_future(self._answer(call, turn)) for call in group]
            try:
                for task in asyncio.as_completed(tasks):
                    failed = await task
                    run_failed = run_failed or (runs and failed)
            finally:
                await cancelled(tasks)
        if self._ran_code:
            self._variables.after_run()

    async def settle(self) -> None:
        """Wait for a run that its turn must wait for. If this is cancelled, it is interrupted."""
        if self.runs.holds_turn:
            self._work.enter("tool")
            await self.runs.settle()
            self._variables.after_run()

    def _groups(self, calls: Sequence[Block]) -> list[list[Block]]:
        """Group consecutive calls of class ``read``; every other call is a group of its own."""
        groups: list[list[Block]] = []
        looking = False
        for call in calls:
            looks = self._approval(call["name"]) == "read"
            if looks and looking:
                groups[-1].append(call)
            else:
                groups.append([call])
            looking = looks
        return groups

    def _approval(self, name: str) -> ApprovalClass:
        try:
            return self._tool(name).approval
        except PrimeError:
            return "read"  # An unknown tool only gets an error result.

    def _tool(self, name: str) -> Tool:
        # The model knows the tools that were frozen at the start or at the last compaction.
        return self._registry.get(name, [tool["name"] for tool in self._session.tools])

    @property
    def _mode(self) -> str:
        """Permission mode in force."""
        config = self._services.permission_config
        return in_force(self._session.permission_mode, config.allowed_modes, config.default_mode)

    async def _answer(self, call: Block, turn: str) -> bool:
        """Carry out a call and record its result; return whether it failed."""
        call_id = str(call["id"])
        # The run that the call waits for or interrupts, as opposed to one that it begins.
        run = self.runs.call_id if call["name"] in (WAIT_FOR_RUN, INTERRUPT_RUN) else None
        generation = self._kernel.generation
        progress = _Progress(self._session, turn, call_id)
        try:
            outcome = await self._outcome(call, turn, progress)
            outlasts = self.runs.call_id == call_id
        except asyncio.CancelledError:
            await self._record(
                call,
                turn,
                ToolOutcome(
                    [{"type": "text", "text": self._cut_off(progress, run)}],
                    outputs=progress.outputs,
                    is_error=True,
                ),
                progress.duration_ms,
                call_id if self.runs.call_id == call_id else run,
                synthetic=True,
            )
            raise
        except PrimeError as failure:
            outlasts = False
            outcome = ToolOutcome.text(sentences(failure.message, failure.hint), is_error=True)
        except (Exception, SystemExit) as failure:  # a broken tool must not end the turn
            outlasts = False
            package = self._registry.package(call["name"]) or "the extension"
            self._log.exception("Tool %s of %s failed", call["name"], package)
            outcome = ToolOutcome.text(
                f"The tool failed unexpectedly: {type(failure).__name__}: {failure}. This is a "
                f"fault of {package}, not of the call; the server's log has details.",
                is_error=True,
            )
        event = progress.event
        try:
            if self._kernel.generation != generation:
                loss = self._kernel.loss or "crash"
                event = await self._variables.recovery.after_death(turn, loss) or event
        finally:
            # The call was carried out, so its result is recorded even if the turn was stopped.
            for told in filter(None, [event, self.runs.notice()]):
                content = [*outcome.content, {"type": "text", "text": told}]
                outcome = replace(outcome, content=content)
            run = call_id if outlasts else run
            await self._record(call, turn, outcome, progress.duration_ms, run)
        return outcome.is_error

    def _cut_off(self, progress: _Progress, run: str | None) -> str:
        if not progress.begun:
            return NOT_RUN
        if self.runs.was_taken_back(run or progress.call_id):
            return TAKEN_BACK
        why = STOPPED if self._work.stopped_by_person else CLOSED
        return " ".join(filter(None, [why, self.runs.notice()]))

    async def _outcome(self, call: Block, turn: str, progress: _Progress) -> ToolOutcome:
        tool = self._tool(call["name"])
        arguments = self._registry.check(tool, call["input"])
        context = ToolContext(
            call_id=str(call["id"]),
            session=self._session,
            kernel=self._kernel,
            document=self._services.documents.get(self._session.notebook, self._session, turn=turn),
            root=self._services.root,
            progress=progress if self._registry.package(tool.name) is None else progress.plain,
            turn=turn,
            runs=self.runs,
        )
        decision = decide(self._mode, tool.approval, tool.name, self._history.granted)
        if decision == "allow" and self._approvals.asked(context.call_id) is not None:
            # The person was asked before a server restart; that answer counts.
            decision = "ask"
        if decision == "refuse":
            return ToolOutcome.text(PLAN_REFUSAL, is_error=True)
        if decision == "ask" and not await self._approved(tool, context, arguments, turn):
            return ToolOutcome.text(DECLINED, is_error=True)
        # The mode may have been changed while the person was asked.
        if decide(self._mode, tool.approval, tool.name, self._history.granted) == "refuse":
            return ToolOutcome.text(PLAN_REFUSAL, is_error=True)
        self._work.enter("tool")
        progress.event = await self._variables.recovery.before_call(turn)
        progress.begin()
        if tool.approval == "run" or tool.name in (WAIT_FOR_RUN, INTERRUPT_RUN):
            self._ran_code = True
        if self._registry.package(tool.name) is not None:
            return await call_handler(tool, context, arguments)
        return await tool.handler(context, arguments)

    async def _approved(
        self, tool: Tool, context: ToolContext, arguments: dict[str, Any], turn: str
    ) -> bool:
        before = self._approvals.asked(context.call_id)
        try:
            question = await _question(tool, context, arguments)
        except PrimeError:
            if before is None:
                raise  # Nobody is asked about what can only fail.
            question = Question(before.summary)
        self._work.enter("approval")
        answer = await self._approvals.ask(
            ApprovalRequest(
                call_id=context.call_id,
                what="tool",
                tool=tool.name,
                input=arguments,
                summary=question.summary,
                detail=question.detail,
                turn=turn,
            )
        )
        if answer.decision != "allow":
            return False
        detail = self._session.clean(question.detail)
        if before is not None and not _same_detail(before.detail, detail):
            raise PrimeError(
                "This was approved before the server was restarted, and what it is about has "
                "changed since. Nothing was done.",
                code="approval_outdated",
                hint="Look at it again, and make the call again if it still fits.",
                status=409,
            )
        return True

    async def _record(
        self,
        call: Block,
        turn: str,
        outcome: ToolOutcome,
        duration_ms: int,
        run: str | None,
        *,
        synthetic: bool = False,
    ) -> None:
        """Record a result, even if the turn is stopped meanwhile."""
        await completed(
            self._record_whole(call, turn, outcome, duration_ms, run, synthetic=synthetic)
        )

    async def _record_whole(
        self,
        call: Block,
        turn: str,
        outcome: ToolOutcome,
        duration_ms: int,
        run: str | None,
        *,
        synthetic: bool,
    ) -> None:
        outcome = await asyncio.to_thread(with_scaled_images, outcome)
        name = f"{_file_name(call['id'])}.txt"
        content, output_file = await asyncio.to_thread(self._capped, name, outcome)
        ends = list(self._history.run_ends.values())
        try:
            self._session.append(
                ToolResult(
                    tool_use_id=call["id"],
                    name=call["name"],
                    content=[*content, *(block for end in ends for block in end.content)],
                    is_error=outcome.is_error,
                    outputs=for_record(outcome.outputs),
                    output_file=output_file,
                    left_out=outcome.left_out,
                    duration_ms=duration_ms,
                    synthetic=synthetic,
                    run=run,
                    # A run that has ended by now has its end recorded after this result.
                    goes_on=run is not None and run in (call["id"], self.runs.call_id),
                    tells=[end.seq for end in ends],
                    turn=turn,
                )
            )
        finally:
            self.runs.answered(str(call["id"]))

    async def _record_end(self, run: Run) -> None:
        """Record the outcome of a run that no call waits for."""
        try:
            outcome = run.told()
        except Exception as failure:  # the end is recorded even if a tool is broken
            self._log.exception("A run has failed")
            told = f"{run.what}, which was still running, has failed unexpectedly: {failure!r}"
            outcome = ToolOutcome.text(told, is_error=True)
        name = f"{_file_name(run.call_id)}-end.txt"
        try:
            outcome = await asyncio.to_thread(with_scaled_images, outcome)
            content, output_file = await asyncio.to_thread(self._capped, name, outcome)
            self._session.append(
                RunEnd(
                    tool_use_id=run.call_id,
                    content=content,
                    is_error=outcome.is_error,
                    outputs=for_record(outcome.outputs),
                    output_file=output_file,
                    left_out=outcome.left_out,
                    duration_ms=round(run.seconds * 1000),
                    synthetic=run.is_cut_off,
                    turn=run.turn,
                )
            )
        except (PrimeError, OSError) as failure:
            self._log.error("The end of a run could not be recorded: %s", failure)

    def _capped(self, name: str, outcome: ToolOutcome) -> tuple[list[Block], str | None]:
        """Cut long text to the cap, and keep the full text in the file ``name``.

        The marker in the cut text names that file.

        Returns
        -------
        tuple
            The content blocks, and the name of the file; ``None`` if no file was written.
        """
        content = outcome.content
        where = str(self._session.outputs.folder / name)
        if outcome.left_out:
            where += f", but for {outcome.left_out:,} characters that were too many to keep"
        full = "\n".join(block["text"] for block in content if block["type"] == "text")
        text, cut = cap_text(full, self._cap_tokens, count_text, where=where)
        if not cut:
            return content, None
        redact = self._session.redact
        file: str | None = name
        try:
            self._session.outputs.keep_text(name, redact(full) if redact else full)
        except OSError as failure:  # a part of the result is better than none
            self._log.error("The full text of a result could not be kept: %s", failure)
            where, file = f"no file: it could not be written ({failure.strerror})", None
            text, _ = cap_text(full, self._cap_tokens, count_text, where=where)
        rest = [block for block in content if block["type"] != "text"]
        return [{"type": "text", "text": text}, *rest], file


class _Progress:
    """Publish the progress of a running call, and keep its latest outputs.

    The outputs become the result if the call is cancelled.
    """

    def __init__(self, session: Session, turn: str, call_id: str) -> None:
        self._session = session
        self._turn = turn
        self.call_id = call_id
        self.outputs: list[dict[str, Any]] = []
        self._begun_at: float | None = None
        self.event: str | None = None
        """Text for the model about what happened to the kernel before the call."""

    @property
    def begun(self) -> bool:
        return self._begun_at is not None

    @property
    def duration_ms(self) -> int:
        """Time since the call was begun, in ms, without the wait for an approval."""
        return 0 if self._begun_at is None else round((time.monotonic() - self._begun_at) * 1000)

    def begin(self) -> None:
        self._begun_at = time.monotonic()
        self({"started": datetime.now(timezone.utc).isoformat(timespec="milliseconds")})

    def plain(self, body: dict[str, Any]) -> None:
        """Do the same as ``self(body)``, for a ``body`` with values that may not be JSON."""
        self(json.loads(json.dumps(body, default=str)))

    def __call__(self, body: dict[str, Any]) -> None:
        if "outputs" in body:
            self.outputs = body["outputs"]
            body = {**body, "outputs": for_panel(self.outputs)}
        frame = {"type": "progress", "what": "tool", "turn": self._turn, "call_id": self.call_id}
        self._session.publish({**body, **frame})


async def _question(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> Question:
    shown = await tool.preview(context, arguments) if tool.preview else tool.detail(arguments)
    return shown if isinstance(shown, Question) else Question(tool.summary(arguments), shown)


def _same_detail(one: str | None, other: str | None) -> bool:
    """Return whether both details show the person the same.

    The language of a code fence is ignored: it depends on whether the kernel is known yet.
    """
    return _unfenced(one) == _unfenced(other)


def _unfenced(detail: str | None) -> str:
    first, _, rest = (detail or "").partition("\n")
    return rest if first.startswith("```") else detail or ""


def _file_name(call_id: object) -> str:
    """Return a safe file name for a call's id, which comes from the model's server."""
    safe = "".join(c for c in str(call_id) if c.isascii() and (c.isalnum() or c in "-_"))
    return safe[:80] or "call"
