"""How fast a namespace is saved and restored, against what else there is.

One run: every way of saving, interleaved, on every namespace; medians and ratios as a table, as
JSON and as a plot. Every save ends on the disk (fsync).

    python bench/state.py --rounds 5 --plot state.png
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pickle
import platform
import shutil
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dill
import numpy as np

from prime_ext import state

KEY = b"b" * 32
Namespace = dict[str, Any]


MAIN = sys.modules["__main__"]


def define(source: str) -> None:
    """Run code where a notebook's cells run: dill knows what was defined there."""
    exec(source, vars(MAIN))


# --- namespaces -------------------------------------------------------------------------------


def array(scale: float) -> Namespace:
    """One array of float64, 1 GiB at scale 1."""
    return {"array": np.random.default_rng(0).random(int(scale * (1 << 27)))}


def mixed_frame(scale: float) -> Namespace:
    """A data frame of numbers, dates, categories and strings, about 500 MB at scale 1."""
    pd: Any = importlib.import_module("pandas")

    rows = int(scale * 5_000_000)
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{n}": rng.random(rows) for n in range(8)}
    columns["when"] = pd.date_range("2020-01-01", periods=rows, freq="s")
    columns["kind"] = pd.Categorical.from_codes(rng.integers(0, 5, rows), list("abcde"))
    columns["label"] = pd.array([f"label {n % 1000}" for n in range(rows)], dtype="str")
    return {"frame": pd.DataFrame(columns)}


def string_frame(scale: float) -> Namespace:
    """A data frame of object strings, all distinct."""
    pd: Any = importlib.import_module("pandas")

    texts = np.array([f"some text number {n}" for n in range(int(scale * 2_000_000))], object)
    return {"frame": pd.DataFrame({"text": pd.Series(texts, dtype=object)})}


def nested_dicts(scale: float) -> Namespace:
    """100,000 nested dictionaries."""
    count = int(scale * 100_000)
    records = [
        {"id": n, "tags": [n, str(n)], "inner": {"x": n * 1.5, "y": (n,)}} for n in range(count)
    ]
    return {"records": records}


def functions_and_classes(scale: float) -> Namespace:
    """1,000 functions and 1,000 classes of the notebook."""
    count = int(scale * 1000)
    names = [f"{kind}{n}" for kind in "fC" for n in range(count)]
    for n in range(count):
        function = f"def f{n}(x):\n    return x + {n}\n"
        body = f"class C{n}:\n    a = {n}\n    def m(self): return {n}\n"
        define(function + body)
    return {name: vars(MAIN)[name] for name in names}


def forest(scale: float) -> Namespace:
    """A fitted random forest."""
    ensemble: Any = importlib.import_module("sklearn.ensemble")

    rng = np.random.default_rng(0)
    points = rng.random((int(scale * 20_000), 10))
    model = ensemble.RandomForestRegressor(n_estimators=100, n_jobs=1, random_state=0)
    return {"model": model.fit(points, points.sum(axis=1)), "points": points}


def small_arrays(scale: float) -> Namespace:
    """20,000 arrays of 8 kB each, in a list."""
    rng = np.random.default_rng(0)
    return {"arrays": [rng.random(1000) for _ in range(int(scale * 20_000))]}


def notebook(scale: float) -> Namespace:
    """What a day's work leaves behind: frames, views, results, functions, a model of one's own."""
    pd: Any = importlib.import_module("pandas")

    rng = np.random.default_rng(0)
    rows = int(scale * 1_000_000)
    frame = pd.DataFrame({f"x{n}": rng.random(rows) for n in range(6)})
    namespace: Namespace = {"np": np, "pd": pd, "frame": frame}
    source = """
class Model:
    def __init__(self): self.weights = {}
    def fit(self, data): self.weights = {c: float(data[c].mean()) for c in data}; return self
def clean(data): return data.dropna()
results = [{"run": n, "scores": [n / 7, n / 9]} for n in range(2000)]
model = Model().fit(frame)
"""
    vars(MAIN).update(namespace)
    define(source)
    namespace.update({name: vars(MAIN)[name] for name in ("Model", "clean", "results", "model")})
    namespace["head"] = frame.head(100)
    namespace["matrix"] = rng.random((2000, 2000))
    namespace["corner"] = namespace["matrix"][:50, :50]
    return namespace


NAMESPACES: dict[str, Callable[[float], Namespace]] = {
    "1 GiB array": array,
    "500 MB mixed frame": mixed_frame,
    "object-string frame": string_frame,
    "100k nested dicts": nested_dicts,
    "1000 functions + classes": functions_and_classes,
    "random forest": forest,
    "20k small arrays": small_arrays,
    "realistic notebook": notebook,
}
GRAPHS = ("100k nested dicts",)


# --- ways of saving ---------------------------------------------------------------------------


def values(namespace: Namespace) -> Namespace:
    """The names that are saved: modules and dunder names are nobody's data."""
    hidden = (types.ModuleType,)
    return {
        name: value
        for name, value in namespace.items()
        if not isinstance(value, hidden) and not name.startswith("__")
    }


def synced(path: Path, write: Callable[[Any], None]) -> None:
    """Write a file and force it to disk."""
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def dill_dump(namespace: Namespace, folder: Path) -> None:
    synced(folder / "all.dill", lambda file: dill.dump(values(namespace), file))


def dill_module(namespace: Namespace, folder: Path) -> None:
    module = types.ModuleType("__prime_bench__")
    vars(module).update(values(namespace))
    sys.modules[module.__name__] = module
    path = folder / "module.dill"
    dill.dump_module(str(path), module)
    synced_again(path)


