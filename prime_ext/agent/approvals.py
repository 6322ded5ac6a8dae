"""Approval requests to a person, and their answers from any client."""

from __future__ import annotations

import asyncio

from prime_ext.agent.history import History
from prime_ext.errors import PrimeError
from prime_ext.session.records import Approval, ApprovalRequest
from prime_ext.session.session import Session


class Suspended(BaseException):
    """Raised if the server stops while a turn waits for a person. The turn is resumed later.

    It does not derive from ``Exception``, so that no error handler closes the turn or records it as
    failed.
    """


class Approvals:
    """The approval requests of one session.

    A request waits as long as the person needs, even across restarts of the server.
    """

    def __init__(self, session: Session, history: History) -> None:
        self._session = session
        self._history = history
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._answers: dict[str, tuple[ApprovalRequest, Approval]] = {}
        """Answers, by call id, that have not been acted on yet."""

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Record ``request``, unless it was recorded before a restart, and wait for the answer."""
        if self.asked(request.call_id) is None:
            self._session.append(request)
        await self.answered(request.call_id)
        _, answer = self._answers.pop(request.call_id)
        return answer

    def asked(self, call_id: str) -> ApprovalRequest | None:
        """Return the request for a call if it was recorded already and still has to be acted on.

        This is the case after a server restart.
        """
        if call_id in self._answers:
            return self._answers[call_id][0]
        return self._history.pending.get(call_id)

    async def answered(self, call_id: str) -> None:
        """Wait for the answer to a request, which ``ask`` then returns.

        Raises
        ------
        Suspended
            If the server stops first.
        """
        if call_id in self._answers:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = future
        try:
            await future
        finally:
            self._waiting.pop(call_id, None)

    async def all_answered(self) -> None:
        """Wait for the answers to all requests that are pending now. See ``answered``."""
        for call_id in list(self._history.pending):
            await self.answered(call_id)

    def suspend(self) -> bool:
        """Raise ``Suspended`` in all waiting calls; return ``False`` if there are none."""
        waiting = [future for future in self._waiting.values() if not future.done()]
        for future in waiting:
            future.set_exception(Suspended())
        return bool(waiting)

    def decide(self, call_id: str, decision: str, scope: str, user: str | None) -> None:
        """Answer a request.

        Raises
        ------
        PrimeError
            ``approval_decided`` (409) if the request was answered already,
            ``approval_not_found`` (404) if there is no such request.
        """
        pending = self._history.pending.get(call_id)
        if pending is None:
            if call_id in self._history.decided:
                answer = "allowed" if self._history.decided[call_id] == "allow" else "denied"
                raise PrimeError(
                    f"Already answered in another tab: {answer}.",
                    code="approval_decided",
                    status=409,
                )
            raise PrimeError(
                f"No approval {call_id!r} waits for an answer.",
                code="approval_not_found",
                hint="Its turn may have ended meanwhile.",
                status=404,
            )
        record = self._session.append(
            Approval(call_id=call_id, decision=decision, scope=scope, user=user, turn=pending.turn),
            sync=True,
        )
        assert isinstance(record, Approval)
        self._answers[call_id] = (pending, record)
        future = self._waiting.get(call_id)
        if future is not None and not future.done():
            future.set_result(None)
