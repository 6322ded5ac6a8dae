"""The code that defined the names that a restore could not bring back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from prime_ext.agent.kernel_events import standing
from prime_ext.session.records import AnyRecord, AssistantMessage, Restore, Snapshot

MAX_SOURCE = 4000


def lacking(record: Restore) -> list[str]:
    """Return the missing names and placeholders whose defining code is not known yet."""
    return [
        name
        for name, entry in record.names.items()
        if standing(entry) in ("placeholder", "missing")
        and not (entry.get("recipe") or {}).get("source")
    ]


def with_lost_names(record: Restore, snapshots: Iterable[AnyRecord | None]) -> Restore:
    """Return the record with the names of the newest snapshot that it lacks, as skipped.

    If the newest snapshot cannot be read, its record in the log still lists its names.

    Parameters
    ----------
    snapshots:
        Snapshot records of the session, newest first; read only as far as necessary.
    """
    if record.trigger == "manual" or (record.outcome != "failed" and record.saved is None):
        return record
    saved = next((r.names for r in snapshots if isinstance(r, Snapshot) and r.names), {})
    reason = "what was saved of it cannot be loaded" if record.saved is None else "set later"
    lost = {
        name: {
            **{field: entry[field] for field in ("type", "size", "recipe") if field in entry},
            "status": "skipped",
            "action": "none",
            "reason": reason,
        }
        for name, entry in saved.items()
        if name not in record.names
    }
    if not lost:
        return record
    outcome = "failed" if record.outcome == "failed" else "partial"
    return msgspec.structs.replace(record, outcome=outcome, names={**record.names, **lost})


def with_recipes(record: Restore, cells: Sequence[str], ran: Iterable[AnyRecord]) -> Restore:
    """Return the record with the code that defines each name that `lacking` returns.

    This is the last cell that assigns the name, or else the last code that the agent has run.

    Parameters
    ----------
    cells:
        Sources of the notebook's code cells, in order.
    ran:
        Records of the session in order, with the code that the agent has run.
    """
    wanted = set(lacking(record))
    if not wanted:
        return record
    found: dict[str, str] = {}
    # Cells take precedence: the person would run the notebook as it is now.
    for source in (*_run_code(ran), *cells):
        for name in wanted & _assigned(source):
            found[name] = source[:MAX_SOURCE]
    if not found:
        return record
    names = dict(record.names)
    for name, source in found.items():
        recipe = {"type": names[name].get("type", ""), **(names[name].get("recipe") or {})}
        names[name] = {**names[name], "recipe": {**recipe, "source": source}}
    return msgspec.structs.replace(record, names=names)


def _run_code(records: Iterable[AnyRecord]) -> list[str]:
    return [
        block["input"]["code"]
        for record in records
        if isinstance(record, AssistantMessage)
        for block in record.content
        if block.get("type") == "tool_use"
        and block.get("name") == "run_code"
        and isinstance(block.get("input", {}).get("code"), str)
    ]


def _assigned(source: str) -> set[str]:
    from prime_ext.state.recipes import assigned_names

    # Magics and shell commands are not Python, and would keep the rest from being parsed.
    lines = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in source.splitlines()]
    names: set[str] = assigned_names("\n".join(lines))
    return names


def code_cells(content: Any) -> list[str]:
    """Return the sources of the code cells in a notebook's content (nbformat 4)."""
    return [
        str(cell.get("source", ""))
        for cell in (content or {}).get("cells", [])
        if cell.get("cell_type") == "code"
    ]
