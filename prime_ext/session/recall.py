"""Search and reading of raw records, including those that have left the model's context.

The index is an SQLite full-text table next to the log. It is derived from the log: it may be
deleted at any time and is rebuilt if it does not match. If it cannot be written, searches read the
log instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prime_ext.clean_text import well_formed
from prime_ext.errors import PrimeError
from prime_ext.session.excerpts import fitted, snippet
from prime_ext.session.log import decode_record
from prime_ext.session.outputs import OUTPUTS_NAME
from prime_ext.session.record_text import SEARCHABLE_KINDS, bookkeeping, text_of
from prime_ext.session.search_index import INDEX_NAME, Entry, SearchIndex, Wanted, folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prime_ext.session.log import SessionLog
    from prime_ext.session.records import AnyRecord

MAX_OUTPUT_BYTES = 16 << 20
"""Maximum bytes of a file in ``outputs/`` that are searched and read."""

_BATCH_RECORDS = 500
_BATCH_BYTES = 8 << 20
_BACK_RECORDS = 64
"""Number of records in memory at a time when a log is read backwards."""


@dataclass(frozen=True)
class Hit:
    """A matching record, with the part of its text that matches."""

    seq: int
    kind: str
    snippet: str


@dataclass(frozen=True)
class Excerpt:
    """The text of a record, with its middle left out if it is too long."""

    seq: int
    kind: str
    ts: str
    text: str
    chars: int
    """Length of the whole text."""


class Recall:
    """Searches and reads one session's log. Thread-safe; all methods block."""

    def __init__(self, folder: Path, log: SessionLog) -> None:
        self._folder = folder
        self._log = log
        self._lock = threading.Lock()
        self._index: SearchIndex | None = None
        self._closed = False

    def search(
        self,
        query: str,
        kinds: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """Return the records that match ``query``, best match first.

        All words must occur, in any order, each at least as the beginning of a word; words in
        quotation marks must be adjacent and whole. If nothing matches, ``query`` is searched for as
        a literal substring, and after that records with at least one of its words are returned.

        Parameters
        ----------
        kinds:
            Only records of these kinds, a subset of ``SEARCHABLE_KINDS``. All by default.
        before:
            Only records with a smaller ``seq``.
        limit:
            Maximum number of hits.

        Raises
        ------
        PrimeError
            ``unknown_kind`` or ``empty_query``.
        """
        # SQLite ends the query at a NUL and raises an error, as if the index were damaged.
        query = well_formed(query).replace("\0", " ").strip()
        if not query:
            raise PrimeError(
                "There is nothing to search for.",
                code="empty_query",
                hint="Give words, a path, a number or a piece of an error message.",
            )
        for kind in kinds or ():
            if kind not in SEARCHABLE_KINDS:
                raise PrimeError(
                    f"Records of kind {kind!r} cannot be searched.",
                    code="unknown_kind",
                    hint=f"Searchable kinds: {', '.join(SEARCHABLE_KINDS)}.",
                )
        wanted = Wanted(query, tuple(kinds or SEARCHABLE_KINDS), before or 2**62, limit)
        found = (
            self._look_up(wanted, wanted.all_words(), all)
            or self._scan(wanted, _containing(query), query)
            or self._look_up(wanted, wanted.some_words(), any)
        )
        return [Hit(entry.seq, entry.kind, snippet(entry.text, query)) for entry in found]

    def read(self, seqs: Sequence[int], max_chars: int = 12_000) -> list[Excerpt]:
        """Return the texts of the records ``seqs``, in that order.

        Missing records are left out. Together the texts have about ``max_chars`` characters at
        most.

        Raises
        ------
        PrimeError
            ``record_not_found`` if none of the records exists.
        """
        records = self._log.get_all(dict.fromkeys(seqs))
        if not records:
            raise PrimeError(
                f"There is no record {', '.join(map(str, seqs[:10]))}.",
                code="record_not_found",
                hint=f"Records are numbered from 1 to {self._log.last_seq}.",
                status=404,
            )
        texts = [text_of(record, self._output) or bookkeeping(record) for record in records]
        return [
            Excerpt(record.seq, record.kind, record.ts, shown, len(text))
            for record, text, shown in zip(records, texts, fitted(texts, max_chars), strict=True)
        ]

    def catch_up(self) -> None:
        """Index newly appended records, so that the next search need not do so."""
        with self._lock:
            self._current_index()

    def close(self) -> None:
        """Close the index, after waiting for the batch that is being indexed, if any."""
        self._closed = True
        with self._lock:
            if self._index is not None:
                self._index.close()
                self._index = None

    # --- index or log ------------------------------------------------------------------------

    def _look_up(
        self, wanted: Wanted, terms: str, needed: Callable[[Iterable[bool]], bool]
    ) -> list[Entry]:
        """Search with the index or, if there is none, by reading the log.

        Parameters
        ----------
        terms:
            Search terms for the index.
        needed:
            ``all`` or ``any``: which of the words a record must contain. Used without an index.
        """
        if not terms:
            return []
        seqs: list[int] | None = None
        with self._lock:
            index = self._current_index()
            if index is not None:
                try:
                    seqs = index.match(terms, wanted)
                except sqlite3.Error:
                    self._drop_index()
        if seqs is None:

            def matches(text: str) -> bool:
                plain = folded(text)
                return needed(bool(word.search(plain)) for word in wanted.patterns)

            return self._scan(wanted, matches)
        entries = [self._entry(record) for record in self._log.get_all(seqs)]
        # Records that contain the query literally are usually what was meant.
        literal = wanted.query.casefold()
        entries.sort(key=lambda entry: literal not in entry.text.casefold())
        return entries[: wanted.limit]

    def _current_index(self) -> SearchIndex | None:
        if self._closed:
            return None
        for _ in range(2):  # A damaged or mismatching index is rebuilt once.
            try:
                if self._index is None:
                    self._index = SearchIndex(self._folder / INDEX_NAME)
                if self._index.fits(self._log):
                    self._index.add(self._batches(self._index.last_seq))
                    return self._index
            except (sqlite3.Error, OSError):
                pass
            self._drop_index()
        return None

    def _drop_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        for suffix in ("", "-journal"):
            with contextlib.suppress(OSError):
                (self._folder / (INDEX_NAME + suffix)).unlink()

    def _entry(self, record: AnyRecord | None) -> Entry:
        if record is None:
            return Entry(0, "", "", "")
        text = text_of(record, self._output) or ""
        return Entry(record.seq, record.id, record.kind, text)

    def _batches(self, after: int) -> Iterator[list[Entry]]:
        """Yield batches of entries to index. Records that are not searched have an empty text."""
        while not self._closed and (lines := self._log.lines(after, _BATCH_RECORDS, _BATCH_BYTES)):
            after = lines[-1][0]
            yield [
                dataclasses.replace(self._entry(decode_record(line)), seq=seq)
                for seq, line in lines
            ]

    def _scan(
        self, wanted: Wanted, matches: Callable[[str], bool], literal: str = ""
    ) -> list[Entry]:
        """Return matching entries by reading the log, newest first.

        ``literal``, if given, is a text that all matches contain; it speeds the scan up.
        """
        # Lines without `literal` need not be decoded, if JSON writes that text without escapes.
        part = literal.casefold()
        plain = part.encode() if part.isascii() and part.isprintable() else b""
        if b'"' in plain or b"\\" in plain:
            plain = b""
        older = [seq for seq in self._log.seqs_of(*wanted.kinds) if seq < wanted.before]
        found: list[Entry] = []
        for line in self._newest_first(older):
            if plain and plain not in line.lower() and b'"output_file":' not in line:
                continue
            entry = self._entry(decode_record(line))
            if matches(entry.text):
                found.append(entry)
                if len(found) >= wanted.limit:
                    break
        return found

    def _newest_first(self, seqs: list[int]) -> Iterator[bytes]:
        """Yield the lines of the records ``seqs`` (in ascending order), starting with the newest.

        They are read in batches in the order of the file, because each step backwards in the file
        would fill the read buffer again.
        """
        for end in range(len(seqs), 0, -_BACK_RECORDS):
            batch = list(self._log.lines_of(seqs[max(0, end - _BACK_RECORDS) : end]))
            for _, line in reversed(batch):
                yield line

    def _output(self, name: str) -> str | None:
        """Return the text of a file in ``outputs/``, which holds the full text of a result."""
        if Path(name).name != name:
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            fd = os.open(self._folder / OUTPUTS_NAME / name, flags)
        except OSError:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")


def _containing(query: str) -> Callable[[str], bool]:
    """Return a predicate that tells whether a text contains ``query`` literally, ignoring case."""
    folded = query.casefold()
    return lambda text: folded in text.casefold()
