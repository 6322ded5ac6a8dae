"""The history of a notebook's cells: ``In``, ``Out`` and the last results.

The history is saved with the process state, as far as that is cheap and exact: the source of the
cells, and those results that are the value of a variable or small plain data. It is restored only
into a kernel that has not run a cell yet, without running anything again. The execution count
continues where it stopped, so that ``Out[3]`` is what the notebook shows beside ``[3]``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .deadline import DeadlineExceeded, deadline
from .limited_file import LimitedFile
from .namespace import shell, user_names
from .pickling import ComponentPickler, ComponentUnpickler, SaveContext
from .plans import module_of

MOST_TEXT = 2_000_000
"""Largest number of characters of source kept; beyond it the oldest cells are saved empty."""

MOST_RESULTS = 100
LARGEST_RESULT = 64 * 1024
_SECONDS = 1.0

_PLAIN_MODULES = frozenset(
    """
    builtins collections datetime decimal fractions numpy pandas pathlib polars types uuid
    zoneinfo
    """.split()  # noqa: SIM905 - reads better as words
)
_ATOMS = (type(None), bool, int, float, complex, str, bytes)

_refused: dict[int, int] = {}
"""Number of a result that is large or not plain → its id, so that it is not tried again."""


earlier: list[str] = []
"""Source of the cells run by the process whose snapshot was loaded here."""


class _NotPlain(Exception):
    """The result is not plain data."""


class _ResultPickler(ComponentPickler):
    """Pickles plain data only: a line of a plot, for example, would drag its figure along."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        own_class = isinstance(value, type) and value.__module__ == "__main__"
        if own_class or module_of(kind).partition(".")[0] not in _PLAIN_MODULES:
            raise _NotPlain
        return super().reducer_override(value)


def capture(context: SaveContext) -> dict[str, Any] | None:
    """Return the history as plain data; None outside of IPython.

    ``inputs`` is the source in ``In``; ``raw`` maps the number of a cell to its source before
    IPython's transformation, where that differs; ``results`` holds ``(number, name)`` or
    ``(number, stream)`` pairs; ``last`` holds the numbers of ``_``, ``__`` and ``___``.
    """
    found = shell()
    if found is None or found.user_ns is not context.namespace:
        return None
    inputs = _recent(found.history_manager.input_hist_parsed)
    raw = _recent(found.history_manager.input_hist_raw)
    results = found.user_ns.get("_oh")
    results = results if isinstance(results, dict) else {}
    return {
        "inputs": inputs,
        "raw": {n: text for n, text in enumerate(raw[: len(inputs)]) if text != inputs[n]},
        "results": _results(context, results),
        "last": sorted(results, reverse=True)[:3],
    }


def _recent(cells: list[str]) -> list[str]:
    kept: list[str] = []
    left = MOST_TEXT
    for text in reversed(cells):
        left -= len(text)
        kept.append(text if left >= 0 else "")
    return kept[::-1]


def _results(context: SaveContext, results: dict[int, Any]) -> list[tuple[int, str | bytes]]:
    names = {id(context.namespace[name]): name for name in user_names(context.namespace)}
    kept: list[tuple[int, str | bytes]] = []
    numbers = sorted(results)[-MOST_RESULTS:]
    at = -1
    try:
        with deadline(_SECONDS):
            for at in numbers:
                value = results[at]
                name = None if type(value) in _ATOMS else names.get(id(value))
                if name is not None:
                    kept.append((at, name))
                elif _refused.get(at) != id(value):
                    stream = _small(context, value)
                    if stream is None:
                        _refused[at] = id(value)
                    else:
                        kept.append((at, stream))
    except DeadlineExceeded:
        _refused[at] = id(results.get(at))
    return kept


def _small(context: SaveContext, value: Any) -> bytes | None:
    file = LimitedFile(LARGEST_RESULT)
    pickler = _ResultPickler(file, context)
    try:
        pickler.dump(value)
    except DeadlineExceeded:
        raise
    except Exception:
        return None
    return None if pickler.buffers or pickler.losses else file.getvalue()


def restore(history: dict[str, Any] | None, namespace: dict[str, Any], loaded: set[str]) -> None:
    """Restore the history. ``loaded``: the names that now have their value from the snapshot.

    Call this inside `restorers.loading`, with the context of the snapshot's load.
    """
    found = shell()
    if history is None or found is None or found.user_ns is not namespace:
        return
    earlier[:] = history["inputs"]
    manager = found.history_manager
    if len(manager.input_hist_parsed) > 1 or found.execution_count != 1:
        return
    inputs = history["inputs"]
    raw = [history["raw"].get(number, text) for number, text in enumerate(inputs)]
    manager.input_hist_parsed[:] = inputs
    manager.input_hist_raw[:] = raw
    found.execution_count = len(inputs)
    texts = dict(zip(("_i00", "_i", "_ii", "_iii"), [*raw[:0:-1], "", "", "", ""]))  # noqa: B905
    for name, text in texts.items():
        setattr(manager, name, text)
    pushed: dict[str, Any] = {name: texts[name] for name in ("_i", "_ii", "_iii")}
    pushed.update((f"_i{number}", text) for number, text in enumerate(raw) if number)
    results: dict[int, Any] = {}
    for number, what in history["results"]:
        if isinstance(what, bytes):
            with suppress(Exception):  # its library may be missing by now
                results[number] = ComponentUnpickler(what, ()).load()
        elif what in loaded:
            results[number] = namespace[what]
    namespace["_oh"].update(results)
    pushed.update((f"_{number}", value) for number, value in results.items())
    hook = found.displayhook
    for name, number in zip(("_", "__", "___"), history["last"]):  # noqa: B905
        if number in results and namespace.get(name) is getattr(hook, name):
            setattr(hook, name, results[number])
            pushed[name] = results[number]
    found.push(pushed, interactive=False)
