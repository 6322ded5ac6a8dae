"""Several runners, one after the other or side by side, and what they add up to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from . import runner
from .environment import Environment
from .machine import say
from .runner import Outcome, Runner, Tally


def run_one(each: Runner, arguments: Sequence[str], environment: Environment) -> list[Outcome]:
    """Run one, its output shown as it comes."""

    def show(line: str) -> None:
        print(line, end="", flush=True)

    return [runner.run(each, arguments, cwd=environment.root, env=environment.variables, show=show)]


def run_all(
    runners: Sequence[Runner], environment: Environment, *, at_once: int = 2
) -> list[Outcome]:
    """Run them, the first ones first and always ``at_once`` of them, so that none waits for long.

    The output of each is shown when it has ended.
    """
    printing = threading.Lock()

    def run_quietly(each: Runner) -> Outcome:
        outcome = runner.run(each, cwd=environment.root, env=environment.variables)
        with printing:
            say(f"{each.name}: {'ok' if outcome.ok else 'FAILED'} ({outcome.seconds:.0f} s)")
            print(outcome.output, flush=True)
        return outcome

    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(run_quietly, runners))


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
