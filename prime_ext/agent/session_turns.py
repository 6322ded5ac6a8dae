"""The turns of one session: what a turn waits for, and how it ends if it cannot begin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prime_ext.agent.revert import revert_turn
from prime_ext.agent.turn import Turn
from prime_ext.errors import PrimeError
from prime_ext.models.model import ModelError
from prime_ext.session.records import AnyRecord, Error, Revert, UserMessage

if TYPE_CHECKING:
    from prime_ext.agent.approvals import Approvals
    from prime_ext.agent.calls import ToolCalls
    from prime_ext.agent.history import History
    from prime_ext.agent.services import AgentServices
    from prime_ext.agent.session_context import SessionContext
    from prime_ext.agent.session_model import SessionModel
    from prime_ext.agent.work import Work
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.notebook.notebook_locks import Holder
    from prime_ext.session.session import Session


class SessionTurns:
    """Carry out turns, compactions and reverts, each alone in the notebook and its kernel."""

    def __init__(
        self,
        session: Session,
        history: History,
        services: AgentServices,
        kernel: NotebookKernel,
        model: SessionModel,
        context: SessionContext,
        calls: ToolCalls,
        approvals: Approvals,
        work: Work,
    ) -> None:
        self._session = session
        self._history = history
        self._services = services
        self._kernel = kernel
        self._model = model
        self._context = context
        self._calls = calls
        self._approvals = approvals
        self._work = work
        self._log = services.log

    async def carry_out(self, message: UserMessage, so_far: Sequence[AnyRecord]) -> str:
        """Run one turn from its message to its ``turn_end`` record, and return its status.

        Parameters
        ----------
        so_far:
            Records of a turn that began before a server restart and waits for a person. Empty for
            a new turn.
        """
        turn = message.turn or ""
        self._work.enter_turn(turn, "approval" if so_far else "model")
        try:
            if so_far:
                # Wait for the answers first: that needs neither the model nor the kernel.
                await self._approvals.all_answered()
            async with (
                self._services.turns.one(self._kernel, self._wait_for_kernel),
                self._services.locks.awaited(self._file, self._wait_for_notebook),
            ):
                # Another program may have written the file, for example while this turn waited.
                self._services.documents.remind(self._session.notebook)
                model = self._model.get(message.text)
                await self._model.ask_consent(model, turn, message.user)
                await self._context.use(model)
                run = Turn(
                    turn,
                    self._session,
                    self._services,
                    self._context,
                    self._calls,
                    self._approvals,
                    self._work,
                    self._history.spent,
                )
                return (await (run.go_on(so_far) if so_far else run.run())).status
        except asyncio.CancelledError:
            return self.end("interrupted", turn)
        except PrimeError as failure:
            self._error(failure, turn)
        except Exception as failure:  # a bug must not leave the turn open
            self._log.exception("Turn of session %s could not start", self._session.id)
            self._error(
                ModelError(
                    f"The turn could not start: {type(failure).__name__}: {failure}",
                    code="internal_error",
                    hint="The server's log has details.",
                ),
                turn,
            )
        return self.end("error", turn)

    def end(self, status: str, turn: str) -> str:
        """End a turn that could not begin, and return ``status``."""
        if status == "interrupted":
            self._session.append(self._work.interruption(turn))
        self._calls.close_open(turn)
        self._session.append(self._history.spent.turn_end(status, turn), sync=True)
        return status

    async def compact(self) -> str:
        """Carry out the compaction that a person asked for, and return a status as of a turn."""
        try:
            async with self._services.turns.one(self._kernel, lambda: None):
                model = self._model.get()
                asked = self._context.asked
                await self._model.ask_consent(model, None, asked.user if asked else None)
                await self._context.use(model)
                await self._context.compact("manual", None, None)
        except asyncio.CancelledError:
            return "interrupted"
        except PrimeError as failure:
            self._error(failure, None)
            self._context.drop_compaction(failure.message)
            return "error"
        return "ok"

    async def revert(self, turn: str, user: str | None) -> Revert:
        """Revert the agent's changes in a turn that has ended. See ``revert_turn``.

        Raises
        ------
        PrimeError
            ``open_elsewhere`` (409), and what ``revert_turn`` raises.
        """
        services, notebook = self._services, self._session.notebook
        # A message that is sent meanwhile waits, as it would for another turn.
        async with services.turns.one(self._kernel, lambda: None):
            with services.locks.held(self._file):
                services.documents.remind(notebook)
                document = services.documents.get(notebook, self._session, reverts=turn)
                return await revert_turn(self._session, document, services.root, turn, user)

    # --- waiting ------------------------------------------------------------------------------

    @property
    def _file(self) -> Path:
        return self._services.root / self._session.notebook

    def _wait_for_kernel(self) -> None:
        self._wait("Another session is working in this notebook's kernel")

    def _wait_for_notebook(self, holder: Holder | None) -> None:
        self._wait(f"This notebook is in use by {holder or 'another process'}")

    def _wait(self, message: str) -> None:
        self._work.enter("wait")
        self._session.publish(
            {"type": "progress", "what": "wait", "turn": self._work.turn, "message": message}
        )

    def _error(self, failure: PrimeError, turn: str | None) -> None:
        self._session.append(Error.of(failure, where="model", turn=turn))
