"""What has begun and could not be recorded as ended, because the log could not be written."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from prime_ext.agent.repair import missing_records
from prime_ext.errors import PrimeError
from prime_ext.session.records import Error

if TYPE_CHECKING:
    from prime_ext.agent.history import History
    from prime_ext.session.session import Session

RETRY_SECONDS = 5.0


class LooseEnds:
    """Closes them as soon as the log can be written again. To be used while the agent rests."""

    def __init__(self, session: Session, history: History, log: logging.Logger) -> None:
        self._session = session
        self._history = history
        self._log = log
        self._failure: PrimeError | None = None
        """Why they could not be closed, as long as that is not in the log."""
        self._retrying: asyncio.Task[None] | None = None

    def tell(self, failure: PrimeError) -> None:
        """Show everyone who watches what no record can say now, and try until one can."""
        self._log.error("Session %s: %s", self._session.id, failure.message)
        self._session.publish({"type": "error", **failure.to_dict()})
        self._failure = failure
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())

    def close(self) -> None:
        """Close what is open.

        Raises
        ------
        PrimeError
            ``session_not_written`` if it still cannot be done.
        """
        history, failure = self._history, self._failure
        if history.open_turn is not None or history.open_compaction is not None:
            reason = failure.message if failure else "It could not be recorded as it ended."
            context = self._session.context_records()
            # A run that goes on is not cut off by this: it is followed, and ends in its own time.
            for record in missing_records(history, context, None, status="error", reason=reason):
                self._session.append(record, sync=True)
        if failure is not None:
            self._session.append(
                Error(
                    code=failure.code,
                    message=failure.message,
                    hint=failure.hint,
                    where="session",
                )
            )
            self._failure = None

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            if self._failure is None:  # closed by whoever went on, who may be at work by now
                return
            with contextlib.suppress(PrimeError):
                self.close()

    async def stop(self) -> None:
        """Leave what is open to the next opening of the session, which closes it."""
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.gather(self._retrying, return_exceptions=True)
