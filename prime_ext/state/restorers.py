"""Restorers: the functions that a component stream calls by name while it is loaded.

Streams refer to them by one fixed module name, ``_prime_state``, under whatever name this library
was imported: installed as ``prime_ext.state``, or sent as source into a kernel that lacks it.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

ALIAS = "_prime_state"

RESTORERS: dict[str, Any] = {}

Function = TypeVar("Function", bound=Callable[..., Any])


def restorer(function: Function) -> Function:
    """Register a function as a restorer, under its own name."""
    if function.__name__ in RESTORERS:
        raise ValueError(f"{function.__name__} is registered twice")
    function.__module__ = ALIAS
    function.__qualname__ = function.__name__
    RESTORERS[function.__name__] = function
    return function


def publish() -> None:
    """Make the restorers importable as ``_prime_state.<name>``, which the pickler checks.

    This is done at each save and load, because a second copy of this library in the same process
    may have published its own restorers there.
    """
    module = sys.modules.get(ALIAS)
    if module is None:
        module = sys.modules[ALIAS] = types.ModuleType(ALIAS, __doc__)
    vars(module).update(RESTORERS)


@dataclass
class LoadContext:
    """What restorers need to know about the load they are part of.

    Attributes
    ----------
    namespace: the dictionary that restored functions use as their globals.
    classes: key → class, for the classes that the notebook defined.
    modules: name → file it came from, for modules that may no longer be on ``sys.path``.
    sandboxed: replace resources outside the process by stubs instead of opening them.
    keepalive: objects that must live until the load ends, as only weak references refer to them.
    notes: remarks for the user.
    missed: problems of the current component with resources outside the process.
    enum_members: members made before their class has been filled.
    twins: struct class → a subclass whose instances can be made without running user code.
    kept: caches of restorers, by keys of their choice.
    """

    namespace: dict[str, Any]
    classes: dict[str, type] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    sandboxed: bool = False
    keepalive: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    enum_members: dict[Any, Any] = field(default_factory=dict)
    twins: dict[type, type] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)


class _Current(threading.local):
    context: LoadContext | None = None


_current = _Current()


@contextmanager
def loading(context: LoadContext) -> Iterator[LoadContext]:
    """Make ``context`` the current load context of this thread inside the block."""
    before = _current.context
    _current.context = context
    try:
        yield context
    finally:
        _current.context = before


def current() -> LoadContext:
    """Return the load context of this thread."""
    if _current.context is None:
        raise RuntimeError("Restorers work only while a snapshot is being loaded.")
    return _current.context


class SandboxedResource:
    """A stub for an outside resource while a snapshot is verified; pickles as the original did."""

    def __init__(self, recall: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.recall = recall
        self.args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recall, self.args

    def __getattr__(self, name: str) -> SandboxedResource:
        if name.startswith("__"):
            raise AttributeError(name)
        return SandboxedResource(getattr, (self, name))  # a bound method that was pickled too


def outside(function: Function) -> Function:
    """Register a restorer that opens an outside resource; in the sandbox it returns a stub."""

    def guarded(*args: Any) -> Any:
        if current().sandboxed:
            return SandboxedResource(guarded, args)
        return function(*args)

    guarded.__name__ = function.__name__
    guarded.__doc__ = function.__doc__
    return restorer(guarded)  # type: ignore[return-value]
