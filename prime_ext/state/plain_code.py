"""Functions and classes that consist of code and plain values only, as most in a notebook do.

A notebook may have hundreds of them, and what is done for a component takes longer than pickling
one. For these it is known in advance which objects they may share with others, no user code runs
while they are pickled, and nothing is lost. So they need no pickler: `marshal` writes their code
and their values, and the few operations around these are always the same (`operations`).

A function is one call of `restore_plain_code`. A class has the parts that `component` writes for
any class: its methods, the rest of its contents, and the class itself for its name.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
import types
from typing import Any

from . import classes, operations
from .pickling import PROTOCOL, ComponentPickler, SaveContext
from .reducers_functions import (
    are_plain_annotations,
    is_importable,
    is_plain_function,
    is_plain_value,
    remember_source,
    restore_plain_code,
)

Root = tuple[str, str]

_WITHOUT_IDENTITY = 0
"""Marshal's format that does not tell apart interned, repeated and other strings: which of them are
differs between processes."""

_TEXT = (str, type(None))

_RESTORE_CODE = operations.restorer(restore_plain_code.__name__)
_RESTORE_CLASS = operations.restorer(classes.restore_class.__name__)


class PlainCode:
    """Pickles the plain functions and classes of one save."""

    def __init__(self, context: SaveContext) -> None:
        self._context = context
        self._registrar = ComponentPickler(io.BytesIO(), context)
        self._main = vars(sys.modules["__main__"])
        tag: str | None = sys.implementation.cache_tag
        self._cache_tag = operations.NONE if tag is None else operations.text(tag)

    def pickled(self, roots: list[Root]) -> tuple[bytes, set[str], list[Any]] | None:
        """Pickle roots: the name of a function, or a class and its name, in this order.

        Returns the stream, the keys of the classes used, and the objects that other components
        may share; None if the roots are not plain.
        """
        what, name = roots[-1]
        if what != "name":
            return None
        value = self._context.namespace.get(name)
        shared: list[Any] = []
        try:
            if len(roots) == 1 and type(value) is types.FunctionType:
                call = self._function(value, shared)
                return None if call is None else (operations.whole(call), set(), shared)
            if len(roots) == 2 and type(value) is type and roots[0][0] == "class":
                key = roots[0][1]
                if self._context.classes.get(key) is value:
                    stream = self._class(key, value, shared)
                    return None if stream is None else (stream, {key}, shared)
        except Exception:
            return None  # the general way will get the same error and report it
        return None

    def _function(self, function: types.FunctionType, shared: list[Any]) -> bytes | None:
        """Return the call that makes a function again, and add its objects that others may share.

        None if the function is not plain.
        """
        if is_importable(self._registrar, function) or not is_plain_function(function):
            return None
        scope = function.__globals__
        place = None if scope is self._context.namespace else "__main__"
        if place is not None and scope is not self._main:
            return None
        document, module = function.__doc__, function.__module__
        if type(document) not in _TEXT or type(module) not in _TEXT:
            return None
        code = function.__code__
        remember_source(self._context, code)
        shared.append(function)
        annotations = function.__annotations__
        if annotations:
            shared.append(annotations)
        told = _told(annotations) if annotations else None
        name, qualified, defaults = function.__name__, function.__qualname__, function.__defaults__
        values = (code, place, name, qualified, module, document, defaults, told)
        written = operations.data(marshal.dumps(values, _WITHOUT_IDENTITY))
        return b"%b%b%b\x86R" % (_RESTORE_CODE, written, self._cache_tag)

    def _class(self, key: str, cls: type, shared: list[Any]) -> bytes | None:
        """Return the stream of a class and its name; None if the class is not plain."""
        methods, attributes, registered = classes.contents(cls)
        pushed: list[bytes] = []
        for name, method in methods:
            call = self._function(method, shared) if type(method) is types.FunctionType else None
            if call is None:
                return None
            pushed.append(operations.pair(operations.text(name), call))
        for name, value in attributes:
            if name == "__annotations__" and type(value) is dict and are_plain_annotations(value):
                shared.append(value)
            elif not is_plain_value(value):
                return None
        if len(set(map(id, shared))) < len(shared):
            return None  # a method with two names
        return b"".join(
            (
                operations.whole(operations.items(pushed)),
                pickle.dumps((attributes, registered), PROTOCOL),
                operations.whole(b"%b%b\x85R" % (_RESTORE_CLASS, operations.text(key))),
            )
        )


def _told(annotations: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return annotations for `marshal`, which takes no types: each as a tuple with its name."""
    return [
        (name, (value.__name__,) if type(value) is type else value)
        for name, value in annotations.items()
    ]
