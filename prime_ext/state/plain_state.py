"""Pickling the process-state record, which is loaded before anything of the notebook exists.

It may hold plain data and objects of libraries, but none of the notebook's. A part that cannot be
pickled, or cannot be loaded, is left out, and stops neither a save nor a restore.
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

from .pickling import describe


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        owner = value if isinstance(value, (type, types.FunctionType)) else type(value)
        if owner.__module__ == "__main__":
            raise pickle.PicklingError("it holds an object of the notebook")
        return NotImplemented


def _dumps(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, 5).dump(value)
    return file.getvalue()


_OF_PARTS = frozenset({"libraries"})


def dump(state: dict[str, Any]) -> tuple[bytes, list[str]]:
    """Return the record as a pickle, and a note on each part that was left out.

    A part is an entry of ``state``, or of one of the dictionaries named in `_OF_PARTS`. Each is a
    pickle of its own, since the process that loads them may lack a library that one needs.
    """
    notes: list[str] = []
    return pickle.dumps(_dumped(state, "", notes), 5), notes


def _dumped(state: dict[str, Any], prefix: str, notes: list[str]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for name, value in state.items():
        if name in _OF_PARTS:
            parts[name] = _dumped(value, "options of ", notes)
            continue
        try:
            parts[name] = _dumps(value)
        except Exception as error:
            notes.append(f"the {prefix}{name} of the process are not saved: {describe(error)}")
            parts[name] = _dumps(None)
    return parts


def load(record: bytes | memoryview) -> tuple[dict[str, Any], list[str]]:
    """Return the record, and a note on each part that cannot be loaded here; such a part is None.

    Raises what `pickle.loads` raises if it is no record.
    """
    notes: list[str] = []
    return _loaded(pickle.loads(record), "", notes), notes


def _loaded(parts: dict[str, Any], prefix: str, notes: list[str]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, part in parts.items():
        if name in _OF_PARTS:
            state[name] = _loaded(part, "options of ", notes)
            continue
        try:
            state[name] = pickle.loads(part)
        except Exception as error:
            notes.append(f"the {prefix}{name} of the process are not restored: {describe(error)}")
            state[name] = None
    return state
