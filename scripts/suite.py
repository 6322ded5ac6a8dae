"""Several runners, one after the other or side by side, and what they add up to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from . import runner
from .environment import Environment
from .machine import say
from .runner import Outcome, Runner, Tally

Work = Callable[[], Outcome]
"""Runs one of them to its end."""


def run_one(each: Runner, arguments: Sequence[str], environment: Environment) -> list[Outcome]:
    """Run one, its output shown as it comes."""

    def show(line: str) -> None:
        print(line, end="", flush=True)

    return [runner.run(each, arguments, cwd=environment.root, env=environment.variables, show=show)]


def each_of(runners: Sequence[Runner], environment: Environment) -> list[Work]:
    return [
        partial(runner.run, each, cwd=environment.root, env=environment.variables)
        for each in runners
    ]


def run_all(works: Sequence[Work], *, at_once: int = 2) -> list[Outcome]:
    """Do them, the first ones first and always ``at_once`` of them, so that none waits for long.

    The output of each is shown when it has ended.
    """
    printing = threading.Lock()

    def show(work: Work) -> Outcome:
        outcome = work()
        with printing:
            state = "ok" if outcome.ok else "FAILED"
            say(f"{outcome.runner.name}: {state} ({outcome.seconds:.0f} s)")
            print(outcome.output, flush=True)
        return outcome

    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(show, works))


def close(outcomes: Sequence[Outcome]) -> int:
    """Print who took how long, the closing lines, and the total. Returns the exit code."""
    print()
    for outcome in outcomes:
        state = "ok" if outcome.ok else "FAILED"
        print(f"{outcome.runner.name:<12} {state:<7} {outcome.seconds:6.1f} s")
    for outcome in outcomes:
        for line in outcome.lines:
            print(line)
    print(sum((outcome.tally for outcome in outcomes), Tally()))
    return 0 if all(outcome.ok for outcome in outcomes) else 1
