"""Finding and reading raw records again, long after they have left the model's context.

The index is an SQLite full-text table beside the log. It is derived: it may be deleted at any
time, is rebuilt if it does not fit the log, and does without if it cannot be written.
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
from prime_ext.session.search_index import INDEX_NAME, Entry, SearchIndex, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prime_ext.session.log import SessionLog
    from prime_ext.session.records import AnyRecord

MAX_OUTPUT_BYTES = 16 << 20
"""Of one file in ``outputs/`` that is searched."""

_BATCH_RECORDS = 500
_BATCH_BYTES = 8 << 20
_BACK_RECORDS = 64
"""Held in memory at once where a log is read backwards."""


@dataclass(frozen=True)
class Hit:
    """A record that matches, and the part of it that does."""

    seq: int
    kind: str
    snippet: str


@dataclass(frozen=True)
class Excerpt:
    """The text of a record, cut in the middle if it is longer than asked for."""

    seq: int
    kind: str
    ts: str
    text: str
    chars: int
    """Length of the whole text."""


class Recall:
    """Search and read over one session's log. Safe to use from several threads; blocking."""

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
        """Records that match ``query``, the best first.

        All words must occur, in any order, as beginnings of words; quoted words must follow each
        other. If nothing matches so, ``query`` is looked for as it stands, inside words too;
        failing that, records with some of its words are given.

        Parameters
        ----------
        kinds:
            Only records of these kinds, out of ``SEARCHABLE_KINDS``.
        before:
            Only records with a smaller ``seq``.

        Raises
        ------
        PrimeError
            ``unknown_kind``, or ``empty_query``.
        """
        # SQLite takes a NUL for the end; the index would then count as damaged.
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
                    f"Records of kind {kind!r} are not searched.",
                    code="unknown_kind",
                    hint=f"Kinds that are: {', '.join(SEARCHABLE_KINDS)}.",
                )
        wanted = Wanted(query, tuple(kinds or SEARCHABLE_KINDS), before or 2**62, limit)
        found = (
            self._look_up(wanted, wanted.all_words(), all)
            or self._scan(wanted, _containing(query), query)
            or self._look_up(wanted, wanted.some_words(), any)
        )
        return [Hit(entry.seq, entry.kind, snippet(entry.text, query)) for entry in found]

    def read(self, seqs: Sequence[int], max_chars: int = 12_000) -> list[Excerpt]:
        """The records ``seqs`` in that order, together at most about ``max_chars`` long.

        Raises
        ------
        PrimeError
            ``record_not_found`` if none of them is there.
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
        """Index what has been appended, so that the next search need not."""
        with self._lock:
            self._current_index()

    def close(self) -> None:
        """Close the index; a batch that is being indexed is waited for."""
        self._closed = True
        with self._lock:
            if self._index is not None:
                self._index.close()
                self._index = None

    # --- index or log ------------------------------------------------------------------------

    def _look_up(
        self, wanted: Wanted, terms: str, needed: Callable[[Iterable[bool]], bool]
    ) -> list[Entry]:
        """What the index finds; without an index, the records with the words that are ``needed``:
        ``all`` or ``any``."""
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
            return self._scan(
                wanted, lambda text: needed(bool(word.search(text)) for word in wanted.patterns)
            )
        entries = [self._entry(record) for record in self._log.get_all(seqs)]
        # Words next to each other are what was meant more often than words anywhere.
        literal = wanted.query.casefold()
        entries.sort(key=lambda entry: literal not in entry.text.casefold())
        return entries[: wanted.limit]

    def _current_index(self) -> SearchIndex | None:
        if self._closed:
            return None
        for _ in range(2):  # a damaged or foreign index is made anew once
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
        """What is to be indexed; entries without text for what is not."""
        while not self._closed and (lines := self._log.lines(after, _BATCH_RECORDS, _BATCH_BYTES)):
            after = lines[-1][0]
            yield [
                dataclasses.replace(self._entry(decode_record(line)), seq=seq)
                for seq, line in lines
            ]

    def _scan(
        self, wanted: Wanted, matches: Callable[[str], bool], literal: str = ""
    ) -> list[Entry]:
        """Entries whose text matches, by reading them all, the newest first; ``literal`` must
        stand in it."""
        # Most lines can be passed over without being decoded, if JSON writes the part as it is.
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
        """The lines of these records, oldest first, from the last one back.

        A few at a time are read in the file's order: each step back would read a buffer anew.
        """
        for end in range(len(seqs), 0, -_BACK_RECORDS):
            batch = list(self._log.lines_of(seqs[max(0, end - _BACK_RECORDS) : end]))
            for _, line in reversed(batch):
                yield line

    def _output(self, name: str) -> str | None:
        """Text of a file in ``outputs/``, where the whole of a capped result is."""
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
    """Whether a text holds ``query`` as it stands, inside words too."""
    folded = query.casefold()
    return lambda text: folded in text.casefold()
