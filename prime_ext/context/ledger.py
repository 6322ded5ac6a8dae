"""The ledger: exact details of the compacted records, kept by code so that no model can bend them.

It grows with each compaction: what an earlier one has noted is taken over, what was compacted
since is added. The summary turn shows as much as there is room for, the newest first.
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
"""Headings, in order, and how the room is divided where not everything fits."""

ASKED = "What the user asked"

MAX_ENTRIES = 400
"""Of one heading; the oldest go."""
WHOLE_SHARE = 0.6
"""Of the room for what the user asked, that the newest messages may take as they are."""
ASKED_CHARS = 600
"""Of a message as it is shown."""
MARKER_CHARS = 40
"""Of the line that says how many are left out."""
STORED_CHARS = 3_000
"""Of a message as it is kept, for the details in it."""
CHANGE_CHARS = 320
ERROR_CHARS = 400

_READING = ("read_file", "search_files")
_WRITING = ("edit_file", "write_file")
_OURS = ("compaction", "session")
"""Where errors come from that say nothing of the work."""

Entries = dict[str, tuple[int, str]]
"""What an entry is about → the record's ``seq`` and the text; oldest first."""


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """What code has noted of the records up to ``through_seq``."""

    through_seq: int = 0
    entries: dict[str, Entries] = {}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Ledger:
        """What ``to_dict`` gave; an empty ledger if it is of another shape."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return cls()

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    def extended(self, records: Iterable[AnyRecord], through_seq: int) -> Ledger:
        """With what the records behind ``self.through_seq`` and up to ``through_seq`` say."""
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
        """The ledger as text of at most ``max_chars`` characters; empty if it has nothing."""
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
        """The newest messages as they are, of the older ones the exact details alone."""
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
            self._note(ASKED, record.text, record.seq, record.text, STORED_CHARS)
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
        """What was taken back is not forgotten, but must not be taken for what is there."""
        for heading, entries, key in (
            ("Cells changed", record.cells, "cell_id"),
            ("Files changed", record.files, "path"),
        ):
            back = [str(e[key]) for e in entries if e.get("outcome") not in ("conflict", "failed")]
            if back:
                text = (
                    f"Taken back by the user, as it was before record {record.seq}: "
                    + ", ".join(back)
                )
                self._note(heading, text, record.seq, text, CHANGE_CHARS)

    def _note(self, heading: str, about: str, seq: int, text: str, limit: int) -> None:
        if not text.strip():
            return
        entries = self.entries[heading]
        about = shorten(about, limit)
        entries.pop(about, None)  # what happens again moves to its newest place
        entries[about] = (seq, shorten(text.strip(), limit))


def _limit(heading: str) -> int:
    return ASKED_CHARS if heading == ASKED else 2 * ERROR_CHARS


def _line(seq: int, text: str) -> str:
    return f"- [{seq}] {_indented(text)}"


def _change(old: object, new: object) -> str:
    """The lines that are new, in one."""
    if not isinstance(new, str):
        return ""
    before = set(old.splitlines()) if isinstance(old, str) else set()
    lines = [line.strip() for line in new.splitlines() if line.strip() and line not in before]
    return shorten(" ⏎ ".join(lines), CHANGE_CHARS)


def _newest(lines: list[str], room: int) -> list[str]:
    """As many of the newest lines as fit, and how many do not."""
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
