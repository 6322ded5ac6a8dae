"""Keeps a session's ledger up to date, across compactions and restarts of the server."""

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
    """The ledger of one session's records.

    ``ledger.json`` is derived: it may be deleted at any time and is made anew from the log.
    """

    def __init__(self, folder: Path, log: SessionLog, logger: logging.Logger) -> None:
        self._path = folder / NAME
        self._records = log
        self._logger = logger
        self._ledger: Ledger | None = None
        self._text: tuple[int, int, str] | None = None
        """What was asked for last, and the answer."""
        self._lock = asyncio.Lock()

    async def text(self, through: int, tokens: int, count: Callable[[str], int]) -> str:
        """The ledger of all records up to ``through``, in about ``tokens`` at most.

        Asked for once more it is there: who can tell ahead what will be needed spares others
        the wait.

        Parameters
        ----------
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
        if ledger.through_seq > seq:  # what was asked for last has not come to be
            ledger = Ledger()
        ledger = ledger.extended(self._read_records(ledger.through_seq, seq), seq)
        try:
            replace_private(self._path, json.dumps(ledger.to_dict(), ensure_ascii=False))
        except OSError as error:
            self._logger.info("The ledger is not kept on disk: %s", error)
        return ledger

    def _read_records(self, after: int, through: int) -> Iterator[AnyRecord]:
        """In batches: a log may be longer than the memory it should take."""
        while after < through:
            size = min(BATCH_RECORDS, through - after)
            # Numbers have gaps where the log is damaged, so a batch may reach beyond its end.
            yield from (r for r in self._records.read(after, size) if r.seq <= after + size)
            after += size

    def _read(self) -> Ledger:
        try:
            return Ledger.from_dict(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return Ledger()