def synced_again(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.close(descriptor)


def dill_each(namespace: Namespace, folder: Path) -> None:
    for name, value in values(namespace).items():
        path = folder / f"{name}.dill"
        with path.open("wb") as file:
            dill.dump(value, file)
    descriptors = [os.open(path, os.O_RDWR) for path in folder.glob("*.dill")]
    for descriptor in descriptors:
        os.fsync(descriptor)
        os.close(descriptor)


def pickle_five(namespace: Namespace, folder: Path) -> None:
    synced(folder / "all.pickle", lambda file: pickle.dump(values(namespace), file, 5))


BASELINES = {
    "dill.dump": dill_dump,
    "dill.dump_module": dill_module,
    "dill per variable": dill_each,
    "pickle 5": pickle_five,
}


def timed(action: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[float, Any]:
    gc.collect()
    started = time.perf_counter()
    result = action(*arguments, **named)
    return time.perf_counter() - started, result


def measure(name: str, scale: float, rounds: int, folder: Path) -> dict[str, Any]:
    """Medians of all ways on one namespace; seconds, bytes."""
    namespace = NAMESPACES[name](scale)
    seconds: dict[str, list[float]] = {}

    def note(way: str, value: float) -> None:
        seconds.setdefault(way, []).append(value)

    failures: dict[str, str] = {}
    size = 0
    for _ in range(rounds):
        target = folder / "snapshot"
        shutil.rmtree(target, ignore_errors=True)

        pause, saving = timed(state.begin, target, namespace, key=KEY)
        started = time.perf_counter()
        report = saving.wait()
        note("prime: pause", pause)
        note("prime: durable", pause + time.perf_counter() - started)
        size = report.bytes
        started = time.perf_counter()
        again = state.begin(target, namespace, key=KEY).wait()
        unchanged = time.perf_counter() - started
        assert again.unchanged, again
        note("prime: unchanged", unchanged)
        restored: Namespace = {}
        options: dict[str, Any] = {"restore_process_state": False, "verify": "off"}
        spent, _ = timed(state.load, target, restored, key=KEY, mode="cold", **options)
        note("prime: restore", spent)
        del restored, _
        content = [path.read_bytes() for path in target.rglob("*") if path.is_file()]
        shutil.rmtree(target)
        raw = folder / "raw"
        spent, _ = timed(synced, raw, lambda file, content=content: file.writelines(content))
        del content
        note("raw write", spent)
        raw.unlink()
        for way, action in BASELINES.items():
            if way in failures:
                continue
            place = folder / "baseline"
            place.mkdir()
            try:
                spent, _ = timed(action, namespace, place)
                note(way, spent)
            except Exception as error:
                failures[way] = f"{type(error).__name__}: {error}"[:120]
            shutil.rmtree(place)
    medians = {way: statistics.median(found) for way, found in seconds.items()}
    return {"bytes": size, "seconds": medians, "all": seconds, "failures": failures}


# --- results ----------------------------------------------------------------------------------


def table(results: dict[str, Any]) -> str:
    """The medians, one namespace a line, seconds."""
    ways = ["prime: pause", "prime: durable", "prime: unchanged", "prime: restore", "raw write"]
    ways += list(BASELINES)
    lines = ["| namespace | MB | " + " | ".join(ways) + " | dill.dump ÷ prime | raw ÷ prime |"]
    lines.append("|" + "---|" * (len(ways) + 4))
    for name, result in results.items():
        if "skipped" in result:
            lines.append(f"| {name} | {result['skipped']} |" + " |" * (len(ways) + 2))
            continue
        found = result["seconds"]
        cells = [f"{found[way]:.3f}" if way in found else "fails" for way in ways]
        durable = found["prime: durable"]
        ratio = f"{found['dill.dump'] / durable:.1f}" if "dill.dump" in found else "–"
        lines.append(
            f"| {name} | {result['bytes'] / 1e6:.0f} | "
            + " | ".join(cells)
            + f" | {ratio} | {found['raw write'] / durable:.2f} |"
        )
    return "\n".join(lines)


def plot(results: dict[str, Any], path: Path) -> None:
    """Durable save of each way, per namespace, logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    shown = {name: result for name, result in results.items() if "seconds" in result}
    ways = ["prime: pause", "prime: durable", "raw write", *BASELINES]
    figure, axes = plt.subplots(figsize=(11, 5))
    width = 0.8 / len(ways)
    for index, way in enumerate(ways):
        places = [n + index * width for n in range(len(shown))]
        heights = [result["seconds"].get(way, float("nan")) for result in shown.values()]
        axes.bar(places, heights, width, label=way)
    axes.set_yscale("log")
    axes.set_ylabel("seconds until durable")
    axes.set_xticks([n + 0.4 for n in range(len(shown))], list(shown), rotation=15, fontsize=8)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0: the sizes named above")
    parser.add_argument("--only", action="append", choices=list(NAMESPACES))
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results/state.json")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary one")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.only or NAMESPACES:
            try:
                results[name] = measure(name, options.scale, options.rounds, Path(folder))
            except ImportError as error:
                results[name] = {"skipped": f"needs {error.name}"}
            print(table({name: results[name]}).splitlines()[-1], flush=True)
            for way, problem in results[name].get("failures", {}).items():
                print(f"    {way}: {problem}", flush=True)
    print()
    print(table(results))
    if not options.only:
        about = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "rounds": options.rounds,
            "scale": options.scale,
        }
        options.json.parent.mkdir(exist_ok=True)
        options.json.write_text(json.dumps({"about": about, "results": results}, indent=1))
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
