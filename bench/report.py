"""How a benchmark reports: tables for people, JSON for comparing, an exit code for targets."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import prime_ext

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measure:
    """One line of a report."""

    name: str
    value: float
    unit: str
    below: float | None = None
    """The target: the value must be less. None: only reported."""
    samples: int = 1
    at_least: float | None = None
    """The target, where more is better."""

    @property
    def met(self) -> bool:
        is_below = self.below is None or self.value < self.below
        return is_below and (self.at_least is None or self.value >= self.at_least)

    @property
    def target(self) -> str:
        """The target in words; empty if there is none."""
        if self.below is not None:
            return f"< {self.below:g} {self.unit}"
        return "" if self.at_least is None else f"≥ {self.at_least:g} {self.unit}"

    def __str__(self) -> str:
        """The value and its unit; whole where it is large."""
        number = f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:.3g}"
        return f"{number} {self.unit}".strip().replace("-", "−")


def median(name: str, samples: Sequence[float], unit: str, below: float | None = None) -> Measure:
    """The median of samples as one measure."""
    return Measure(name, statistics.median(samples), unit, below, len(samples))


def markdown(measures: Sequence[Measure]) -> str:
    """What was measured, target and value, as a table."""
    rows = ["| what | target | measured |", "| --- | --- | --- |"]
    for measure in measures:
        missed = "" if measure.met else " (missed)"
        rows.append(f"| {measure.name} | {measure.target or '–'} | {measure}{missed} |")
    return "\n".join(rows)


def put_into(page: Path, mark: str, text: str) -> None:
    """Replace what stands in ``page`` between ``<!-- mark -->`` and ``<!-- end of mark -->``.

    Raises
    ------
    SystemExit
        If the page lacks the marks.
    """
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, begins, rest = page.read_text("utf-8").partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise SystemExit(f"{page} lacks the marks {begin} and {end}.")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")


def report(bench: str, measures: Sequence[Measure], **details: object) -> int:
    """Print and write the measures. Returns the exit code: 1 if a target is missed.

    ``details`` (JSON types) are written beside the measures.
    """
    width = max(len(measure.name) for measure in measures)
    print(f"\n{bench} (Python {platform.python_version()}, {os.cpu_count()} cores)")
    for measure in measures:
        target = ""
        if measure.target:
            target = f"target {measure.target}: {'met' if measure.met else 'MISSED'}"
        print(f"  {measure.name:<{width}}  {measure.value:10.2f} {measure.unit:<6} {target}")

    RESULTS.mkdir(exist_ok=True)
    content = {
        "bench": bench,
        "version": prime_ext.__version__,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "measures": [asdict(measure) for measure in measures],
        **details,
    }
    (RESULTS / f"{bench}.json").write_text(json.dumps(content, indent=2) + "\n")
    return 0 if all(measure.met for measure in measures) else 1
