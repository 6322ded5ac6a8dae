"""Functions with a cache (`functools.lru_cache`), and what is in it if that is small.

A cache can be filled again by calling the function, so large contents are not worth their place
in a snapshot: such a cache starts empty, which is reported.
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
    """What a cache holds, the oldest first; None if this interpreter does not show it.

    The cache has no interface for that, but shows what it holds to the garbage collector.
    """
    count = wrapper.cache_info().currsize
    held = gc.get_referents(wrapper)
    if held and held[0] is type(wrapper):
        del held[0]
    mark = next((value for value in held[::-1] if type(value) is object), None)
    parameters = wrapper.cache_parameters()
    if parameters["maxsize"] is None:
        contents = held[0]
        pairs = list(contents.items()) if isinstance(contents, dict) else []
    else:
        # A key and a result for each entry, in some versions a type too; then the dictionary.
        step = next((n for n in (3, 2) if _is_index(held, n, count)), 0)
        pairs = [(held[n], held[n + 1]) for n in range(0, step * count, step)] if step else []
    if len(pairs) != count:
        return None
    return [(*_arguments(key, mark, parameters["typed"]), result) for key, result in pairs]


def _is_index(held: list[Any], step: int, count: int) -> bool:
    if len(held) <= step * count:
        return False
    index = held[step * count]
    if type(index) is not dict or len(index) != count:
        return False
    keys = {id(key) for key in index}
    return all(id(held[n]) in keys for n in range(0, step * count, step))


def _arguments(key: Any, mark: Any, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call that a key stands for: arguments, mark, keywords and their values, types."""
    if type(key) is not tuple:
        return (key,), {}  # a single string or integer is its own key
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
"""Id of a cache that is about to be filled → where it takes its results from."""


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
