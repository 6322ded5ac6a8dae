"""The agent of one session: it takes messages, runs turns one at a time, and can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from prime_ext.agent.approvals import Approvals, Suspended
from prime_ext.agent.attachment import Attachment
from prime_ext.agent.attachment_reader import AttachmentReader
from prime_ext.agent.calls import ToolCalls
from prime_ext.agent.history import History, history_seqs
from prime_ext.agent.lifecycle import Lifecycle, closed_meanwhile
from prime_ext.agent.loose_ends import LooseEnds
from prime_ext.agent.message_queue import MessageQueue
from prime_ext.agent.repair import missing_records
from prime_ext.agent.services import AgentServices
from prime_ext.agent.session_context import SessionContext
from prime_ext.agent.session_kernel import SessionKernel
from prime_ext.agent.session_model import SessionModel
from prime_ext.agent.session_turns import SessionTurns
from prime_ext.agent.work import Work
from prime_ext.closing import cancelled, take_each
from prime_ext.errors import PrimeError
from prime_ext.session.records import AnyRecord, Revert, UserMessage
from prime_ext.session.session import Session
from prime_ext.session.stream import Activity, activity_of


class Agent:
    """The agent of one session: message queue, turns, approvals and the notebook's kernel.

    Agents are created, opened and closed by ``OpenAgents``, which moves their ``lifecycle``.
    """

    def __init__(self, session: Session, services: AgentServices, lifecycle: Lifecycle) -> None:
        self.session = session
        self._lifecycle = lifecycle
        session.redact = services.redact
        self.history = History()
        self._services = services
        self._log = services.log
        self._ends = LooseEnds(session, self.history, services.log)
        self._work = Work(lifecycle, self.publish_state)
        self.variables = SessionKernel(
            session,
            services,
            self._work,
            on_change=self.publish_state,
            on_restoring=self._restoring,
        )
        self.kernel = self.variables.kernel
        self.approvals = Approvals(session, self.history)
        self._calls = ToolCalls(
            session, services, self.variables, self.history, self.approvals, self._work
        )
        self._messages = MessageQueue(session, self.history, self._calls.runs)
        self._model = SessionModel(session, services, self.approvals, self._work)
        self._context = SessionContext(
            session, services, self._model, self.variables.keeper, self.history
        )
        self._turns = SessionTurns(
            session,
            self.history,
            services,
            self.kernel,
            self._model,
            self._context,
            self._calls,
            self.approvals,
            self._work,
        )
        self._attachments = AttachmentReader(
            session,
            self.kernel,
            lambda path: services.documents.get(path, session),
            services.root,
        )
        self._taking = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()
        self._resumes = False
        """Whether to continue with the queue once the restore under way has ended."""
        self.activity: Activity = "idle"
        """Activity that was reported last."""

    async def open(self) -> None:
        """Load the session's history, and append the records that a crash left missing."""
        log = self.session.log
        for record in await asyncio.to_thread(log.get_all, history_seqs(log)):
            self.history.observe(record)
        self.session.on_append = self.history.observe
        missing = missing_records(
            self.history, self.session.context_records(), self.session.going_run
        )
        for record in missing:
            self.session.append(record, sync=True)
        self._context.resume()
        await self.variables.open()
        self.publish_state()
        self._in_background(self._show_size())
        if self.history.waiting_turn is not None:
            await self._take_up(self.history.waiting_turn)

    async def _take_up(self, turn: str) -> None:
        """Resume a turn that was waiting for a person when the server stopped."""
        messages = await asyncio.to_thread(self.session.records_of, "user_message")
        message = next(record for record in reversed(messages) if record.turn == turn)
        assert isinstance(message, UserMessage)
        records = await asyncio.to_thread(self.session.log.read, message.seq - 1)
        self._begin(message, [record for record in records if record.turn == turn])

    async def _show_size(self) -> None:
        try:
            await self._model.measure_unasked()
        except PrimeError as failure:
            self._log.info("The context's size is not known yet: %s", failure.message)
        self.publish_state()

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- what people do ---------------------------------------------------------------------

    async def submit(
        self, text: str, attachments: list[Attachment], user: str | None
    ) -> tuple[int, bool]:
        """Read the attachments, then start a turn with the message, or queue it.

        Returns
        -------
        tuple
            ``seq`` of the ``user_message`` record and ``False`` if a turn starts, or ``seq`` of the
            ``queued`` record and ``True``.

        Raises
        ------
        PrimeError
            As ``AttachmentReader.read``; the message is then not sent.
        """
        # One at a time: a later message must not overtake one whose attachments take long to read.
        async with self._taking:
            cap = await self._model.result_cap() if attachments else 0
            await self._calls.runs.ended()  # so that the message includes them
            return self._take(text, await self._attachments.read(attachments, cap), user)

    def _take(
        self, text: str, attachments: list[dict[str, Any]], user: str | None
    ) -> tuple[int, bool]:
        """Start a turn with a message, or queue it if the agent is busy.

        Returns
        -------
        tuple
            As ``submit``.
        """
        restoring = self.variables.recovery.restoring
        is_free = self._is_free()
        if is_free and not self._messages and not restoring:
            record = self._messages.send(text, attachments, user)
            self._begin(record)
            return record.seq, False
        seq = self._messages.put(text, attachments, user)
        self._go_on()
        return seq, True

    async def send_queued(self) -> bool:
        """Send the queued messages, which a stop or an error holds back until the next one.

        Returns
        -------
        bool
            Whether a turn has begun. ``False`` if the agent is at work, if variables are being
            restored (the messages are sent after that), or if nothing is queued.
        """
        async with self._taking:
            await self._calls.runs.ended()  # so that the message includes them
            return self._go_on()

    def _go_on(self) -> bool:
        """Send the oldest queued message if the agent is free; during a restore, after that."""
        if self.variables.recovery.restoring:
            self._resumes = True
            return False
        if not (self._messages and self._is_free()):
            return False
        self._begin(self._messages.send_next())
        return True

    def _is_free(self) -> bool:
        """Return whether work can begin now, after recording what a failure has left open.

        Raises
        ------
        PrimeError
            ``session_not_found`` (404) if the agent is being closed; ``session_not_written`` (507).
        """
        if self._lifecycle.is_ending:
            raise closed_meanwhile(self.session.id)
        if self._work.is_going_on:
            return False
        self._ends.close()
        return True

    def _restoring(self) -> None:
        """Handle the beginning or end of a restore; at its end, send what was queued meanwhile."""
        self.publish_state()
        if self.variables.recovery.restoring or self._lifecycle.is_ending:
            return
        resumes, self._resumes = self._resumes, False
        if resumes:
            self._go_on()

    def unqueue(self, seq: int, user: str | None) -> None:
        """Remove a message from the queue.

        Raises
        ------
        PrimeError
            ``not_queued`` (404) if it was sent or removed already.
        """
        self._messages.take_back(seq, user)

    def interrupt(self, user: str | None = None) -> bool:
        """Stop the work under way; return ``False`` if there is none.

        Queued messages stay queued.
        """
        return self._work.stop(user)

    def compact(self, instructions: str | None, user: str | None) -> str:
        """Compact now, or at the next step of the running turn.

        Returns
        -------
        str
            The ``compaction_id`` of the compaction's records.

        Raises
        ------
        PrimeError
            ``compaction_pending`` (409) if a compaction is requested or running already.
        """
        is_free = self._is_free()
        compaction_id = self._context.ask_compaction(instructions, user)
        if is_free:
            self._begin(None)
        return compaction_id

    def refuse_at_work(self) -> None:
        """Refuse an operation while the agent works, or while code that it began still runs.

        Raises
        ------
        PrimeError
            ``turn_running`` (409).
        """
        if self._work.is_going_on:
            raise PrimeError(
                "The agent is at work.",
                code="turn_running",
                hint="Wait until it is done, or stop it first.",
                status=409,
            )
        if self._calls.runs.is_going_on:
            raise PrimeError(
                "Code that the agent began still runs in the kernel, and will show its outputs.",
                code="turn_running",
                hint="Wait until it has ended, or end it from the Kernel menu.",
                status=409,
            )

    async def revert(self, turn: str, user: str | None) -> Revert:
        """Revert the agent's changes in a turn that has ended. See ``revert_turn``.

        Raises
        ------
        PrimeError
            ``turn_running`` (409), ``open_elsewhere`` (409), and what ``revert_turn`` raises.
        """
        self.refuse_at_work()
        return await self._turns.revert(turn, user)

    @property
    def is_idle(self) -> bool:
        """Whether the agent may be closed.

        That is: no work goes on or is pending, nobody watches the session, and its kernel does not
        depend on it.
        """
        return (
            not self._work.is_going_on
            and not self._taking.locked()
            and not self._messages
            and not self.history.pending
            and self._calls.runs.is_idle
            and not self.session.watched
            and not self.variables.guards
        )

    async def close(self, *, save_for: float | None = None) -> None:
        """Stop everything, for good.

        Parameters
        ----------
        save_for:
            Given if the server stops: the kernel's variables are first saved, within so many
            seconds. A turn that waits for a person is then resumed when the server is back.
        """
        await take_each(
            self._log,
            self._abandon_stopped_run,
            lambda: self._stop_for_good(suspend=save_for is not None),
            self._ends.stop,
            self._calls.runs.close,
            lambda: self.variables.close(save_for),
            self._context.close,
            lambda: cancelled(self._background),
        )

    async def _abandon_stopped_run(self) -> None:
        """Let a turn end that a person has stopped already and that waits for its run to end.

        Cancelling it once more would record that the code goes on in the kernel.
        """
        if self._work.stopped:
            await self._calls.runs.close()

    async def _stop_for_good(self, *, suspend: bool) -> None:
        if not suspend or not self.approvals.suspend():
            self._work.stop(None)
        await self._work.ended()

    # --- work ---------------------------------------------------------------------------------

    def _begin(self, message: UserMessage | None, so_far: Sequence[AnyRecord] = ()) -> None:
        """Begin to work, with ``message``; if it is ``None``, with a compaction."""
        self._work.begin(
            self._work_on(message, so_far),
            turn=message.turn if message else None,
            phase="approval" if so_far else "model" if message else "compaction",
        )

    async def _work_on(self, message: UserMessage | None, so_far: Sequence[AnyRecord]) -> None:
        try:
            await self._work_off(message, so_far)
            self._ends.close()
        except Suspended:
            self._log.info("Session %s goes on when the server is back", self.session.id)
        except PrimeError as failure:  # the failure itself could not be recorded
            self._ends.tell(failure)

    async def _work_off(self, message: UserMessage | None, so_far: Sequence[AnyRecord]) -> None:
        """Process ``message``, then requested compactions and the queue, one after the other.

        If ``message`` is ``None``, begin with a compaction.
        """
        try:
            go_on = all_well = True
            while go_on:
                if message is None:
                    status = await self._stoppable(self._turns.compact())
                else:
                    status = await self._stoppable(self._turns.carry_out(message, so_far))
                all_well = all_well and status == "ok"
                message, so_far = None, ()
                if self._context.asked is not None:
                    # A compaction requested during a turn that failed may resolve the failure.
                    go_on = status != "interrupted"
                else:
                    go_on = all_well and not self._work.stopped and bool(self._messages)
                    message = self._messages.send_next() if go_on else None
        finally:
            self._context.drop_compaction("The work was stopped before its turn came.")

    async def _stoppable(self, piece: Coroutine[Any, Any, str]) -> str:
        """Run a piece of work so that it can be stopped, and return its status."""
        status = await self._work.run(piece)
        if status is None and self.history.open_turn is not None:
            # The turn was cancelled before its first step, so it could not end itself.
            self._turns.end("interrupted", self.history.open_turn)
        return status or "interrupted"

    # --- what is shown ------------------------------------------------------------------------

    def publish_state(self) -> None:
        """Publish the state to all subscribers, and report a change of activity."""
        state = self.state()
        self.session.set_state(state)
        activity = activity_of(state)
        # A session that waits for a person when the server stops counts as waiting after that.
        if activity != self.activity and not (self._lifecycle.is_ending and self.history.pending):
            self.activity = activity
            self._services.on_activity(self.session, activity)

    def state(self) -> dict[str, Any]:
        """Return the state that the panel's header and meter show."""
        meter, limits = self._model.meter, self._model.limits
        return {
            "running": self._work.phase != "idle",
            "phase": self._work.phase,
            "turn": self._work.turn,
            "context_tokens": meter.known_tokens if meter else None,
            "threshold": limits.threshold if limits else 0,
            "kernel": {"id": self.kernel.kernel_id, "state": self.kernel.state},
            "snapshots": {
                "on": self.variables.keeper.off is None,
                "restore": self.session.restore,
                "restoring": self.variables.recovery.restoring,
            },
        }

    def describe(self) -> dict[str, Any]:
        """Return the agent's part of the answer to ``GET sessions/{id}``."""
        return {"state": self.state(), **self.history.describe()}
