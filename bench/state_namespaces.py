"""The namespaces that `bench.state` saves, and the other ways of saving them."""

from __future__ import annotations

import importlib
import io
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dill
import numpy as np

Namespace = dict[str, Any]
Scope = dict[str, Any]
"""Where a notebook's cells run: dill knows what was defined there."""


def array(scale: float, _scope: Scope) -> Namespace:
    """One array of float64, 1 GiB at scale 1."""
    return {"array": np.random.default_rng(0).random(int(scale * (1 << 27)))}


def mixed_frame(scale: float, _scope: Scope) -> Namespace:
    """A data frame of numbers, dates, categories and strings, about 500 MB at scale 1."""
    pd: Any = importlib.import_module("pandas")

    rows = int(scale * 5_000_000)
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{n}": rng.random(rows) for n in range(8)}
    columns["when"] = pd.date_range("2020-01-01", periods=rows, freq="s")
    columns["kind"] = pd.Categorical.from_codes(rng.integers(0, 5, rows), list("abcde"))
    columns["label"] = pd.array([f"label {n % 1000}" for n in range(rows)], dtype="str")
    return {"frame": pd.DataFrame(columns)}


def string_frame(scale: float, _scope: Scope) -> Namespace:
    """A data frame of 2 million object strings, all distinct."""
    pd: Any = importlib.import_module("pandas")

    texts = np.array([f"some text number {n}" for n in range(int(scale * 2_000_000))], object)
    return {"frame": pd.DataFrame({"text": pd.Series(texts, dtype=object)})}


def nested_dicts(scale: float, _scope: Scope) -> Namespace:
    """100,000 nested dictionaries."""
    count = int(scale * 100_000)
    records = [
        {"id": n, "tags": [n, str(n)], "inner": {"x": n * 1.5, "y": (n,)}} for n in range(count)
    ]
    return {"records": records}


def functions_and_classes(scale: float, scope: Scope) -> Namespace:
    """1,000 functions of one line, and 1,000 classes of one method of one line."""
    count = int(scale * 1000)
    for n in range(count):
        function = f"def f{n}(x):\n    return x + {n}\n"
        exec(function + f"class C{n}:\n    a = {n}\n    def m(self): return {n}\n", scope)
    return {name: scope[name] for name in (f"{kind}{n}" for kind in "fC" for n in range(count))}


METHODS = """
class Step{n}:
    \"\"\"Step {n} of the preparation: scales values, and remembers what it has seen.\"\"\"

    unit = "unit {n}"

    def __init__(self, weight=1.0, offset={n}):
        self.weight = weight
        self.offset = offset
        self.seen = []

    def fit(self, rows):
        self.seen = [float(row) for row in rows if row is not None]
        self.weight = max(self.seen, default=1.0) - min(self.seen, default=0.0)
        return self

    def transform(self, rows):
        return [(row - self.offset) / self.weight for row in rows]

    def fit_transform(self, rows):
        return self.fit(rows).transform(rows)

    def __repr__(self):
        return f"Step{n}(weight={{self.weight:.3f}}, offset={{self.offset}})"


def prepare{n}(rows, columns=("a", "b"), strict=False):
    \"\"\"Return the rows of part {n} with only these columns.\"\"\"
    found = []
    for row in rows:
        missing = [column for column in columns if column not in row]
        if missing and strict:
            raise ValueError(f"part {n} has no {{missing}}")
        found.append({{column: row.get(column) for column in columns}})
    return found
"""


def functions_and_methods(scale: float, scope: Scope) -> Namespace:
    """1,000 functions of eight lines, and 1,000 classes of five methods."""
    count = int(scale * 1000)
    for n in range(count):
        exec(METHODS.format(n=n), scope)
    return {
        name: scope[name]
        for name in (f"{kind}{n}" for kind in ("prepare", "Step") for n in range(count))
    }


