"""The functions that a component stream may call by name while it is loaded.

Streams refer to them under one fixed module name, whatever name this library was imported by:
installed as ``prime_ext.state``, or carried as sources into a kernel that lacks it.
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
    """Make a function callable from streams, under its own name."""
    if function.__name__ in RESTORERS:
        raise ValueError(f"{function.__name__} is registered twice")
    function.__module__ = ALIAS
    function.__qualname__ = function.__name__
    RESTORERS[function.__name__] = function
    return function


def publish() -> None:
    """Make the restorers importable as ``_prime_state.<name>``: the pickler checks that they are.

    Done at each save, because a second copy of this library in the same process may have put
    its own ones there.
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
    sandboxed: resources outside of the process are stood in for, not opened.
    keepalive: objects that must outlive the load because only weak references name them.
    notes: what the user should be told.
    missed: what the component being loaded could not get hold of outside of the process.
    enum_members: members made before their class has been filled.
    twins: struct class → one like it that nothing runs in when an instance is made.
    kept: what restorers keep for the next object of their kind.
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
    """Make ``context`` the one that restorers of this thread see."""
    before = _current.context
    _current.context = context
    try:
        yield context
    finally:
        _current.context = before


def current() -> LoadContext:
    """The load going on in this thread."""
    if _current.context is None:
        raise RuntimeError("Restorers work only while a snapshot is being loaded.")
    return _current.context


class SandboxedResource:
    """Stands for an outside resource while a snapshot is verified; pickles as the original did."""

    def __init__(self, recall: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.recall = recall
        self.args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recall, self.args

    def __getattr__(self, name: str) -> SandboxedResource:
        if name.startswith("__"):
            raise AttributeError(name)
        return SandboxedResource(getattr, (self, name))  # a method of it that was kept somewhere


def outside(function: Function) -> Function:
    """A restorer that opens something outside of the process: stubbed in the sandbox."""

    def guarded(*args: Any) -> Any:
        if current().sandboxed:
            return SandboxedResource(guarded, args)
        return function(*args)

    guarded.__name__ = function.__name__
    guarded.__doc__ = function.__doc__
    return restorer(guarded)  # type: ignore[return-value]
