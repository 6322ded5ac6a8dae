"""Code that ran in a process that is gone, after its variables had been saved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prime_ext.kernel.freshness import Moment

KEPT_RUNS = 1000
"""Runs that are remembered of a notebook's kernel."""

TOLD_RUNS = 10
"""Runs of which the code is told; of more the last ones, and their number."""

MAX_CODE = 120
"""Characters of a line that are kept."""


@dataclass
class Run:
    """Code that began in a kernel, whoever sent it."""

    msg_id: str
    code: str
    """Its first line."""
    began: datetime | None
    """By the clock of the kernel, which also tells when a snapshot was made."""
    cut_off: bool = False
    """It ran when the process ended."""


def missed(
    lost: Iterable[tuple[Moment, Run]], created: str, captured: Moment | None
) -> dict[str, Any]:
    """``behind`` of the record `Restore`; empty if all that ran is in the snapshot.

    Parameters
    ----------
    lost:
        Runs in processes that are gone, and how far their process had come with each; in order.
    created:
        When the snapshot was made.
    captured:
        How far the process had come that was last found to be as this snapshot has it: a save that
        finds nothing changed makes no other. ``None`` if that is unknown.
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
    """What is told of ``code``."""
    lines = code.strip().splitlines() or [""]
    line = lines[0]
    if len(line) > MAX_CODE:
        # Of a key that is cut in two nobody would see that it has to be redacted.
        line = line[:MAX_CODE].rpartition(" ")[0]
    elif len(lines) == 1:
        return line
    return f"{line} …".strip()
