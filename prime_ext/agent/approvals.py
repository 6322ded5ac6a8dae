"""Waiting for a person: requests for approval, and their answers from any client."""

from __future__ import annotations

import asyncio

from prime_ext.agent.history import History
from prime_ext.errors import PrimeError
from prime_ext.session.records import Approval, ApprovalRequest
from prime_ext.session.session import Session


class Approvals:
    """The approvals of one session. They wait as long as the person needs."""

    def __init__(self, session: Session, history: History) -> None:
        self._session = session
        self._history = history
        self._waiting: dict[str, asyncio.Future[Approval]] = {}

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Record ``request`` and wait for its answer."""
        future: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self._waiting[request.call_id] = future
        try:
            self._session.append(request)
            return await future
        finally:
            self._waiting.pop(request.call_id, None)

    def decide(self, call_id: str, decision: str, scope: str, user: str | None) -> None:
        """Answer a request.

        Raises
        ------
        PrimeError
            ``approval_decided`` (409) if someone was faster, ``approval_not_found`` (404).
        """
        future = self._waiting.get(call_id)
        if future is None or future.done():
            if call_id in self._history.decided:
                raise PrimeError(
                    "This approval was already answered.", code="approval_decided", status=409
                )
            raise PrimeError(
                f"No approval {call_id!r} waits for an answer.",
                code="approval_not_found",
                hint="Its turn may have ended meanwhile.",
                status=404,
            )
        pending = self._history.pending[call_id]
        record = self._session.append(
            Approval(call_id=call_id, decision=decision, scope=scope, user=user, turn=pending.turn),
            sync=True,
        )
        assert isinstance(record, Approval)
        future.set_result(record)
