"""Waiting for a person: requests for approval, and their answers from any client."""

from __future__ import annotations

import asyncio

from prime_ext.agent.history import History
from prime_ext.errors import PrimeError
from prime_ext.session.records import Approval, ApprovalRequest
from prime_ext.session.session import Session


class Suspended(BaseException):
    """The server stops while a person is asked. The turn is left as it is, to go on afterwards.

    No ``Exception``: whoever closes or records what failed must not see it.
    """


class Approvals:
    """The approvals of one session. They wait as long as the person needs, restarts included."""

    def __init__(self, session: Session, history: History) -> None:
        self._session = session
        self._history = history
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._answers: dict[str, tuple[ApprovalRequest, Approval]] = {}
        """Given, and not acted on yet."""

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Record ``request``, unless it was before a restart, and wait for its answer."""
        if self.asked(request.call_id) is None:
            self._session.append(request)
        await self.answered(request.call_id)
        _, answer = self._answers.pop(request.call_id)
        return answer

    def asked(self, call_id: str) -> ApprovalRequest | None:
        """What the person was asked before a restart, if its answer was not acted on yet."""
        if call_id in self._answers:
            return self._answers[call_id][0]
        return self._history.pending.get(call_id)

    async def answered(self, call_id: str) -> None:
        """Wait for an answer, which ``ask`` then returns.

        Raises
        ------
        Suspended
            The server stops first.
        """
        if call_id in self._answers:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = future
        try:
            await future
        finally:
            self._waiting.pop(call_id, None)

    def suspend(self) -> bool:
        """End what waits for a person without an answer; ``False`` if nothing does."""
        waiting = [future for future in self._waiting.values() if not future.done()]
        for future in waiting:
            future.set_exception(Suspended())
        return bool(waiting)

    def decide(self, call_id: str, decision: str, scope: str, user: str | None) -> None:
        """Answer a request.

        Raises
        ------
        PrimeError
            ``approval_decided`` (409) if someone was faster, ``approval_not_found`` (404).
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
