"""The words of a session's records, in an SQLite full-text table."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prime_ext.session.log import SessionLog

INDEX_NAME = "recall.sqlite"
INDEX_VERSION = 1

_WORD = re.compile(r'"([^"]+)"|(\S+)')
_TOKEN = re.compile(r"[^\W_]+")
"""Letters and digits; what stands between them only separates."""


def words_of(query: str) -> list[str]:
    """The words that a person searches for; those in quotes together."""
    return [quoted or word for quoted, word in _WORD.findall(query)]


def _pattern(term: str, whole: bool) -> re.Pattern[str]:
    """Matches where the tokens of ``term`` follow each other, as the index has them."""
    tokens = r"[\W_]+".join(map(re.escape, _TOKEN.findall(term)))
    end = r"(?![^\W_])" if whole else ""
    return re.compile(rf"(?<![^\W_]){tokens}{end}", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """What is searched of a record; ``text`` is empty if nothing is."""

    seq: int
    id: str
    kind: str
    text: str


class Wanted:
    """What is searched for.

    Parameters
    ----------
    kinds, before:
        Only records of these kinds, with a smaller ``seq``.
    limit:
        How many at most.
    """

    def __init__(self, query: str, kinds: tuple[str, ...], before: int, limit: int) -> None:
        self.query = query
        self.kinds = kinds
        self.before = before
        self.limit = max(limit, 1)
        # A term without a letter or digit has no token to look up.
        terms = [
            ((quoted or word).replace('"', ""), bool(quoted))
            for quoted, word in _WORD.findall(query)
            if _TOKEN.search(quoted or word)
        ]
        self._terms = [f'"{term}"{"" if whole else "*"}' for term, whole in terms]
        self.patterns = [_pattern(term, whole) for term, whole in terms]
        """The same terms, to be looked for in a text itself."""

    def all_words(self) -> str:
        """Terms for ``SearchIndex.match``; empty if there is nothing to look up."""
        return " AND ".join(self._terms)

    def some_words(self) -> str:
        """As ``all_words``, where any of them is enough."""
        return " OR ".join(self._terms)


class SearchIndex:
    """The full-text table of one session's records.

    Raises
    ------
    sqlite3.Error, OSError
        From every method, where the file is damaged or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        # Made first, since SQLite would make it readable to all; its journal takes its mode.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(path, flags, 0o600))
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            if self._db.execute("PRAGMA user_version").fetchone()[0] != INDEX_VERSION:
                self._make()
            row = self._db.execute("SELECT seq, id FROM newest").fetchone()
        except BaseException:
            self._db.close()
            raise
        self.last_seq: int = row[0]
        self._last_id: str = row[1]

    def _make(self) -> None:
        self._db.executescript(
            """
            BEGIN;
            DROP TABLE IF EXISTS words;
            DROP TABLE IF EXISTS entry;
            DROP TABLE IF EXISTS newest;
            CREATE TABLE newest (seq INTEGER NOT NULL, id TEXT NOT NULL);
            INSERT INTO newest VALUES (0, '');
            CREATE TABLE entry (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL);
            -- The texts themselves stay in the log.
            CREATE VIRTUAL TABLE words USING fts5 (
                text, content='', tokenize="unicode61 remove_diacritics 2"
            );
            -- Bytes of new words held before they are written: several times faster than 1 MiB.
            INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
            COMMIT;
            """
        )
        self._db.execute(f"PRAGMA user_version = {INDEX_VERSION}")

    def fits(self, log: SessionLog) -> bool:
        """Whether the newest record indexed is the one that the log has under this number."""
        if self.last_seq == 0:
            return True
        record = log.get(self.last_seq)
        return (record.id if record is not None else "") == self._last_id

    def add(self, batches: Iterable[list[Entry]]) -> None:
        """Take in what comes behind ``last_seq``, each batch in one transaction."""
        for batch in batches:
            texts = [(entry.seq, entry.text) for entry in batch if entry.text]
            kinds = [(entry.seq, entry.kind) for entry in batch if entry.text]
            newest = batch[-1]
            with self._transaction():
                self._db.executemany("INSERT INTO entry VALUES (?, ?)", kinds)
                self._db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
                self._db.execute("UPDATE newest SET seq = ?, id = ?", (newest.seq, newest.id))
            self.last_seq, self._last_id = newest.seq, newest.id

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def match(self, terms: str, wanted: Wanted) -> list[int]:
        """``seq`` of some more entries than wanted, the best first."""
        marks = ", ".join("?" * len(wanted.kinds))
        rows = self._db.execute(
            "SELECT entry.seq FROM words JOIN entry ON entry.seq = words.rowid"  # noqa: S608
            f" WHERE words MATCH ? AND entry.seq < ? AND entry.kind IN ({marks})"
            " ORDER BY rank, entry.seq DESC LIMIT ?",
            (terms, wanted.before, *wanted.kinds, wanted.limit * 3),
        )
        return [row[0] for row in rows]

    def close(self) -> None:
        self._db.close()
