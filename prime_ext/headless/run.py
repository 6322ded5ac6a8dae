"""One task on a notebook, carried out by the same agent that serves the panel."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_ext.errors import PrimeError
from prime_ext.headless.elsewhere import refuse_if_open
from prime_ext.headless.outcome import ExitStatus, Outcome
from prime_ext.headless.report import Report, text_of
from prime_ext.headless.server import HeadlessServer
from prime_ext.headless.terminal import Terminal
from prime_ext.session.records import (
    AnyRecord,
    ApprovalRequest,
    AssistantMessage,
    CompactionEnd,
    Error,
    RunEnd,
    ToolResult,
    TurnEnd,
)

if TYPE_CHECKING:
    from prime_ext.agent.service import AgentService
    from prime_ext.session.session import Session


_OF_ENDED_CODE = "The kernel is shut down now, and the code with it."
_OF_KEPT_CODE = "The kernel is kept: interrupt it from its console, or end its process."

STOP_NOTICE_SECONDS = 1.5
"""Delay before a notice that the run has not stopped yet: code may ignore an interrupt."""

_STOPPING = "Stopping … (Ctrl+C again gives up at once)"
_NOT_STOPPED = "  (It has not stopped; it is given up in a few seconds, or at once with Ctrl+C.)"


@dataclass(frozen=True)
class Task:
    """What to do, and how much of it without asking."""

    notebook: Path
    text: str
    output: Path | None = None
    """Path for a copy of the notebook to work on; ``None``: work on the notebook itself."""
    model: str | None = None
    mode: str | None = None
    yes: bool = False
    """Approve every tool call."""
    keep_kernel: bool = False
    traits: Sequence[str] = ()


class Run:
    """Carries out one `Task` and fills in ``outcome``."""

    def __init__(self, task: Task, report: Report, terminal: Terminal | None) -> None:
        self.outcome = Outcome(notebook=str(task.output or task.notebook))
        self._task = task
        self._report = report
        self._terminal = terminal
        self._agents: AgentService
        self._session: Session | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._declined = False
        self._stop_reason = ""
        # The user name that the panel records too; outside of JupyterHub there is none.
        self._user = os.environ.get("JUPYTERHUB_USER")
        self._stops = 0
        self._given_up = False
        """Whether to kill the kernel: Ctrl+C was pressed twice, or its code cannot be stopped."""

    async def carry_out(self) -> None:
        """Carry out the task, from the start of the server to its end. Does not raise."""
        try:
            if not self._task.text.strip():
                raise PrimeError(
                    "The task is empty.", code="empty_message", hint="Say what is to be done."
                )
            if not self._task.notebook.exists():
                raise PrimeError(
                    f"There is no notebook {str(self._task.notebook)!r}.",
                    code="notebook_not_found",
                    hint="Check the path.",
                )
            with self._stopped_by_signals(), self._output():
                await self._serve()
        except asyncio.CancelledError:
            self.outcome.status = ExitStatus.INTERRUPTED
        except PrimeError as failure:
            self._failed(failure.code, failure.message, failure.hint)
        except Exception as failure:  # Scripts get their JSON even so.
            logging.getLogger("prime_ext").exception("The run failed")
            what = f"The run failed unexpectedly: {type(failure).__name__}: {failure}"
            self._failed("internal_error", what, "")

    async def _serve(self) -> None:
        notebook = self._task.output or self._task.notebook
        server = HeadlessServer.begin(notebook, self._task.traits)
        self._agents = server.agents
        if self._task.keep_kernel:
            server.leave_kernels()
        try:
            path = server.path_of(notebook)
            with server.locks.held(notebook):
                await refuse_if_open(notebook, path, server.store, server.log)
                await self._converse(path, server.chooses_offline)
        finally:
            if self._task.keep_kernel:
                for file in server.connection_files():
                    self._report.line(f"The kernel goes on: jupyter console --existing {file}")
            try:
                await server.end(keep_kernels=self._task.keep_kernel, at_once=self._given_up)
            except asyncio.CancelledError:  # Ctrl+C while the variables are saved
                await server.end(keep_kernels=self._task.keep_kernel, at_once=True)
                raise

    async def _converse(self, path: str, offline: bool) -> None:
        session = self._session = await self._start_session(path, offline)
        self.outcome.session, self.outcome.model = session.id, session.model
        try:
            await self._follow(session)
        finally:
            for asking in self._asking:
                asking.cancel()

    async def _follow(self, session: Session) -> None:
        """Send the task, and report records and progress until its turn has ended."""
        after = session.log.last_seq
        await self._agents.submit(session, self._task.text, None, self._user)
        while True:
            async with session.subscribe(after) as frames:
                async for frame in frames:
                    if frame["type"] != "record":
                        self._transient(frame)
                        continue
                    after = frame["record"]["seq"]
                    record = session.log.get(after)
                    if record is not None:
                        self._record(record)
                    if isinstance(record, TurnEnd):
                        return
            if frames.ended != "slow":  # else: subscribe again after the last record
                raise PrimeError("The conversation was closed.", code="session_closed")

    async def _start_session(self, path: str, offline: bool) -> Session:
        status = self._agents.status()
        # The panel falls back to the offline agent; a script would mistake its reply for a model's.
        if status["offline"] and not offline and self._task.model != "offline":
            raise PrimeError(
                "No model is connected.",
                code="no_credentials",
                hint="Set PRIME_API_KEY, enter a key in the panel, or name a server with "
                "--ModelConfig.base_url=URL. --model offline runs the offline agent.",
            )
        if self._task.yes and "auto" not in status["permission_modes"]:
            raise PrimeError(
                "--yes is not available here: the mode auto is switched off for this server.",
                code="permission_mode_forbidden",
                hint=f"Choose a --mode: {', '.join(status['permission_modes'])}.",
            )
        return await self._agents.start_session(
            path,
            model=self._task.model,
            permission_mode="auto" if self._task.yes else self._task.mode,
            user=self._user,
        )

    # --- what happens ---------------------------------------------------------------------

    def _record(self, record: AnyRecord) -> None:
        if isinstance(record, AssistantMessage):
            self._message(record)
        elif isinstance(record, ToolResult):
            self._result(record)
        elif isinstance(record, RunEnd):
            self._run_end(record)
        elif isinstance(record, ApprovalRequest):
            asking = asyncio.ensure_future(self._decide(record))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        elif isinstance(record, Error):
            hint = record.hint
            if record.code == "code_still_runs":  # The original hint names a menu.
                self._given_up = True  # a busy kernel can neither save nor shut down
                hint = _OF_KEPT_CODE if self._task.keep_kernel else _OF_ENDED_CODE
            self._failed(record.code, record.message, hint)
        elif isinstance(record, CompactionEnd) and record.outcome == "ok":
            self._report.line("  (the conversation was compacted)")
        elif isinstance(record, TurnEnd):
            self.outcome.requests = record.requests
            self.outcome.usage = record.usage
            self.outcome.cost_usd = record.cost_usd
            self.outcome.duration_ms = record.duration_ms
            self.outcome.end(record.status, self._stop_reason, declined=self._declined)

    def _message(self, record: AssistantMessage) -> None:
        text = "\n\n".join(b["text"] for b in record.content if b["type"] == "text")
        self._stop_reason = record.stop_reason or ""
        if text.strip():
            self.outcome.reply = text
        self._calls.update({b["id"]: b for b in record.content if b["type"] == "tool_use"})
        self._report.message(text)

    def _result(self, record: ToolResult) -> None:
        summary = self._summary(record.tool_use_id, record.name)
        self.outcome.tools.append(
            {
                "name": record.name,
                "summary": summary,
                "is_error": record.is_error,
                "duration_ms": record.duration_ms,
            }
        )
        self._report.tool(summary, record)

    def _run_end(self, record: RunEnd) -> None:
        """Report the end of code that continued after its tool call had been answered."""
        call = self._calls.get(record.tool_use_id)
        if call is None:
            return
        summary = self._summary(call["id"], call["name"])
        self.outcome.tools.append(
            {
                "name": call["name"],
                "summary": summary,
                "is_error": record.is_error,
                "duration_ms": record.duration_ms,
                "text": text_of(record.content),
            }
        )
        self._report.run_end(summary, record)

    def _failed(self, code: str, message: str, hint: str) -> None:
        hint = hint.replace("restart the server", "run it again")  # This run is the server.
        self.outcome.fail(PrimeError(message, code=code, hint=hint))
        self._report.failure(message, hint)

    def _transient(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "delta" and frame["block"] == "text":
            self._report.delta(frame["text"])
        elif frame["type"] == "delta_reset":
            self._report.broke_off()
        elif frame["type"] == "progress" and frame["what"] == "tool" and "started" in frame:
            call = self._calls.get(frame["call_id"])
            if call is not None:
                self._report.started(self._summary(call["id"], call["name"]))
        elif frame["type"] == "progress" and frame.get("message"):
            self._report.line(f"  ({frame['message']})")

    def _summary(self, call_id: str, name: str) -> str:
        call = self._calls.get(call_id)
        return self._agents.summary_of(name, call["input"]) if call else name

    # --- who decides ----------------------------------------------------------------------

    async def _decide(self, request: ApprovalRequest) -> None:
        decision, scope = "deny", "once"
        if request.what == "tool" and self._task.yes:
            decision = "allow"
        elif request.what == "limit" and (self._task.yes or self._terminal is None):
            # The limit exists for runs that nobody watches, so it is not raised automatically.
            reached = request.summary.removesuffix(" Go on?")
            self._report.line(f"  ({reached} It ends here; the limits can be raised.)")
        elif self._terminal is None:
            await self._stop_for_want_of(request)
            return
        else:
            choices = {"y": "yes", "n": "no"}
            if request.what == "tool":
                choices = {"y": "yes", "a": f"always allow {request.tool}", "n": "no"}
            self._report.question(request.summary, request.detail)
            chosen = await self._terminal.choose(choices)
            decision = "deny" if chosen == "n" else "allow"
            scope = "session" if chosen == "a" else "once"
            self._declined = self._declined or (decision == "deny" and request.what == "tool")
        assert self._session is not None
        with contextlib.suppress(PrimeError):  # The turn may have ended meanwhile.
            await self._agents.decide(self._session, request.call_id, decision, scope, self._user)

    async def _stop_for_want_of(self, request: ApprovalRequest) -> None:
        """End the run because an approval is needed and nobody can be asked."""
        if request.what == "consent":
            hint = (
                "Answer once on a terminal or in the panel; or, if that is settled, set "
                "--ModelConfig.consent=never. --yes is no consent."
            )
        else:
            hint = "Run it on a terminal, with --yes, or with a --mode that allows it."
        what = request.summary.rstrip(".")
        self._failed(
            "approval_needed",
            f"This has to be approved, and there is no terminal to ask on: {what}.",
            hint,
        )
        assert self._session is not None
        await self._agents.interrupt(self._session, self._user)

    # --- stopping -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """Within the block, let Ctrl+C stop the turn, and a second Ctrl+C end the run at once."""
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        assert me is not None

        def stop() -> None:
            self._stops += 1
            if self._stops == 1 and self._session is not None:
                self._asking.add(asyncio.ensure_future(self._stop(self._session)))
            else:
                self._given_up = self._session is not None
                me.cancel()
            if self._stops == 1:
                self._report.line(_STOPPING)

        numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if os.name == "posix" else [])]
        before = {
            number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
            for number in numbers
            if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup, in background jobs
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _stop(self, session: Session) -> None:
        await self._agents.interrupt(session, self._user)
        await asyncio.sleep(STOP_NOTICE_SECONDS)
        self._report.line(_NOT_STOPPED)

    @contextlib.contextmanager
    def _output(self) -> Iterator[None]:
        """Create the copy to work on, if any; remove it if the session could not be started."""
        output, notebook = self._task.output, self._task.notebook
        if output is None:
            yield
            return
        if output.exists():
            raise PrimeError(
                f"{output} exists already.",
                code="output_exists",
                hint="Remove it first, or give another --output.",
            )
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(notebook, output)
        except OSError as error:
            raise PrimeError(
                f"{output} could not be written: {error.strerror}.", code="output_not_written"
            ) from None
        try:
            yield
        finally:
            if self._session is None:
                output.unlink()
