"""How fast a namespace is saved and restored, against what else there is.

One run: every way of saving, interleaved, on every namespace; medians, ratios and targets as
tables, as JSON and as a plot. Every save ends on the disk (fsync), in new files.

    python -m bench.state --markdown docs/kernel-state.md \\
        --plot docs/images/kernel-state-bench.png
"""

from __future__ import annotations

import argparse
import gc
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prime_ext import state
from prime_ext.state.components import pickle_all
from prime_ext.state.namespace import user_names
from prime_ext.state.time_budget import Budget

from . import memory
from .report import Measure, put_into, report
from .state_namespaces import BASELINES, NAMESPACES, Namespace, synced

KEY = b"b" * 32
ROOT = Path(__file__).parents[1]
MIB = 1024 * 1024

ARRAYS = ("1 GiB array", "500 MB mixed frame")
GRAPHS = (
    "100k nested dicts",
    "object-string frame",
    "1000 functions + classes",
    "1000 one-line functions + classes",
    "random forest",
    "20k small arrays",
)

RESTORE = """
import importlib, sys, time
for module in sys.argv[2:]:
    importlib.import_module(module)
from prime_ext import state
options = {"key": b"b" * 32, "mode": "cold", "restore_process_state": False}
state.load(sys.argv[1], {}, names=[], **options)  # all that is imported late, and nothing else
started = time.perf_counter()
report = state.load(sys.argv[1], {}, **options)
print(time.perf_counter() - started)
assert report.complete, report.notes
assert report.wait_for_check(120) and report.complete, report.notes
"""
"""Restores in a fresh process; buffers are checked in the background, as by default."""


class Rounds:
    """What was measured of one namespace: a list of values, one a round, by what it is."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}
        self.failures: dict[str, str] = {}

    def note(self, what: str, value: float) -> None:
        self.values.setdefault(what, []).append(value)

    def medians(self) -> dict[str, float]:
        return {what: statistics.median(found) for what, found in self.values.items()}


def timed(action: Callable[..., Any], *arguments: Any) -> float:
    """Seconds; before it starts, nothing is left to collect or to carry to the disk."""
    gc.collect()
    os.sync()
    _wait_for_idle_processors()
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def _wait_for_idle_processors(seconds: float = 4.0) -> None:
    """Other work on the machine hurts what computes more than what only writes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = _processor_times()
        time.sleep(0.1)
        idle, total = (now - then for now, then in zip(_processor_times(), before, strict=True))
        if idle > 0.8 * total:
            return


