"""Functions with a cache (`functools.lru_cache`), with its contents if these are small.

A cache can be filled again by calling the function, so large contents are not worth saving: such a
cache starts empty, with a note in the report.
"""

from __future__ import annotations

import functools
import gc
from typing import Any

from .limited_file import LimitedFile
from .pickling import ComponentPickler, Reducing
from .plans import reduces
from .reducers_functions import is_importable
from .restorers import restorer
from .unrestorable import Unrestorable

LARGEST_CONTENT = 1024 * 1024

Call = tuple[tuple[Any, ...], dict[str, Any], Any]
"""Positional arguments, keyword arguments, result."""


@reduces("functools:_lru_cache_wrapper")
def reduce_lru_cache(pickler: Reducing, wrapper: Any) -> Any:
    if is_importable(pickler, wrapper):
        return NotImplemented
    calls = cached_calls(wrapper)
    if calls is None or (calls and not _is_small(pickler, calls)):
        pickler.notes.append(f"the cache of {wrapper.__qualname__} starts empty")
        calls = []
    parameters = wrapper.cache_parameters()
    args = (wrapper.__wrapped__, parameters["maxsize"], parameters["typed"], bool(calls))
    attributes = {key: value for key, value in vars(wrapper).items() if key != "cache_parameters"}
    return restore_lru_cache, args, (attributes, calls), None, None, set_lru_cache


def _is_small(pickler: Reducing, calls: list[Call]) -> bool:
    trial = ComponentPickler(LimitedFile(LARGEST_CONTENT), pickler.context)
    try:
        trial.dump(calls)
    except Exception:
        return False
    return not trial.losses and not trial.buffers


def cached_calls(wrapper: Any) -> list[Call] | None:
    """Return the calls in a cache, the oldest first; None if they cannot be found out.

    The cache has no interface for that, so its contents are read by way of `gc.get_referents`.
    """
    count = wrapper.cache_info().currsize
    if not count:
        return []
    parameters = wrapper.cache_parameters()
    held = [value for value in gc.get_referents(wrapper) if value is not type(wrapper)]
    if parameters["maxsize"] is None:
        contents = next((value for value in held if type(value) is dict), {})
        pairs = list(contents.items())
    else:
        pairs = _in_order_of_use(held, count)
    if len(pairs) != count:
        return None
    mark = _mark()
    return [(*_arguments(key, mark, parameters["typed"]), result) for key, result in pairs]


def _in_order_of_use(held: list[Any], count: int) -> list[tuple[Any, Any]]:
    """Return ``(key, result)`` pairs from the referents of a bounded cache, in order of use.

    The referents are a key, a result and, in some versions of Python, a type for each entry, and
    later the dictionary of entries.
    """
    index = next((value for value in held if type(value) is dict and _is_index(value)), {})
    keys = {id(key) for key in index}
    pairs: list[tuple[Any, Any]] = []
    position = 0
    while len(pairs) < count and position + 1 < len(held) and id(held[position]) in keys:
        pairs.append((held[position], held[position + 1]))
        position += 2
        if getattr(held[position], "__name__", "") == _ENTRY:
            position += 1
    return pairs


_ENTRY = "_lru_list_elem"


def _is_index(value: dict[Any, Any]) -> bool:
    return bool(value) and all(type(entry).__name__ == _ENTRY for entry in value.values())


@functools.lru_cache(maxsize=1)
def _mark() -> Any:
    """Return the object that separates positional and keyword arguments in a key."""
    probe: Any = functools.lru_cache(maxsize=None)(lambda **_keywords: None)
    probe(a=1)
    contents = next(value for value in gc.get_referents(probe) if type(value) is dict)
    return next(iter(contents))[0]


def _arguments(key: Any, mark: Any, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the call that a key was made from.

    A key consists of positional arguments, mark, keywords alternating with their values, and, if
    ``typed``, the types of all values.
    """
    if type(key) is not tuple:
        return (key,), {}  # a single argument that is a string or an integer is its own key
    at = next((n for n, item in enumerate(key) if item is mark), None)
    if at is None:
        return key[: len(key) // 2] if typed else key, {}
    rest = key[at + 1 :]
    pairs = (len(rest) - at) // 3 if typed else len(rest) // 2
    names, values = rest[: 2 * pairs : 2], rest[1 : 2 * pairs : 2]
    return key[:at], dict(zip(names, values))  # noqa: B905


@restorer
def restore_lru_cache(function: Any, maxsize: int | None, typed: bool, filled: bool = False) -> Any:
    decorate = functools.lru_cache(maxsize=maxsize, typed=typed)
    if not filled:
        return decorate(function)
    given: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        return given.pop() if given else function(*args, **kwargs)

    wrapper = decorate(call)
    _results[id(wrapper)] = given
    return wrapper


_results: dict[int, list[Any]] = {}
"""Id of a cache that is about to be filled → list from which its function takes results."""


@restorer
def set_lru_cache(wrapper: Any, state: tuple[dict[str, Any], list[Call]]) -> None:
    attributes, calls = state
    given = _results.pop(id(wrapper), [])
    for args, kwargs, result in calls:
        if not isinstance(result, Unrestorable):
            given.append(result)
            wrapper(*args, **kwargs)
            given.clear()
    vars(wrapper).update(attributes)
