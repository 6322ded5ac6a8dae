"""Test runners and checks: run one, show what it prints, keep its closing lines and counts."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Tally:
    """How many tests did what."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


@dataclass(frozen=True)
class Runner:
    """A command, and how its closing lines begin; a check has none and counts as one test."""

    name: str
    command: Sequence[str | Path]
    closing: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a runner."""

    runner: Runner
    ok: bool
    seconds: float
    output: str
    lines: tuple[str, ...]
    tally: Tally


PYTEST = re.compile(
    r"^=+ .*\b(passed|failed|error|errors|skipped|no tests ran)\b.* in [\d.]+s.*=+$"
)
JEST = re.compile(r"^Tests: ")
PLAYWRIGHT = re.compile(r"^ +\d+ (passed|failed|flaky|skipped|interrupted|did not run)\b")

# How the runners call what did not pass. `flaky` is Playwright's word for one that passed in the
# end.
KINDS = {
    "passed": "passed",
    "flaky": "passed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "interrupted": "failed",
    "did not run": "failed",
    "xpassed": "passed",
    "xfailed": "passed",
    "skipped": "skipped",
    "todo": "skipped",
}
COUNT = re.compile(rf"(\d+) ({'|'.join(sorted(KINDS, key=len, reverse=True))})\b")


def tally(lines: Sequence[str]) -> Tally:
    """Add up the counts in a runner's closing lines."""
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for line in lines:
        for number, word in COUNT.findall(line):
            counts[KINDS[word]] += int(number)
    return Tally(**counts)


def closing_lines(output: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """The lines in which the runner sums up, without colours."""
    lines = (ANSI.sub("", line).rstrip() for line in output.splitlines())
    return tuple(line for line in lines if pattern.search(line))


def run(
    runner: Runner,
    arguments: Sequence[str] = (),
    *,
    cwd: Path,
    env: Mapping[str, str],
    show: Callable[[str], None] | None = None,
) -> Outcome:
    """Run it to its end; `show` gets each line of its output as it comes."""
    started = time.monotonic()
    output: list[str] = []
    with subprocess.Popen(
        [*runner.command, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if show is not None:
                show(line)
    return judge(runner, process.returncode, "".join(output), time.monotonic() - started)


def judge(runner: Runner, returncode: int, output: str, seconds: float) -> Outcome:
    """The outcome of a runner that ended: its own word, unless that and its counts disagree."""
    if runner.closing is None:
        ok = returncode == 0
        return Outcome(runner, ok, seconds, output, (), Tally(int(ok), int(not ok)))
    lines = closing_lines(output, runner.closing)
    counted = tally(lines)
    ok = returncode == 0 and counted.failed == 0 and counted.passed > 0
    if not ok and counted.failed == 0:
        # It broke before, or beside, its tests: that is a failure too, and must be counted.
        counted += Tally(failed=1)
    return Outcome(runner, ok, seconds, output, lines, counted)