def _processor_times() -> tuple[int, int]:
    """Ticks that all processors were idle, and all ticks (Linux)."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    ticks = list(map(int, fields))
    return ticks[3] + ticks[4], sum(ticks[:8])


def measure(name: str, scale: float, rounds: int, rest: float, folder: Path) -> Rounds:
    """All ways of saving one namespace, in another order each round.

    ``rest``: seconds without writing before each, for a gigabyte that the last one wrote. Disks of
    rented machines are fast only until an allowance is used up.
    """
    scope = vars(sys.modules["__main__"])
    before = set(scope)
    namespace = NAMESPACES[name](scale, scope)
    found = Rounds()
    content = _content(namespace, folder / "place")
    size = sum(map(len, content))
    ways = ["prime", "raw write", *BASELINES]
    for number in range(rounds):
        for way in random.Random(number).sample(ways, len(ways)):
            if way in found.failures:
                continue
            place = folder / "place"
            place.mkdir()
            time.sleep(rest * size / 1e9)
            if way == "prime":
                _prime(namespace, place, found)
            elif way == "raw write":
                found.note(way, timed(_raw, content, place / "raw"))
            else:
                try:
                    found.note(way, timed(BASELINES[way], namespace, place))
                except Exception as error:
                    found.failures[way] = f"{type(error).__name__}: {error}"[:120]
            shutil.rmtree(place)
    _memory(namespace, folder / "place", found)
    for left in set(scope) - before:  # they would slow down the garbage collections of the others
        del scope[left]
    return found


def _content(namespace: Namespace, folder: Path) -> list[mmap.mmap]:
    """What a save writes, for the raw write to write the same.

    It is in shared memory, which a fork does not have to copy: no kernel holds these bytes.
    """
    _save(namespace, folder)
    content = []
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size:
            content.append(mmap.mmap(-1, path.stat().st_size))
            with path.open("rb", buffering=0) as file:
                for start in range(0, len(content[-1]), 64 * MIB):
                    file.readinto(memoryview(content[-1])[start : start + 64 * MIB])
    shutil.rmtree(folder)
    return content


def _prime(namespace: Namespace, folder: Path, found: Rounds) -> None:
    """A full save, one that finds nothing changed, and a restore."""
    reports: list[state.Report] = []
    resident = memory.resident()
    found.note("durable", timed(lambda: reports.append(_save(namespace, folder))))
    pause, pickling = reports[0].pause_ms / 1000, reports[0].pickling_ms / 1000
    found.note("pause", pause)
    found.note("pickling", pickling)
    found.note("pause beyond its budget", pause - pickling - 0.020 * resident / 2**30)
    found.note("bytes", reports[0].bytes)
    found.note("unchanged", timed(lambda: reports.append(_save(namespace, folder))))
    assert reports[1].unchanged, reports[1]
    found.note("bytes when unchanged", reports[1].bytes)
    found.note("restore", _restore(namespace, folder))


def _memory(namespace: Namespace, folder: Path, found: Rounds) -> None:
    """What a full save takes of memory, without the streams that the kernel pickles into."""
    pickled = pickle_all(namespace, user_names(namespace), Budget())
    streams = sum(len(component.stream) for component in pickled.components)
    del pickled
    gc.collect()
    with memory.peak() as peak:
        _save(namespace, folder)
    found.note("memory beyond the streams", peak.total - streams)
    found.note("streams", streams)
    shutil.rmtree(folder)


def _raw(content: list[mmap.mmap], path: Path) -> None:
    synced(path, lambda file: file.writelines(content))


def _save(namespace: Namespace, folder: Path) -> state.Report:
    return state.begin(folder, namespace, key=KEY).wait()


def _restore(namespace: Namespace, folder: Path) -> float:
    modules = {type(value).__module__.partition(".")[0] for value in namespace.values()}
    modules = (modules & {"pandas", "sklearn"}) | {"numpy"}
    printed = subprocess.run(
        [sys.executable, "-c", RESTORE, str(folder), *sorted(modules)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    ).stdout
    return float(printed)


def measures(results: dict[str, Rounds]) -> list[Measure]:
    """The targets, and how far they are met."""
    medians = {name: found.medians() for name, found in results.items()}
    rounds = max((len(found.values["durable"]) for found in results.values()), default=0)
    lines: list[Measure] = []

    def add(name: str, value: float, unit: str, **target: float) -> None:
        lines.append(Measure(name, value, unit, samples=rounds, **target))

    for name in ARRAYS:
        if name in medians:
            share = medians[name]["raw write"] / medians[name]["durable"]
            add(f"bandwidth of a durable save ÷ raw: {name}", share, "times", at_least=0.8)
    for name in GRAPHS:
        if "dill.dump" in medians.get(name, {}):
            ratio = medians[name]["dill.dump"] / medians[name]["durable"]
            add(f"dill.dump ÷ durable save: {name}", ratio, "times", at_least=8)
            ceiling = medians[name]["dill.dump"] / medians[name]["in memory"]
            add(f"dill.dump ÷ C pickler, in memory only: {name}", ceiling, "times")
    if ARRAYS[0] in medians:
        array = medians[ARRAYS[0]]
        add("unchanged 1 GiB", array["unchanged"], "s", below=0.1)
        add("written when 1 GiB is unchanged", array["bytes when unchanged"], "bytes", below=1)
        add("cold restore of 1 GiB", array["restore"] * 1000, "ms", below=10)
    if medians:
        pause = max(found["pause beyond its budget"] for found in medians.values())
        add("pause beyond pickling and 20 ms a GiB, at most", pause * 1000, "ms", below=50)
        extra = max(found["memory beyond the streams"] for found in medians.values())
        add("memory beyond the streams, at most", extra / MIB, "MiB", below=64)
    return lines


COLUMNS = ["pause", "durable", "unchanged", "restore", "raw write", *BASELINES]
RATIOS = {
    "raw ÷ durable": ("raw write", "durable"),
    "dill.dump ÷ durable": ("dill.dump", "durable"),
    # The most that any way of saving could gain: it has to pickle, and to carry bytes to the disk.
    "dill.dump ÷ in memory": ("dill.dump", "in memory"),
    "dill.dump ÷ raw": ("dill.dump", "raw write"),
}


def table(results: dict[str, Rounds]) -> str:
    """The medians in seconds, a namespace a line, in Markdown."""
    lines = [f"| {' | '.join(['namespace', 'MB', *COLUMNS, *RATIOS])} |"]
    lines.append("|---" * (len(COLUMNS) + len(RATIOS) + 2) + "|")
    for name, found in results.items():
        medians = found.medians()
        cells = [name, f"{medians['bytes'] / 1e6:.0f}"]
        cells += [f"{medians[way]:.3f}" if way in medians else "fails" for way in COLUMNS]
        for upper, lower in RATIOS.values():
            known = upper in medians and lower in medians
            cells.append(f"{medians[upper] / medians[lower]:.2f}" if known else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def targets_table(lines: list[Measure]) -> str:
    """Target, measured, met: in Markdown."""
    rows = ["| what | target | measured | met |", "|---|---|---|---|"]
    for line in lines:
        verdict = ("yes" if line.met else "no") if line.target else ""
        rows.append(f"| {line.name} | {line.target} | {line.value:.3g} {line.unit} | {verdict} |")
    return "\n".join(rows)


def plot(results: dict[str, Rounds], path: Path) -> None:
    """Seconds until durable, a group of bars for each namespace, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    bars = {
        "pause": ("prime_ext: the kernel stands still", "#1b6ec2"),
        "durable": ("prime_ext: durable", "#7fb4e6"),
        "raw write": ("raw write of the same bytes", "#b8b8b8"),
        "pickle 5": ("pickle, protocol 5", "#f3c969"),
        "dill.dump": ("dill.dump", "#e8875b"),
        "dill.dump_module": ("dill.dump_module", "#c45a52"),
        "dill per variable": ("dill for each variable", "#8c3a4f"),
    }
    figure, axes = plt.subplots(figsize=(9, 9))
    height = 0.84 / len(bars)
    names = list(results)
    for index, (way, (label, color)) in enumerate(bars.items()):
        places = [row + (index - (len(bars) - 1) / 2) * height for row in range(len(names))]
        widths = [results[name].medians().get(way, float("nan")) for name in names]
        drawn = axes.barh(places, widths, height * 0.92, label=label, color=color)
        labels = ["fails" if width != width else f"{width:.2g}" for width in widths]
        axes.bar_label(drawn, labels, padding=2, fontsize=6.5, color="#444444")
    axes.set_xscale("log")
    axes.set_xlabel("seconds (median, logarithmic scale)")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_title("Saving a namespace to the disk", loc="left", fontweight="bold", pad=46)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0: the sizes named above")
    parser.add_argument(
        "--rest", type=float, default=3.0, help="seconds per gigabyte, see `measure`"
    )
    parser.add_argument("--only", action="append", choices=list(NAMESPACES))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--markdown", type=Path, help="a page with the marks `bench`")
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary one")
    options = parser.parse_args()
    results: dict[str, Rounds] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        _save({}, Path(folder, "warm"))  # what is imported late
        for name in options.only or NAMESPACES:
            try:
                results[name] = measure(
                    name, options.scale, options.rounds, options.rest, Path(folder)
                )
            except ImportError as error:
                print(f"{name}: left out, it needs {error.name}", flush=True)
                continue
            print(table({name: results[name]}).splitlines()[-1], flush=True)
            for way, problem in results[name].failures.items():
                print(f"    {way}: {problem}", flush=True)
    lines = measures(results)
    print(f"\n{table(results)}\n\n{targets_table(lines)}")
    if options.plot:
        plot(results, options.plot)
    if options.markdown:
        about = (
            f"One run: medians of {options.rounds} interleaved rounds in seconds, {os.cpu_count()} "
            f"processors, other work on the machine at the end: {os.getloadavg()[1]:.1f}."
        )
        put_into(
            options.markdown, "bench", "\n\n".join([about, targets_table(lines), table(results)])
        )
    details = {
        name: {"medians": found.medians(), "rounds": found.values, "failures": found.failures}
        for name, found in results.items()
    }
    return report("state", lines, scale=options.scale, namespaces=details)


if __name__ == "__main__":
    sys.exit(main())
