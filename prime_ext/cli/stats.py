"""``jupyter prime stats``: show tokens, cost and compactions of a session."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_ext.cli.place import add_data_dir, open_place
from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from prime_ext.session.records import AnyRecord

WIDTH, HEIGHT = 64, 8
"""Size of the chart in the terminal, in characters."""

_EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Course:
    """Size of the context over the requests of a session, with its compactions."""

    tokens: list[int]
    """Size of each request in tokens, as reported by the API."""
    compactions: list[tuple[int, str]]
    """For each compaction, the number of requests before it and the path that it took."""


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "stats",
        help="show tokens, cost and compactions of a session",
        description="Show what a session has cost, how much of it came from the prompt cache, "
        "what compaction has saved, and how the context's size went.",
    )
    parser.add_argument("session", nargs="?", help="id of the session")
    parser.add_argument("--notebook", help="the newest session about this notebook instead")
    parser.add_argument("--json", action="store_true", help="print JSON, one object")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the course into FILE")
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the statistics."""
    from prime_ext.session.log import SessionLog
    from prime_ext.session.telemetry import KINDS, Telemetry

    if not arguments.session and not arguments.notebook:
        raise PrimeError(
            "No session was given.",
            code="no_session_named",
            hint="Give its id, or --notebook with a path. `jupyter prime sessions` lists them.",
        )
    with open_place(arguments.data_dir) as place:
        session = place.session_id(arguments.session, arguments.notebook)
        log = SessionLog.open(place.store.folder / session / "session.jsonl")
        try:
            records = log.get_all(log.seqs_of(*KINDS))
        finally:
            log.close()
    telemetry = Telemetry()
    for record in records:
        telemetry.observe(record)
    course = course_of(records)
    if arguments.plot is not None:
        draw(course, arguments.plot)
    if arguments.json:
        values = {
            "session": session,
            **telemetry.sums(),
            "context_tokens": course.tokens,
            "compacted_at": [at for at, _ in course.compactions],
        }
        print(json.dumps(values, indent=2))
        return 0
    print("\n".join([f"Session {session}", *table(telemetry.sums()), "", *chart(course)]))
    return 0


def course_of(records: Sequence[AnyRecord]) -> Course:
    """Compute the course of the context from a session's records."""
    from prime_ext.context.tokens import context_tokens
    from prime_ext.session.records import AssistantMessage, CompactionEnd

    course = Course([], [])
    for record in records:
        if isinstance(record, AssistantMessage):
            size = context_tokens(record.usage)
            if size is not None:
                course.tokens.append(size)
        elif isinstance(record, CompactionEnd) and record.outcome == "ok":
            course.compactions.append((len(course.tokens), record.path or ""))
    return course


def table(sums: dict[str, Any]) -> list[str]:
    """Format the sums, one line each."""
    rate, per_turn = sums["cache_hit_rate"], sums["tokens_per_turn"]
    cached = f", {rate:.1%} of them from the cache" if rate is not None else ""
    each = f", {per_turn:,} a turn" if per_turn is not None else ""
    paths = ", ".join(
        f"{path} ×{entry['count']} (longest wait {_seconds(entry['longest_wait_ms'])})"
        for path, entry in sorted(sums["compactions"].items())
    )
    rows = [
        ("Turns", f"{sums['turns']:,} with {sums['requests']:,} requests"),
        ("Input", f"{sums['input_tokens']:,} tokens{cached}{each}"),
        ("Output", f"{sums['output_tokens']:,} tokens"),
        ("Cost", f"about ${sums['cost_usd']:,.2f}"),
        (
            "Summaries",
            f"about ${sums['summary_cost_usd']:,.2f} of it, for "
            f"{sums['summary_input_tokens']:,} of the input tokens",
        ),
        ("Compactions", f"{sums['compaction_count']:,}{': ' if paths else ''}{paths}"),
        ("Saved", f"{sums['tokens_saved']:,} tokens taken out of the context"),
        (
            "Notes ahead",
            f"{sums['notes_made']:,} made, {sums['notes_used']:,} used, "
            f"{sums['notes_wasted']:,} wasted",
        ),
        (
            "Notes rolled",
            f"{sums['rolls_made']:,} times, {sums['wasted_rolls']:,} wasted",
        ),
    ]
    return [f"{name:<12} {value}" for name, value in rows]


def chart(course: Course) -> list[str]:
    """Draw the size of the context for a terminal, with a caret under each compaction."""
    if not course.tokens:
        return ["No request has been answered yet."]
    columns = min(WIDTH, len(course.tokens))
    share = len(course.tokens) / columns
    heights = [
        max(course.tokens[int(c * share) : max(int(c * share) + 1, int((c + 1) * share))])
        for c in range(columns)
    ]
    top = max(heights)
    lines = []
    for row in range(HEIGHT, 0, -1):
        cells = (_EIGHTHS[_eighths(height / top * HEIGHT - row + 1)] for height in heights)
        label = f"{top:>9,}" if row == HEIGHT else f"{0:>9}" if row == 1 else " " * 9
        lines.append(f"{label} {''.join(cells)}".rstrip())
    marks = [" "] * columns
    for at, _ in course.compactions:
        marks[min(columns - 1, int(at / share))] = "^"
    under = f"{'':>9} {''.join(marks)}".rstrip()
    legend = f"{'':>9} tokens in the context, requests 1 to {len(course.tokens)}"
    return [*lines, *([under] if under else []), legend + ("; ^ compacted" if under else "")]


def draw(course: Course, path: Path) -> None:
    """Plot the course into an image file.

    Raises
    ------
    PrimeError
        ``no_matplotlib``, or ``not_drawn`` if the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PrimeError(
            "Drawing needs matplotlib.", code="no_matplotlib", hint="pip install matplotlib"
        ) from error
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.add_subplot()
    requests = range(1, len(course.tokens) + 1)
    axes.plot(requests, course.tokens, drawstyle="steps-post", linewidth=1.2)
    for at, _ in course.compactions:
        axes.axvline(at + 0.5, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="request", ylabel="tokens in the context")
    axes.set_ylim(bottom=0)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise PrimeError(
            f"{path} could not be written: {error}.",
            code="not_drawn",
            hint="Give a writable path that ends in .png, .svg or .pdf.",
        ) from error


def _eighths(height: float) -> int:
    return max(0, min(8, round(height * 8)))


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1_000 else f"{milliseconds / 1000:.1f} s"
