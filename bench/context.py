"""What keeping the context small costs and what anyone waits, against other ways of doing it.

``python -m bench.context [session.jsonl …] [--markdown docs/compaction.md]``

A generated session of 47 hours, and recorded ones whose skeletons are given, are played through
the real agent, and over the same rules through other policies, in virtual time: see
``context_engine`` and ``context_baselines``. A recorded session is played in the window that it was
recorded in, and a long one in that of today's models as well. Each line of a skeleton is one event:
``{"t", "kind": "message", "role", "blocks": [{"type", "tool", "id", "cl100k"}], "model"}``; sizes
and times are all it needs, no text. All figures but the measured milliseconds are the same in each
run.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import virtual_time
from bench.context_baselines import (
    RESERVE_TOKENS,
    FullHistorySummary,
    Never,
    Policy,
    SystemPromptSummary,
    TwoPass,
    World,
    play,
)
from bench.context_engine import run_engine
from bench.context_figures import LATENCY, Run, percentile
from bench.filler import text_of
from bench.report import RESULTS, Measure, put_into, report
from bench.session_script import (
    GENERATED_REQUESTS,
    RECORDED_WINDOW,
    Script,
    generated,
    recorded,
)
from prime_ext.context.limits import DEFAULT_THRESHOLD
from prime_ext.models.capabilities import known_capabilities
from tests.messages_api.catalogue import MODELS

SUMMARY_TOKENS = 1_500
"""Of the public tokenizer: what the model answers when any policy asks for a summary."""

OVER = "largest request over the threshold by"

USUAL_SHARE = 0.8
"""Of the window, at which a single pass is usually made."""


def runs_of(script: Script) -> list[Run]:
    """``script`` under every policy: the agent, the agent with half its threshold, the others."""
    summary = text_of(SUMMARY_TOKENS, "summary")
    ours = virtual_time.run(run_engine(script, summary))
    half = {"max_context_tokens": ours.threshold // 2}
    smaller = virtual_time.run(run_engine(script, summary, "prime, half the threshold", half))
    price = known_capabilities(script.model).price
    if price is None:
        raise ValueError(f"No price is known for {script.model}")
    spec = {spec.id: spec for spec in MODELS}[script.model].with_window(script.window)
    world = World(spec, price, LATENCY, ours.frozen, summary)
    usual = SystemPromptSummary(
        int(USUAL_SHARE * script.window), "single pass, system prompt, 80 % of the window"
    )
    equal = SystemPromptSummary(ours.threshold, "single pass, system prompt, same threshold")
    policies: list[Policy] = [
        usual,
        equal,
        FullHistorySummary(script.window - RESERVE_TOKENS),
        TwoPass(ours.threshold),
        Never(),
    ]
    return [ours, smaller, *(play(script, policy, world) for policy in policies)]


def targets(runs: Sequence[Run]) -> list[Measure]:
    """What the agent is held to in one session; ``runs`` as ``runs_of`` gives them."""
    ours, half, usual, equal, full, _, never = (run.figures() for run in runs)
    turns = runs[0].of("turn")
    grown = [b.tokens - a.tokens for a, b in itertools.pairwise(turns)]
    over = max(0, ours["context_highest"] - ours["threshold"])
    waited = ours["tokens_while_waiting"]
    waited_usually = usual["tokens_while_waiting"] or equal["tokens_while_waiting"]
    name = runs[0].session

    def measure(
        what: str,
        value: float,
        unit: str,
        *,
        below: float | None = None,
        at_least: float | None = None,
    ) -> Measure:
        return Measure(f"{name}: {what}", value, unit, below, at_least=at_least)

    measures = [
        measure("input if nothing is compacted", never["input_tokens"] / 1e6, "M"),
        measure(OVER, over, "tokens", below=max(grown) + 1),
        measure(
            "fewer tokens a turn than a single pass at its usual threshold",
            _less(ours["tokens_per_turn"], usual["tokens_per_turn"]),
            "%",
            at_least=40,
        ),
        measure(
            "fewer tokens a turn than a single pass at the same threshold",
            _less(ours["tokens_per_turn"], equal["tokens_per_turn"]),
            "%",
        ),
        measure(
            "fewer tokens a turn, half the threshold",
            _less(half["tokens_per_turn"], usual["tokens_per_turn"]),
            "%",
        ),
        measure("cheaper, half the threshold", _less(half["cost_usd"], usual["cost_usd"]), "%"),
        measure("errors, and requests sent again", len(ours["problems"]), "", below=1),
        measure("largest context", _of_window(ours), "% of window", below=80),
        measure("largest context, full history", _of_window(full), "% of window"),
        measure(
            "tokens sent before that come from the cache",
            100 * ours["resent_tokens_cached"],
            "%",
            at_least=99,
        ),
        measure(
            "missed by a request after a compaction, at most",
            ours["missed_after_summary_highest"],
            "tokens",
            below=20_001,
        ),
    ]
    if "prune" in ours["compactions"]:
        missed = ours["missed_after_prune_highest"]
        measures.append(measure("missed by a request after a prune, at most", missed, "tokens"))
    if waited_usually:
        measures.append(
            measure(
                "fewer tokens sent while anyone waits than in a single pass",
                _less(waited, waited_usually),
                "%",
                at_least=80,
            )
        )
    if any(wait.path == "swap" for wait in runs[0].waits):
        swaps = [wait for wait in runs[0].waits if wait.path == "swap"]
        measures += [
            measure("sent in swaps", sum(w.sent_tokens for w in swaps), "tokens", below=1),
            measure(
                "wait for a swap, 95 %",
                1000 * percentile([wait.seconds for wait in swaps], 0.95),
                "ms",
                below=50.001,
            ),
            measure(
                "processor time of a swap, 95 %",
                1000 * percentile([wait.processor_s for wait in swaps], 0.95),
                "ms",
            ),
        ]
    if equal["compactions"]:
        measures.append(measure("wait for a single pass, 95 %", 1000 * equal["wait_s_95"], "ms"))
    if ours["notes"]:
        measures += [
            measure("notes wasted", 100 * ours["notes_wasted"], "%", below=10.001),
            measure("notes cached", 100 * ours["notes_cached"], "%", at_least=95),
        ]
    return measures


def _largest(runs: Sequence[Run]) -> int:
    """Tokens that the session comes to in one context, if nothing is compacted."""
    return int(runs[-1].figures()["context_highest"])


def _of_window(figures: dict[str, Any]) -> float:
    return float(100 * figures["context_highest"] / figures["window"])


def _less(ours: float, theirs: float) -> float:
    return 100 * (1 - ours / theirs) if theirs else 0.0


COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "policy": lambda f: f["policy"],
    "threshold": lambda f: f"{f['threshold'] / 1000:,.0f}k" if f["threshold"] else "–",
    "compactions": lambda f: (
        ", ".join(
            f"{count} {path.replace('_', ' ')}" for path, count in sorted(f["compactions"].items())
        )
        or "–"
    ),
    "input": lambda f: f"{f['input_tokens'] / 1e6:.1f}M",
    "cached": lambda f: f"{100 * f['hit_rate']:.1f} %",
    "cost": lambda f: f"${f['cost_usd']:.2f}",
    "tokens a turn": lambda f: f"{f['tokens_per_turn'] / 1000:,.0f}k",
    "context, mean": lambda f: f"{f['context_mean'] / 1000:,.0f}k",
    "context, largest": lambda f: f"{f['context_highest'] / 1000:,.0f}k",
    "wait, 50 %": lambda f: _seconds(f, "wait_s_median"),
    "wait, 95 %": lambda f: _seconds(f, "wait_s_95"),
    "sent while waiting": lambda f: f"{f['tokens_while_waiting'] / 1000:,.0f}k",
}


def _seconds(figures: dict[str, Any], key: str) -> str:
    return f"{figures[key]:.2f} s" if figures["compactions"] else "–"


def table(runs: Sequence[Run]) -> str:
    """The policies of one session, one a line, as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
    for run in runs:
        figures = run.figures()
        lines.append(f"| {' | '.join(cell(figures) for cell in COLUMNS.values())} |")
    return "\n".join(lines)


