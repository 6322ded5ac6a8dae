"""Code that ran in a lost process after the last snapshot of its variables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prime_ext.kernel.freshness import Moment
from prime_ext.kernel.transport import Message

KEPT_RUNS = 1000
"""Number of runs remembered for each notebook's kernel."""

TOLD_RUNS = 10
"""Maximum number of runs whose code is reported: the last ones. The count covers all."""

MAX_CODE = 120
"""Maximum length of a reported line, in characters."""


@dataclass
class Run:
    """One execution that began in a kernel, from any client."""

    msg_id: str
    code: str
    """First line of the code."""
    began: datetime | None
    """Start by the kernel's clock, which also dates snapshots; ``None`` if unknown."""
    cut_off: bool = False
    """Whether it was running when the process ended."""

    @classmethod
    def begun_by(cls, message: Message) -> Run:
        """Return the run whose begin an ``execute_input`` message reports."""
        return cls(
            str(message["parent_header"].get("msg_id", "")),
            first_line(str(message["content"].get("code", ""))),
            _moment(message["header"].get("date")),
        )


def missed(
    lost: Iterable[tuple[Moment, Run]], created: str, captured: Moment | None
) -> dict[str, Any]:
    """Return the field ``behind`` of a `Restore` record; empty if the snapshot covers all runs.

    Parameters
    ----------
    lost:
        Runs in lost processes, oldest first, each with the moment at which it began.
    created:
        Date of the snapshot (ISO 8601).
    captured:
        Latest moment at which the process was known to match the snapshot. It may be later than
        ``created``, since a save that finds nothing changed writes no new snapshot. ``None`` if
        unknown.
    """
    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return {}
    runs = [
        run
        for moment, run in lost
        if not moment.is_reached_by(captured) and (run.began is None or run.began > then)
    ]
    if not runs:
        return {}
    behind: dict[str, Any] = {
        "as_of": created,
        "runs": len(runs),
        "code": [run.code for run in runs[-TOLD_RUNS:]],
    }
    if runs[-1].cut_off:
        behind["cut_off"] = True
    return behind


def first_line(code: str) -> str:
    """Return the first line of ``code``, shortened, with ``…`` if anything is left out."""
    lines = code.strip().splitlines() or [""]
    line = lines[0]
    if len(line) > MAX_CODE:
        # Cut between words: half of an API key would no longer be recognized and redacted.
        line = line[:MAX_CODE].rpartition(" ")[0]
    elif len(lines) == 1:
        return line
    return f"{line} …".strip()


def _moment(date: Any) -> datetime | None:
    """Parse the date of a message, which is a string if it came through a gateway."""
    if isinstance(date, str):
        with contextlib.suppress(ValueError):
            # `fromisoformat` of Python 3.10 does not accept the suffix Z.
            return datetime.fromisoformat(date.replace("Z", "+00:00"))
    return date if isinstance(date, datetime) else None
