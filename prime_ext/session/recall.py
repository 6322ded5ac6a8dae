"""Finding and reading raw records again, long after they have left the model's context.

The index is an SQLite full-text table beside the log. It is derived: it may be deleted at any
time, is rebuilt if it does not fit the log, and does without if it cannot be written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.errors import PrimeError
from prime_ext.session.log import decode_record
from prime_ext.session.outputs import OUTPUTS_NAME, is_removed
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    Error,
    NotebookOp,
    RunEnd,
    ToolResult,
    TurnEnd,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prime_ext.session.log import SessionLog
    from prime_ext.session.records import Block

SEARCHABLE_KINDS = (
    "user_message",
    "assistant_message",
    "tool_result",
    "run_end",
    "notebook_op",
    "error",
)
"""What holds content. The rest is bookkeeping, or says the same again."""

INDEX_NAME = "recall.sqlite"
INDEX_VERSION = 1

MAX_OUTPUT_BYTES = 16 << 20
"""Of one file in ``outputs/`` that is searched."""

SNIPPET_CHARS = 240

# A search must not find earlier searches.
_OWN_TOOLS = ("session_search", "session_read")
_BATCH_RECORDS = 500
_BATCH_BYTES = 8 << 20
_BACK_RECORDS = 64
"""Held in memory at once where a log is read backwards."""
_WORD = re.compile(r'"([^"]+)"|(\S+)')


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
        self._index: _Index | None = None
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
        query = query.strip()
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
        wanted = _Wanted(query, tuple(kinds or SEARCHABLE_KINDS), before or 2**62, limit)
        found = (
            self._look_up(wanted, wanted.all_words())
            or self._scan(wanted, [query])
            or self._look_up(wanted, wanted.some_words())
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
        texts = [_text_of(record, self._output) or _bookkeeping(record) for record in records]
        shares = _shares([len(text) for text in texts], max_chars)
        return [
            Excerpt(record.seq, record.kind, record.ts, _cut(text, share), len(text))
            for record, text, share in zip(records, texts, shares, strict=True)
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

    def _look_up(self, wanted: _Wanted, terms: str) -> list[_Entry]:
        """What the index finds; without an index, the records in which all words stand."""
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
            return self._scan(wanted, wanted.words)
        entries = [self._entry(record) for record in self._log.get_all(seqs)]
        # Words next to each other are what was meant more often than words anywhere.
        literal = wanted.query.casefold()
        entries.sort(key=lambda entry: literal not in entry.text.casefold())
        return entries[: wanted.limit]

    def _current_index(self) -> _Index | None:
        if self._closed:
            return None
        for _ in range(2):  # a damaged or foreign index is made anew once
            try:
                if self._index is None:
                    self._index = _Index(self._folder / INDEX_NAME)
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

    def _entry(self, record: AnyRecord | None) -> _Entry:
        if record is None:
            return _Entry(0, "", "", "")
        text = _text_of(record, self._output) or ""
        return _Entry(record.seq, record.id, record.kind, text)

    def _batches(self, after: int) -> Iterator[list[_Entry]]:
        """What is to be indexed; entries without text for what is not."""
        while not self._closed and (lines := self._log.lines(after, _BATCH_RECORDS, _BATCH_BYTES)):
            after = lines[-1][0]
            yield [
                dataclasses.replace(self._entry(decode_record(line)), seq=seq)
                for seq, line in lines
            ]

    def _scan(self, wanted: _Wanted, parts: list[str]) -> list[_Entry]:
        """Entries in which all ``parts`` stand, inside words too: by reading them all, the newest
        first."""
        parts = [part.casefold() for part in parts]
        # Most lines can be passed over without being decoded, if JSON writes the part as it is.
        plain = parts[0].encode() if parts[0].isascii() and parts[0].isprintable() else b""
        if b'"' in plain or b"\\" in plain:
            plain = b""
        older = [seq for seq in self._log.seqs_of(*wanted.kinds) if seq < wanted.before]
        found: list[_Entry] = []
        for line in self._newest_first(older):
            if plain and plain not in line.lower() and b'"output_file":' not in line:
                continue
            entry = self._entry(decode_record(line))
            text = entry.text.casefold()
            if all(part in text for part in parts):
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


@dataclass(frozen=True)
class _Entry:
    seq: int
    id: str
    kind: str
    text: str


class _Wanted:
    def __init__(self, query: str, kinds: tuple[str, ...], before: int, limit: int) -> None:
        self.query = query
        self.kinds = kinds
        self.before = before
        self.limit = max(limit, 1)
        found = [(quoted or word, bool(quoted)) for quoted, word in _WORD.findall(query)]
        self.words = [word for word, _ in found]
        # A term without a letter or digit has no token to look up.
        self._terms = [
            f'"{word.replace(chr(34), "")}"{"" if quoted else "*"}'
            for word, quoted in found
            if any(char.isalnum() for char in word)
        ]

    def all_words(self) -> str:
        return " AND ".join(self._terms)

    def some_words(self) -> str:
        return " OR ".join(self._terms)


class _Index:
    """The full-text table."""

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

    def add(self, batches: Iterable[list[_Entry]]) -> None:
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

    def match(self, terms: str, wanted: _Wanted) -> list[int]:
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


# --- the text of a record --------------------------------------------------------------------


_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _text_of(record: AnyRecord, output: Any) -> str | None:
    """What a record says, for searching and reading; ``None`` for bookkeeping."""
    if isinstance(record, UserMessage):
        return _joined(_block_texts(record.content)) or record.text
    if isinstance(record, AssistantMessage):
        return _joined(_block_texts(record.content)) or None
    if isinstance(record, (ToolResult, RunEnd)):
        if isinstance(record, ToolResult) and record.name in _OWN_TOOLS:
            return None
        whole: str | None = output(record.output_file) if record.output_file else None
        if whole and not is_removed(whole):
            return whole
        return _joined([*_block_texts(record.content), whole]) or None
    if isinstance(record, NotebookOp):
        sources = [str((cell or {}).get("source", "")) for cell in (record.before, record.after)]
        changed = sources[:1] if sources[0] == sources[1] else sources
        return _joined([f"{record.op} {record.cell_id} {record.status}", record.reason, *changed])
    if isinstance(record, Error):
        return _joined([f"{record.where} {record.code}".strip(), record.message, record.hint])
    return None


def _block_texts(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        if block.get("type") == "text":
            yield str(block.get("text", ""))
        elif block.get("type") == "thinking":
            yield str(block.get("thinking", ""))
        elif block.get("type") == "tool_use" and block.get("name") not in _OWN_TOOLS:
            yield str(block.get("name", ""))
            arguments = block.get("input")
            for name, value in arguments.items() if isinstance(arguments, dict) else ():
                # Code as it was written, not with its line feeds escaped.
                yield f"{name}: {value if isinstance(value, str) else json.dumps(value)}"


def _joined(parts: Iterable[str | None]) -> str:
    return "\n".join(part for part in parts if part)


def _bookkeeping(record: AnyRecord) -> str:
    """What is not searched, for who reads it by its number: a line for each thing it says."""
    if isinstance(record, TurnEnd):
        return _turn_end(record)
    values = msgspec.to_builtins(record)
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
        if name not in ("kind", "seq", "id", "ts")
    )


def _turn_end(record: TurnEnd) -> str:
    usage = record.usage
    read = sum(usage.get(key, 0) for key in _INPUT)
    told = [
        f"The turn ended: {record.status}.",
        f"Requests to the model: {record.requests}, in {record.duration_ms / 1000:.1f} s.",
    ]
    if usage:
        told.append(f"Tokens: {read:,} read, {usage.get('output_tokens', 0):,} written.")
    if record.cost_usd is not None:
        told.append(f"Cost: about ${record.cost_usd:.4f}.")
    if record.context_tokens is not None:
        told.append(f"Size of the context at its end: {record.context_tokens:,} tokens.")
    return "\n".join(told)


def snippet(text: str, query: str) -> str:
    """About ``SNIPPET_CHARS`` of ``text`` around where it matches ``query``, on one line."""
    lower = text.lower()
    words = [quoted or word for quoted, word in _WORD.findall(query)]
    for wanted in (query, *sorted(words, key=len, reverse=True)):
        at = lower.find(wanted.lower())
        if at >= 0:
            break
    else:
        # The tokenizer matched across punctuation or accents: its longest run of letters then.
        runs = sorted(re.findall(r"\w+", query.lower()), key=len, reverse=True)
        at = max(next((lower.find(run) for run in runs if run in lower), 0), 0)
        wanted = ""
    start = max(0, at - (SNIPPET_CHARS - min(len(wanted), SNIPPET_CHARS)) // 2)
    end = start + SNIPPET_CHARS
    piece = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"


def _shares(lengths: list[int], total: int) -> list[int]:
    """How much of each text is shown: what short ones leave over goes to long ones."""
    shares = [0] * len(lengths)
    left = max(total, 0)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for position, i in enumerate(order):
        shares[i] = min(lengths[i], left // (len(order) - position))
        left -= shares[i]
    return shares


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    head = chars * 2 // 3
    tail = chars - head
    end = text[len(text) - tail :] if tail else ""
    return f"{text[:head]}\n[… {len(text) - chars} characters left out …]\n{end}"
