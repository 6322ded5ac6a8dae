"""Full-text index of a session's records, in SQLite."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prime_ext.session.log import SessionLog

INDEX_NAME = "recall.sqlite"
INDEX_VERSION = 3

_WORD = re.compile(r'"([^"]+)"|(\S+)')
# Thai, Lao, Myanmar, Khmer; kana; Chinese characters; half-width kana; rare Chinese characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Characters of scripts that put no spaces between words. Each is a token of its own, so that a
word is found wherever it stands."""
_ALONE = re.compile(rf"[{_UNSPACED}]")
_LETTER = rf"[^\W_{_UNSPACED}]"
"""A letter or digit of any other script."""
_TOKEN = re.compile(rf"(?=\w)[{_UNSPACED}]|{_LETTER}+")
"""Other characters only separate tokens."""
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents that are characters of their own, as in decomposed text."""


def words_of(query: str) -> list[str]:
    """Return the words of a query; words in quotation marks are kept together."""
    return [quoted or word for quoted, word in _WORD.findall(query)]


def folded(text: str) -> str:
    """Return ``text`` as searches compare it: without case and accents, ``ß`` as ``ss``."""
    if text.isascii():
        return text.lower()
    # Recomposed, because other scripts have characters that are decomposed as well.
    apart = unicodedata.normalize("NFD", text.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def _indexed(text: str) -> str:
    """Return ``text`` without case, with spaces around each character that is a token of its own.

    SQLite removes the accents, faster than ``folded`` does.
    """
    return text if text.isascii() else _ALONE.sub(r" \g<0> ", text.casefold())


def _pattern(term: str, whole: bool) -> re.Pattern[str]:
    """Return a pattern that matches the tokens of ``term`` in sequence, like the index does.

    It is for folded texts.
    """
    tokens = _TOKEN.findall(folded(term))
    starts = [re.escape(t) if _ALONE.match(t) else f"(?<!{_LETTER}){re.escape(t)}" for t in tokens]
    end = f"(?!{_LETTER})" if whole and not _ALONE.match(tokens[-1]) else ""
    return re.compile(r"[\W_]*".join(starts) + end)


@dataclass(frozen=True)
class Entry:
    """A record as it is searched; ``text`` is empty if the record is not searched."""

    seq: int
    id: str
    kind: str
    text: str


class Wanted:
    """A parsed search query with its filters.

    Parameters
    ----------
    kinds, before:
        Only records of these kinds, with a smaller ``seq``.
    limit:
        Maximum number of results.
    """

    def __init__(self, query: str, kinds: tuple[str, ...], before: int, limit: int) -> None:
        self.query = query
        self.kinds = kinds
        self.before = before
        self.limit = max(limit, 1)
        # A term without letters and digits has no token, so it is ignored.
        terms = [
            ((quoted or word).replace('"', ""), bool(quoted))
            for quoted, word in _WORD.findall(query)
            if _TOKEN.search(quoted or word)
        ]
        self._terms = [f'"{_indexed(term)}"{"" if whole else "*"}' for term, whole in terms]
        self.patterns = [_pattern(term, whole) for term, whole in terms]
        """The same terms as patterns, for searching a folded text without the index."""

    def all_words(self) -> str:
        """Return the ``terms`` for ``SearchIndex.match`` that require all words; may be empty."""
        return " AND ".join(self._terms)

    def some_words(self) -> str:
        """Return the ``terms`` for ``SearchIndex.match`` that require any of the words."""
        return " OR ".join(self._terms)


class SearchIndex:
    """The full-text index of one session's records.

    Raises
    ------
    sqlite3.Error, OSError
        Raised by every method if the file is damaged or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        # Created here, because SQLite would create it readable by all. The journal gets its mode.
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
        """Return whether the newest indexed record has the same id in ``log``."""
        if self.last_seq == 0:
            return True
        record = log.get(self.last_seq)
        return (record.id if record is not None else "") == self._last_id

    def add(self, batches: Iterable[list[Entry]]) -> None:
        """Add entries that follow ``last_seq``, each batch in one transaction."""
        for batch in batches:
            texts = [(entry.seq, _indexed(entry.text)) for entry in batch if entry.text]
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
        """Return the ``seq`` of matching entries, best match first.

        Up to three times ``wanted.limit``, so that the caller can rank them further.
        """
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
