"""The sections of a summary: rendering as Markdown of limited length, and parsing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

SECTIONS = (
    "Goal",
    "Constraints",
    "Decisions",
    "Commands and values",
    "Errors",
    "Files and cells",
    "State of work",
    "Next steps",
)

# Weights by which the room is divided if not everything fits. Room that a section does not need
# goes to the others.
_SHARES = {
    "Goal": 22,
    "Constraints": 8,
    "Decisions": 12,
    "Commands and values": 26,
    "Errors": 10,
    "Files and cells": 8,
    "State of work": 10,
    "Next steps": 4,
}
_ITEM_CHARS = {"Goal": 1_500, "Commands and values": 1_200, "State of work": 1_000}
_ITEM_CHARS_ELSE = 500

# Prefixes of items that are parsed again, to continue an open request or the tour.
OPEN_REQUEST = "Open request: "
DONE_CALL = "Done for it: "
TOUR_STEP = "/tour step "

LEFT_OUT = " … "
"""Replaces the omitted middle of a text."""

_HEADING = re.compile(r"^#{1,4} +(.+?):?\s*$")


def render(items: dict[str, list[str]], max_chars: int) -> str:
    """Render a summary.

    Parameters
    ----------
    items:
        The items of each of ``SECTIONS``, oldest first; an item may have several lines. The last
        item of the section "Goal" is the last request.
    max_chars:
        Maximum characters of the result.

    Returns
    -------
    str
        Markdown with a heading for each section that is not empty. If not everything fits, a
        section keeps its newest items and says how many were left out.
    """
    if max_chars <= 0:
        return ""
    budgets = _budgets(items, max_chars)
    parts = []
    for section in SECTIONS:
        body = _section(section, items[section], budgets[section])
        if body:
            parts.append(f"## {section}\n{body}")
    text = "\n\n".join(parts)
    if text and len(text) <= max_chars:
        return text
    # There is not even room for headings: return the last request alone.
    last = items["Goal"][-1] if items["Goal"] else ""
    return shorten(last, max_chars)


def share_out(need: Mapping[str, int], room: int, shares: Mapping[str, int]) -> dict[str, int]:
    """Divide ``room`` in proportion to ``shares``, giving no name more than its ``need``.

    Room that one name does not need goes to the others.
    """
    unsettled = {name for name, wanted in need.items() if wanted}
    given = dict.fromkeys(need, 0)
    while unsettled:
        total = sum(shares[name] for name in unsettled)
        content = {name for name in unsettled if need[name] <= room * shares[name] // total}
        if not content:
            for name in unsettled:
                given[name] = room * shares[name] // total
            break
        for name in content:
            given[name] = need[name]
            room -= need[name]
        unsettled -= content
    return given


def _budgets(items: dict[str, list[str]], max_chars: int) -> dict[str, int]:
    """Return the characters of each section: its share and a part of what others do not need."""
    need = {
        section: sum(len(_item(item, _limit(section))) + 1 for item in items[section])
        for section in SECTIONS
    }
    headings = sum(len(section) + 6 for section in SECTIONS if items[section])
    room = max(0, max_chars - headings)
    budgets = share_out(need, room, _SHARES)
    if items["Goal"]:
        # The last request matters most, so it may take half of the whole summary.
        wanted = len(_item(items["Goal"][-1], max_chars)) + 1
        missing = min(wanted, max_chars // 2) - budgets["Goal"]
        if missing > 0:
            others = sum(budgets.values()) - budgets["Goal"]
            budgets["Goal"] += missing
            for section in SECTIONS:
                if section != "Goal" and others:
                    budgets[section] -= -(-missing * budgets[section] // others)
    return budgets


def _section(section: str, items: list[str], budget: int) -> str:
    """Return the newest items that fit. Of "Goal" the first item is preferred too: it says what the
    session began with."""
    if not items or budget <= 4:
        return ""
    limit = _limit(section)
    whole = "\n".join(_item(item, limit) for item in items)
    if len(whole) < budget:
        return whole
    order = list(range(len(items) - 1, -1, -1))
    if section == "Goal" and len(items) > 2:
        order.insert(1, order.pop())
    marker_room = 60 if budget > 240 else 0
    kept: dict[int, str] = {}
    used = 0
    for index in order:
        newest = index == len(items) - 1
        text = _item(items[index], budget if newest and section == "Goal" else limit)
        if used + len(text) + 1 > budget - (marker_room if len(kept) + 1 < len(items) else 0):
            if kept:
                break
            text = _item(items[index], max(0, budget - marker_room - 1))
            if not text or len(text) + 1 > budget:
                return ""
        kept[index] = text
        used += len(text) + 1
    lines = [kept[index] for index in sorted(kept)]
    left_out = len(items) - len(kept)
    marker = f"- ({left_out} more in the session's records)"
    if left_out and used + len(marker) + 1 <= budget:
        lines.insert(1 if section == "Goal" and 0 in kept and len(kept) > 1 else 0, marker)
    return "\n".join(lines)


def _limit(section: str) -> int:
    return _ITEM_CHARS.get(section, _ITEM_CHARS_ELSE)


def _item(text: str, limit: int) -> str:
    """Return ``text`` as a list item of at most ``limit`` characters; later lines are indented."""
    if text.startswith(DONE_CALL):
        limit = max(limit, 1_600)  # It will be parsed again, so it must not be shortened.
    room = limit
    while room > 4:
        item = "- " + "\n".join(
            line if index == 0 or not line else f"  {line}"
            for index, line in enumerate(shorten(text, room - 2).splitlines())
        )
        if len(item) <= limit:
            return item
        room -= max(1, len(item) - limit)
    return ""


def parse(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the items of a summary, each with its section (``None`` before the first heading).

    Outside of lists, each paragraph is an item.
    """
    section: str | None = None
    lines: list[str] = []
    listed = False

    def flush() -> Iterator[tuple[str | None, str]]:
        item = "\n".join(lines).strip()
        lines.clear()
        if item and not re.fullmatch(r"\(\d+ more in the session's records\)", item):
            yield section, item

    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            yield from flush()
            name = heading[1].strip().lower()
            section = next((s for s in SECTIONS if s.lower() == name), section)
            listed = False
        elif line.startswith(("- ", "* ")):
            yield from flush()
            lines.append(line[2:])
            listed = True
        elif listed and (line.startswith("  ") or not line.strip()):
            lines.append(line[2:])
        elif not line.strip():
            yield from flush()
        else:
            if listed:
                yield from flush()
                listed = False
            lines.append(line)
    yield from flush()


def condensed(text: str, max_chars: int) -> str:
    """Shorten a summary to ``max_chars``, section by section."""
    items: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for section, item in parse(text):
        items[section or "State of work"].append(item)
    return render(items, max_chars)


def shorten(text: str, limit: int) -> str:
    """Return ``text``, with its middle left out if it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    if limit <= 1:
        return text[: max(0, limit)]
    if limit < 24:
        return text[: limit - 1] + "…"
    head = (limit - 3) * 2 // 3
    tail = limit - 3 - head
    return f"{text[:head]}{LEFT_OUT}{text[len(text) - tail :]}"
