"""Persistence of a session's ledger across compactions and restarts of the server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prime_ext.context.fitted import fitted
from prime_ext.context.ledger import Ledger
from prime_ext.private_file import replace_private
from prime_ext.session.records import AnyRecord

if TYPE_CHECKING:
    from prime_ext.session.log import SessionLog

NAME = "ledger.json"
BATCH_RECORDS = 500


class LedgerFile:
    """The ledger of one session, stored in ``ledger.json``.

    The file is derived from the log: it may be deleted at any time and is then made again.
    """

    def __init__(self, folder: Path, log: SessionLog, logger: logging.Logger) -> None:
        self._path = folder / NAME
        self._records = log
        self._logger = logger
        self._ledger: Ledger | None = None
        self._text: tuple[int, int, str] | None = None
        """Arguments ``through`` and ``tokens`` of the last call of ``text``, and its result."""
        self._lock = asyncio.Lock()

    async def text(self, through: int, tokens: int, count: Callable[[str], int]) -> str:
        """Return the ledger of all records up to ``through`` as text.

        The last result is cached, so that a call ahead of time spares a compaction the wait.

        Parameters
        ----------
        through:
            ``seq`` of the last record that is covered.
        tokens:
            Approximate maximum size of the text.
        count:
            Counts the tokens of a text. It is called in a thread.
        """
        async with self._lock:
            if self._text is None or self._text[:2] != (through, tokens):
                text = await asyncio.to_thread(self._render, through, tokens, count)
                self._text = (through, tokens, text)
            return self._text[2]

    def _render(self, through: int, tokens: int, count: Callable[[str], int]) -> str:
        self._ledger = self._advance(self._ledger, through)
        return fitted(self._ledger.render, tokens, count)

    def _advance(self, ledger: Ledger | None, seq: int) -> Ledger:
        if ledger is None:
            ledger = self._read()
        if ledger.through_seq == seq:
            return ledger
        if ledger.through_seq > seq:  # The last call was for a compaction that did not happen.
            ledger = Ledger()
        ledger = ledger.extended(self._read_records(ledger.through_seq, seq), seq)
        try:
            values = {**ledger.to_dict(), "id": self._id(seq)}
            replace_private(self._path, json.dumps(values, ensure_ascii=False))
        except OSError as error:
            self._logger.info("The ledger is not kept on disk: %s", error)
        return ledger

    def _read_records(self, after: int, through: int) -> Iterator[AnyRecord]:
        """Yield the records in batches, so that a long log is never in memory as a whole."""
        while after < through:
            size = min(BATCH_RECORDS, through - after)
            # A damaged log has gaps in `seq`, so a batch may contain records beyond its range.
            yield from (r for r in self._records.read(after, size) if r.seq <= after + size)
            after += size

    def _read(self) -> Ledger:
        """Return the stored ledger, or an empty one if it does not match the log.

        A power failure may cost the log its last records, but not this file.
        """
        try:
            values = json.loads(self._path.read_text(encoding="utf-8"))
            ledger = Ledger.from_dict(values)
        except (OSError, ValueError):
            return Ledger()
        fits = isinstance(values, dict) and values.get("id") == self._id(ledger.through_seq)
        return ledger if fits else Ledger()

    def _id(self, seq: int) -> str:
        record = self._records.get(seq)
        return record.id if record is not None else ""
