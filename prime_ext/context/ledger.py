"""The ledger: exact details of the compacted records, extracted by code instead of a model.

The ledger is cumulative: each compaction adds entries for the records compacted since the last
one. The summary turn shows as much of it as fits, preferring the newest entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from prime_ext.context.details import details
from prime_ext.context.sections import share_out, shorten
from prime_ext.context.traceback_text import TRACEBACK, error_line, places
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    Block,
    Error,
    NotebookOp,
    Revert,
    ToolResult,
    UserMessage,
)

SHARES = {
    "What the user asked": 34,
    "Files changed": 20,
    "Cells changed": 14,
    "Errors": 26,
    "Files read": 6,
}
"""Headings in their order, with the weights by which the room is divided if not everything fits."""

ASKED = "What the user asked"

MAX_ENTRIES = 400
"""Maximum number of entries under one heading; the oldest are dropped."""
WHOLE_SHARE = 0.6
"""Share of the room for user messages in which the newest ones are shown as they are."""
ASKED_CHARS = 600
"""Maximum length of a user message as shown."""
MARKER_CHARS = 40
"""Room for the line that says how many entries are left out."""
STORED_CHARS = 3_000
"""Maximum length of a user message as stored; its exact details are extracted from this."""
CHANGE_CHARS = 320
ERROR_CHARS = 400

_READING = ("read_file", "search_files")
_WRITING = ("edit_file", "write_file")
_OURS = ("compaction", "session")
"""Values of ``Error.where`` that are skipped, because they say nothing about the user's work."""

