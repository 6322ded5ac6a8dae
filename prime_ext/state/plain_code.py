"""Functions and classes that consist of code and plain values only, as most in a notebook do.

A notebook may have hundreds of them, and what is done for a component takes longer than pickling
one. For these it is known in advance which objects they may share with others, no user code runs
while they are pickled, and nothing is lost. So they need no pickler: `marshal` writes their code
and their values, and the few operations around these are always the same (`operations`).

A function is one call of `restore_plain_code`. A class has the parts that `component` writes for
any class: its methods, by one call of `restore_plain_methods`, the rest of its contents, and the
class itself for its name.
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
    MARSHAL_FORMAT,
    are_plain_annotations,
    is_importable,
    is_plain_function,
    is_plain_value,
    remember_source,
    restore_plain_code,
    restore_plain_methods,
)

Root = tuple[str, str]

_TEXT = (str, type(None))

_RESTORE_CODE = operations.restorer(restore_plain_code.__name__)
_RESTORE_METHODS = operations.restorer(restore_plain_methods.__name__)
_RESTORE_CLASS = operations.restorer(classes.restore_class.__name__)


class PlainCode:
    """Pickles the plain functions and classes of one save."""

    def __init__(self, context: SaveContext) -> None:
        self._context = context
        self._registrar = ComponentPickler(io.BytesIO(), context)
        self._main = vars(sys.modules["__main__"])
        self._files: set[str] = set()
        """File names whose source has been remembered, if there is one."""
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
                values = self._values(value, shared)
                if values is None:
                    return None
                return self._made_by(_RESTORE_CODE, values), set(), shared
            if len(roots) == 2 and type(value) is type and roots[0][0] == "class":
                key = roots[0][1]
                if self._context.classes.get(key) is value:
                    stream = self._class(key, value, shared)
                    return None if stream is None else (stream, {key}, shared)
        except Exception:
            return None  # the general way will get the same error and report it
        return None

    def _values(self, function: types.FunctionType, shared: list[Any]) -> tuple[Any, ...] | None:
        """Return what makes a function again, and add its objects that others may share.

        None if the function is not plain.
        """
        module = function.__module__
        if module != "__main__" and is_importable(self._registrar, function):
            return None
        if not is_plain_function(function):
            return None
        scope = function.__globals__
        place = None if scope is self._context.namespace else "__main__"
        if place is not None and scope is not self._main:
            return None
        document = function.__doc__
        if type(document) not in _TEXT or type(module) not in _TEXT:
            return None
        code = function.__code__
        if code.co_filename not in self._files:
            self._files.add(code.co_filename)
            remember_source(self._context, code)
        shared.append(function)
        annotations = function.__annotations__
        if annotations:
            shared.append(annotations)
        told = _told(annotations) if annotations else None
        name, qualified, defaults = function.__name__, function.__qualname__, function.__defaults__
        return code, place, name, qualified, module, document, defaults, told

    def _class(self, key: str, cls: type, shared: list[Any]) -> bytes | None:
        """Return the stream of a class and its name; None if the class is not plain."""
        methods, attributes, registered = classes.contents(cls)
        names, written = [], []
        for name, method in methods:
            values = self._values(method, shared) if type(method) is types.FunctionType else None
            if values is None:
                return None
            names.append(name)
            written.append(values)
        for name, value in attributes:
            if name == "__annotations__" and type(value) is dict and are_plain_annotations(value):
                shared.append(value)
            elif not is_plain_value(value):
                return None
        if len(set(map(id, shared))) < len(shared):
            return None  # a method with two names
        return b"".join(
            (
                self._made_by(_RESTORE_METHODS, written, operations.texts(names)),
                pickle.dumps((attributes, registered), PROTOCOL),
                operations.whole(operations.call(_RESTORE_CLASS, operations.text(key), 1)),
            )
        )

    def _made_by(self, restorer: bytes, values: Any, first: bytes = b"") -> bytes:
        """Return a pickle that calls a restorer with marshalled values and the bytecode's tag.

        ``first`` pushes an argument that comes before these.
        """
        written = operations.data(marshal.dumps(values, MARSHAL_FORMAT))
        arguments = b"%b%b%b" % (first, written, self._cache_tag)
        return operations.whole(operations.call(restorer, arguments, 3 if first else 2))


def _told(annotations: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return annotations for `marshal`, which takes no types: each as a tuple with its name."""
    return [
        (name, (value.__name__,) if type(value) is type else value)
        for name, value in annotations.items()
    ]
