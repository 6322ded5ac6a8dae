"""Pickling the process-state record, which is loaded before anything of the notebook exists.

It may hold plain data and objects of libraries, but none of the notebook's. A part that cannot be
pickled is left out, and does not stop a save.
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


def dump(state: dict[str, Any]) -> tuple[bytes, list[str]]:
    """Return the record as a pickle, and a note on each part that was left out.

    A part is an entry of ``state``, or of one of the dictionaries named in `_OF_PARTS`.
    """
    try:
        return _dumps(state), []
    except Exception:
        kept, notes = _without_failing(state, "")
        return _dumps(kept), notes


_OF_PARTS = frozenset({"libraries"})


def _without_failing(state: dict[str, Any], prefix: str) -> tuple[dict[str, Any], list[str]]:
    kept: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in state.items():
        if name in _OF_PARTS:
            kept[name], more = _without_failing(value, "options of ")
            notes += more
            continue
        try:
            _dumps(value)
        except Exception as error:
            kept[name] = None
            notes.append(f"the {prefix}{name} of the process are not saved: {describe(error)}")
        else:
            kept[name] = value
    return kept, notes