def forest(scale: float, _scope: Scope) -> Namespace:
    """A fitted random forest of 100 trees."""
    ensemble: Any = importlib.import_module("sklearn.ensemble")

    rng = np.random.default_rng(0)
    points = rng.random((int(scale * 20_000), 10))
    model = ensemble.RandomForestRegressor(n_estimators=100, n_jobs=1, random_state=0)
    return {"model": model.fit(points, points.sum(axis=1)), "points": points}


def small_arrays(scale: float, _scope: Scope) -> Namespace:
    """20,000 arrays of 8 kB each, in a list."""
    rng = np.random.default_rng(0)
    return {"arrays": [rng.random(1000) for _ in range(int(scale * 20_000))]}


def notebook(scale: float, scope: Scope) -> Namespace:
    """What a day's work leaves behind: frames, views, results, functions, a model of one's own."""
    pd: Any = importlib.import_module("pandas")

    rng = np.random.default_rng(0)
    rows = int(scale * 1_000_000)
    frame = pd.DataFrame({f"x{n}": rng.random(rows) for n in range(6)})
    source = """
class Model:
    def __init__(self): self.weights = {}
    def fit(self, data): self.weights = {c: float(data[c].mean()) for c in data}; return self
def clean(data): return data.dropna()
results = [{"run": n, "scores": [n / 7, n / 9]} for n in range(2000)]
model = Model().fit(frame)
"""
    scope.update(np=np, pd=pd, frame=frame)
    exec(source, scope)
    matrix = rng.random((2000, 2000))
    own = {name: scope[name] for name in ("np", "pd", "Model", "clean", "results", "model")}
    return {**own, "frame": frame, "head": frame.head(100), "matrix": matrix, "corner": matrix[:50]}


NAMESPACES: dict[str, Callable[[float, Scope], Namespace]] = {
    "1 GiB array": array,
    "500 MB mixed frame": mixed_frame,
    "object-string frame": string_frame,
    "100k nested dicts": nested_dicts,
    "1000 functions + classes": functions_and_methods,
    "1000 one-line functions + classes": functions_and_classes,
    "random forest": forest,
    "20k small arrays": small_arrays,
    "realistic notebook": notebook,
}


def values(namespace: Namespace) -> Namespace:
    """The names that the other ways save: modules are nobody's data."""
    return {n: value for n, value in namespace.items() if not isinstance(value, types.ModuleType)}


def synced(path: Path, write: Callable[[Any], None]) -> None:
    """Write a new file and force it to the disk."""
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
    try:
        dill.dump_module(str(folder / "module.dill"), module)
    finally:
        del sys.modules[module.__name__]
    _sync(folder / "module.dill")


def dill_each(namespace: Namespace, folder: Path) -> None:
    for name, value in values(namespace).items():
        with (folder / f"{name}.dill").open("wb") as file:
            dill.dump(value, file)
    for path in folder.glob("*.dill"):
        _sync(path)


def pickle_five(namespace: Namespace, folder: Path) -> None:
    synced(folder / "all.pickle", lambda file: pickle.dump(values(namespace), file, 5))


class ByValue(pickle.Pickler):
    """The C pickler, with the least that it needs for functions and classes of a notebook."""

    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", None) != "__main__":
            return NotImplemented
        if type(value) is types.FunctionType:
            return restore_function, (marshal.dumps(value.__code__), value.__name__)
        if type(value) is type:
            hidden = ("__dict__", "__weakref__")
            contents = {n: item for n, item in vars(value).items() if n not in hidden}
            return type, (value.__name__, value.__bases__, contents)
        return NotImplemented


def restore_function(code: bytes, name: str) -> Any:
    return types.FunctionType(marshal.loads(code), {}, name)


def in_memory(namespace: Namespace, _folder: Path) -> None:
    """Nothing reaches the disk, or is compared, told or checked: no way can be quicker by much."""
    ByValue(io.BytesIO(), 5).dump(values(namespace))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


BASELINES: dict[str, Callable[[Namespace, Path], None]] = {
    "dill.dump": dill_dump,
    "dill.dump_module": dill_module,
    "dill per variable": dill_each,
    "pickle 5": pickle_five,
    "in memory": in_memory,
}