def measures_table(measures: Sequence[Measure], sessions: Sequence[str]) -> str:
    """What was measured, a session a column, as Markdown."""
    found = {measure.name: measure for measure in measures}
    what = dict.fromkeys(measure.name.split(": ", 1)[1] for measure in measures)
    lines = [
        f"| measure | target | {' | '.join(sessions)} |",
        "|" + " --- |" * (2 + len(sessions)),
    ]
    for name in what:
        cells = []
        target = ""
        for session in sessions:
            measure = found.get(f"{session}: {name}")
            if measure is None:
                cells.append("–")
                continue
            target = target or measure.target
            cells.append(str(measure) + ("" if measure.met else " (missed)"))
        if name == OVER:  # the target is another in each session
            target = "less than one request adds"
        lines.append(f"| {name} | {target or '–'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(sessions: Sequence[Sequence[Run]], measures: Sequence[Measure]) -> str:
    """All tables, with what the machine did meanwhile."""
    about = (
        f"One run on {os.cpu_count()} processors, with a load of {os.getloadavg()[1]:.1f} at its "
        "end, from other work as well:"
    )
    tables = [
        f"**{runs[0].session}**, {runs[0].turns} turns, window {runs[0].window:,} tokens\n\n"
        f"{table(runs)}"
        for runs in sessions
    ]
    names = [runs[0].session for runs in sessions]
    return "\n\n".join([about, *tables, measures_table(measures, names)])


def plot(sessions: Sequence[Sequence[Run]], path: Path) -> None:
    """The context's size at each request, a picture for each session."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(
        len(sessions), 1, figsize=(9, 3.4 * len(sessions)), squeeze=False
    )
    for axes, runs in zip(all_axes[:, 0], sessions, strict=True):
        for run in reversed(runs):
            ours = run is runs[0]
            axes.plot(
                [sent.tokens / 1000 for sent in run.of("turn")],
                label=run.policy,
                linewidth=2.2 if ours else 1.0,
                color="black" if ours else None,
                zorder=3 if ours else 2,
            )
        axes.axhline(runs[0].window / 1000, linestyle=":", color="grey", label="window")
        axes.set_title(runs[0].session, fontsize=9)
        axes.set_xlabel("request", fontsize=8)
        axes.set_ylabel("thousand tokens", fontsize=8)
        axes.tick_params(labelsize=7)
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], fontsize=6.5, loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.context")
    parser.add_argument("sessions", nargs="*", type=Path)
    parser.add_argument("--requests", type=int, help="only so many of each session")
    parser.add_argument("--window", type=int, help="tokens that every model takes")
    parser.add_argument("--recorded-only", action="store_true", help="do not generate a session")
    parser.add_argument("--plot", type=Path)
    parser.add_argument(
        "--markdown", type=Path, help="a page with the marks `bench.context`, for the tables"
    )
    options = parser.parse_args(arguments)
    scripts = [] if options.recorded_only else [generated(options.requests or GENERATED_REQUESTS)]
    scripts += [recorded(path) for path in options.sessions]
    if options.requests:
        scripts = [script.first(options.requests) for script in scripts]
    if options.window:
        scripts = [dataclasses.replace(script, window=options.window) for script in scripts]

    measures: list[Measure] = []
    sessions: list[list[Run]] = []
    waiting = deque(scripts)
    while waiting:
        script = waiting.popleft()
        started = time.perf_counter()
        runs = runs_of(script)
        spent = time.perf_counter() - started
        sessions.append(runs)
        if script.window == RECORDED_WINDOW and _largest(runs) > DEFAULT_THRESHOLD:
            waiting.appendleft(script.widened())
        print(f"\n{script.name}: {script.model}, window {script.window:,} tokens ({spent:.0f} s)\n")
        print(table(runs))
        for problem in runs[0].problems:
            print(f"\nProblem: {problem}")
        measures += targets(runs)
    print(
        f"\nLatency: {LATENCY.first_token_s} s to the first token, "
        f"{LATENCY.input_tokens_per_s:,.0f} uncached and {LATENCY.tokens_per_s:.0f} written tokens "
        "a second."
    )
    reduced = bool(options.requests or options.window or options.recorded_only)
    name = "context-reduced" if reduced else "context"
    RESULTS.mkdir(exist_ok=True)
    plot(sessions, options.plot or RESULTS / f"{name}.png")
    if options.markdown:
        put_into(options.markdown, "bench.context", page(sessions, measures))
    return report(
        name,
        measures,
        latency=dataclasses.asdict(LATENCY),
        runs=[run.figures() for runs in sessions for run in runs],
        details=[run.detail() for runs in sessions for run in runs],
    )


if __name__ == "__main__":
    sys.exit(main())
