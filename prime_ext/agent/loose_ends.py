"""Turns and compactions whose end could not be recorded, because the log could not be written."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from prime_ext.agent.repair import missing_records
from prime_ext.closing import cancelled
from prime_ext.errors import PrimeError
from prime_ext.session.records import Error

if TYPE_CHECKING:
    from prime_ext.agent.history import History
    from prime_ext.session.session import Session

RETRY_SECONDS = 5.0


class LooseEnds:
    """Record the missing ends as soon as the log can be written again.

    To be used only while the agent does no work.
    """

    def __init__(self, session: Session, history: History, log: logging.Logger) -> None:
        self._session = session
        self._history = history
        self._log = log
        self._failure: PrimeError | None = None
        """The failure that has not been recorded in the log yet."""
        self._retrying: asyncio.Task[None] | None = None

    def tell(self, failure: PrimeError) -> None:
        """Publish a failure that cannot be recorded now, and retry until it can be."""
        self._log.error("Session %s: %s", self._session.id, failure.message)
        self._session.publish({"type": "error", **failure.to_dict()})
        self._failure = failure
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())

    def close(self) -> None:
        """Record the end of an open turn and compaction, and the failure.

        Raises
        ------
        PrimeError
            ``session_not_written`` if the log still cannot be written.
        """
        history, failure = self._history, self._failure
        if history.open_turn is not None or history.open_compaction is not None:
            reason = failure.message if failure else "It could not be recorded as it ended."
            context = self._session.context_records()
            # A run that goes on is not affected: it is still tracked, and its end is recorded.
            for record in missing_records(history, context, None, status="error", reason=reason):
                self._session.append(record, sync=True)
        if failure is not None:
            self._session.append(Error.of(failure, where="session"))
            self._failure = None

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            if self._failure is None:  # closed meanwhile; the agent may be at work again
                return
            with contextlib.suppress(PrimeError):
                self.close()

    async def stop(self) -> None:
        """Stop retrying. The next opening of the session closes what is still open."""
        if self._retrying is not None:
            await cancelled([self._retrying])
