"""Whatever is derived from a frame behaves after a restore as it would have without one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .snapshots import load, save

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

DERIVATIONS: dict[str, Callable[[Any], Any]] = {
    "column": lambda frame: frame.iloc[:, 0],
    "columns": lambda frame: frame.iloc[:, :2],
    "rows": lambda frame: frame.iloc[1:],
    "every other row": lambda frame: frame.iloc[::2],
    "shallow copy": lambda frame: frame.copy(deep=False),
    "copy": lambda frame: frame.copy(),
    "renamed": lambda frame: frame.rename(columns=str.upper),
    "indexed": lambda frame: frame.set_index(frame.columns[0], drop=False),
    "index as column": lambda frame: frame.reset_index(names=f"index{frame.shape[1]}"),
    "assigned": lambda frame: frame.assign(more=1.0),
    "index of a column": lambda frame: pd.Index(frame.iloc[:, 0]),
    "array of a column": lambda frame: frame.iloc[:, 0].to_numpy(),
    "extension array": lambda frame: frame.iloc[:, -1].array,
    "series by name": lambda frame: frame.to_dict("series"),
    "in a list": lambda frame: [frame.iloc[:, :1]],
}


@given(
    rows=st.sampled_from([3, 2_000, 9_000]),
    derived=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(sorted(DERIVATIONS))), min_size=1, max_size=5
    ),
    writes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_write_changes_what_it_would_have_changed_without_a_restore(
    rows: int, derived: list[tuple[int, str]], writes: list[tuple[int, int]]
) -> None:
    names = {"frame": _frame(rows)}
    for number, (source, how) in enumerate(derived):
        frame = _part(names, source)
        if isinstance(frame, pd.DataFrame):
            names[f"derived{number}"] = DERIVATIONS[how](frame)
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), names, b"k" * 32)
        restored = load(Path(folder), b"k" * 32)
        assert _shown(restored) == _shown(names)
        for target, column in writes:
            in_both = _part(restored, target), _part(names, target)
            assert _write(in_both[0], column) == _write(in_both[1], column)
            assert _shown(restored) == _shown(names)


def _frame(rows: int) -> Any:
    return pd.DataFrame(
        {
            "x": np.arange(rows) * 1.0,
            "y": np.arange(rows) * 2.0,
            "n": np.arange(rows),
            "text": [f"text {n % 7}" for n in range(rows)],
            "kind": pd.Categorical([f"kind {n % 3}" for n in range(rows)]),
            "gaps": pd.array([None if n % 5 == 0 else n for n in range(rows)], dtype="Int64"),
        }
    )


def _part(names: dict[str, Any], number: int) -> Any:
    """Return one of the objects, or what is in it if it is a list or a dictionary."""
    found = names[sorted(names)[number % len(names)]]
    if isinstance(found, dict):
        found = found[min(found)]
    return found[0] if isinstance(found, list) else found


def _write(target: Any, column: int) -> str:
    """Write the last value in the place of the first, and return the error that this raises."""
    try:
        if isinstance(target, pd.DataFrame):
            target.iloc[0, column % target.shape[1]] = target.iloc[-1, column % target.shape[1]]
        elif isinstance(target, pd.Series):
            target.iloc[0] = target.iloc[-1]
        elif not isinstance(target, pd.Index):
            target[0] = target[-1]
    except Exception as error:
        return type(error).__name__
    return ""


def _shown(value: Any) -> Any:
    """Return a value with all that counts as equal objects of plain types."""
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, pd.DataFrame):
        columns = [_shown(value.iloc[:, n]) for n in range(value.shape[1])]
        return [list(value.columns), _shown(value.index), columns]
    kind = type(value).__name__, str(value.dtype)
    if isinstance(value, pd.Series):
        return [*kind, value.name, value.head(3).tolist().__repr__(), hash(tuple(map(str, value)))]
    if isinstance(value, np.ndarray):
        return [*kind, value.flags.writeable, value.tobytes()]
    return [*kind, hash(tuple(map(str, value)))]