Entries = dict[str, tuple[int, str]]
"""Subject of an entry → ``seq`` of its record and its text; oldest first."""


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """Entries of the records up to ``through_seq``, by heading."""

    through_seq: int = 0
    entries: dict[str, Entries] = {}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Ledger:
        """Read the result of ``to_dict``; return an empty ledger if ``value`` is invalid."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    def extended(self, records: Iterable[AnyRecord], through_seq: int) -> Ledger:
        """Return a ledger with the entries of ``records`` added.

        Records outside of ``self.through_seq < seq <= through_seq`` are ignored.
        """
        notes = _Notes({heading: dict(self.entries.get(heading, {})) for heading in SHARES})
        for record in records:
            if self.through_seq < record.seq <= through_seq:
                notes.add(record)
        kept = {
            heading: dict(list(entries.items())[-MAX_ENTRIES:])
            for heading, entries in notes.entries.items()
            if entries
        }
        return Ledger(through_seq, kept)

    def render(self, max_chars: int) -> str:
        """Return the ledger as text of at most ``max_chars`` characters; may be empty."""
        lines = {
            heading: [_line(seq, shorten(text, _limit(heading))) for seq, text in entries.values()]
            for heading, entries in self.entries.items()
            if entries and heading in SHARES
        }
        headings = sum(len(heading) + 3 for heading in lines)
        need = {h: sum(len(line) + 1 for line in found) for h, found in lines.items()}
        room = share_out(need, max(0, max_chars - headings), SHARES)
        parts = []
        for heading in SHARES:
            given = room.get(heading, 0)
            if heading == ASKED and need.get(heading, 0) > given:
                shown = self._asked(lines[heading], given)
            else:
                shown = _newest(lines.get(heading, []), given)
            if shown:
                parts.append("\n".join([f"{heading}:", *shown]))
        return "\n\n".join(parts)

    def _asked(self, whole: list[str], room: int) -> list[str]:
        """Return the newest user messages as they are, and only the exact details of older ones."""
        kept: list[str] = []
        used = 0
        for (seq, text), line in reversed(
            list(zip(self.entries[ASKED].values(), whole, strict=True))
        ):
            if used + len(line) + 1 > room * WHOLE_SHARE:
                found = details(text)
                line = _line(seq, "; ".join(found)) if found else ""
            if line and used + len(line) + 1 <= room - MARKER_CHARS:
                kept.append(line)
                used += len(line) + 1
        return [_left_out(len(whole) - len(kept)), *kept[::-1]] if kept else []


class _Notes:
    def __init__(self, entries: dict[str, Entries]) -> None:
        self.entries = entries
        self._calls: dict[str, Block] = {}

    def add(self, record: AnyRecord) -> None:
        if isinstance(record, UserMessage):
            self._note(ASKED, record.words, record.seq, record.words, STORED_CHARS)
        elif isinstance(record, AssistantMessage):
            self._calls.update({b["id"]: b for b in record.content if b["type"] == "tool_use"})
        elif isinstance(record, ToolResult):
            self._result(record)
        elif isinstance(record, NotebookOp):
            self._operation(record)
        elif isinstance(record, Revert):
            self._revert(record)
        elif isinstance(record, Error) and record.where not in _OURS:
            self._note("Errors", record.message, record.seq, record.message, ERROR_CHARS)

    def _result(self, record: ToolResult) -> None:
        call = self._calls.get(record.tool_use_id)
        given = call["input"] if call is not None else {}
        path = given.get("path") if isinstance(given, dict) else None
        text = "\n".join(str(b["text"]) for b in record.content if b["type"] == "text")
        if record.is_error or TRACEBACK in text:
            at = [path] if isinstance(path, str) else places(text)[-3:]
            where = f" ({record.name}; at {'; '.join(at)})" if at else f" ({record.name})"
            line = shorten(error_line(text), ERROR_CHARS)
            self._note("Errors", line, record.seq, line + where, 2 * ERROR_CHARS)
        elif isinstance(path, str) and record.name in _READING:
            self._note("Files read", path, record.seq, path, CHANGE_CHARS)
        elif isinstance(path, str) and record.name in _WRITING:
            new = _change(given.get("old"), given.get("new", given.get("content")))
            about = f"{path}: {new}" if new else path
            self._note("Files changed", about, record.seq, about, CHANGE_CHARS)

    def _operation(self, record: NotebookOp) -> None:
        if record.status != "applied" or record.op == "run_cell":
            return
        old, new = ((cell or {}).get("source") for cell in (record.before, record.after))
        change = _change(old, new) if record.op != "delete_cell" else ""
        about = f"{record.op} {record.cell_id}"
        text = f"{about}: {change}" if change else about
        self._note("Cells changed", text, record.seq, text, CHANGE_CHARS)

    def _revert(self, record: Revert) -> None:
        """Note a revert. The entries it reverts stay, so it must say that they no longer hold."""
        for heading, entries, key in (
            ("Cells changed", record.cells, "cell_id"),
            ("Files changed", record.files, "path"),
        ):
            back = [str(e[key]) for e in entries if e.get("outcome") not in ("conflict", "failed")]
            if back:
                text = (
                    f"Reverted by the user; entries before record {record.seq} may no longer hold "
                    f"for {', '.join(back)}"
                )
                self._note(heading, text, record.seq, text, CHANGE_CHARS)

    def _note(self, heading: str, about: str, seq: int, text: str, limit: int) -> None:
        if not text.strip():
            return
        entries = self.entries[heading]
        about = shorten(about, limit)
        entries.pop(about, None)  # A repeated entry moves to the end.
        entries[about] = (seq, shorten(text.strip(), limit))


def _limit(heading: str) -> int:
    return ASKED_CHARS if heading == ASKED else 2 * ERROR_CHARS


def _line(seq: int, text: str) -> str:
    return f"- [{seq}] {_indented(text)}"


def _change(old: object, new: object) -> str:
    """Return the lines of ``new`` that ``old`` lacks, joined to one line."""
    if not isinstance(new, str):
        return ""
    before = set(old.splitlines()) if isinstance(old, str) else set()
    lines = [line.strip() for line in new.splitlines() if line.strip() and line not in before]
    return shorten(" ⏎ ".join(lines), CHANGE_CHARS)


def _newest(lines: list[str], room: int) -> list[str]:
    """Return the newest lines that fit in ``room``, after a line that counts the others."""
    kept: list[str] = []
    used = 0
    more = MARKER_CHARS if sum(len(line) + 1 for line in lines) > room else 0
    for line in reversed(lines):
        if used + len(line) + 1 > room - more:
            break
        kept.append(line)
        used += len(line) + 1
    left_out = len(lines) - len(kept)
    if left_out and kept:
        kept.append(_left_out(left_out))
    return kept[::-1]


def _left_out(count: int) -> str:
    return f"- ({count} older ones in the records)"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
