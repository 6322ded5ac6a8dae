"""How a name was made, for those that a restore could not bring back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from prime_ext.agent.kernel_events import standing
from prime_ext.session.records import AnyRecord, AssistantMessage, Restore, Snapshot

MAX_SOURCE = 4000


def lacking(record: Restore) -> list[str]:
    """Names that are missing or placeholders and come without the code that made them."""
    return [
        name
        for name, entry in record.names.items()
        if standing(entry) in ("placeholder", "missing")
        and not (entry.get("recipe") or {}).get("source")
    ]


def with_lost_names(record: Restore, snapshots: Iterable[AnyRecord | None]) -> Restore:
    """The record with the names that were saved last and that it does not speak of.

    Where the newest snapshot cannot be read, its own record still says what it held.

    Parameters
    ----------
    snapshots:
        Records of the session's snapshots, newest first; read as far as need be.
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
    """The record with the source of the last cell, or run of the agent's, that set such a name.

    Parameters
    ----------
    cells:
        Sources of the notebook's code cells, in order.
    ran:
        Records of the session, in order; the code that the agent has run is in them.
    """
    wanted = set(lacking(record))
    if not wanted:
        return record
    found: dict[str, str] = {}
    # What the notebook says now is what the person would run again.
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

    # A line for IPython alone would keep the rest from being parsed.
    lines = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in source.splitlines()]
    names: set[str] = assigned_names("\n".join(lines))
    return names


def code_cells(content: Any) -> list[str]:
    """Sources of the code cells of a notebook as the contents manager gives it."""
    return [
        str(cell.get("source", ""))
        for cell in (content or {}).get("cells", [])
        if cell.get("cell_type") == "code"
    ]
