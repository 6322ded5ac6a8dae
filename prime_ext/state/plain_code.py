"""Functions and classes that consist of code and plain values only, as most in a notebook do.

A notebook may have hundreds of them, and the bookkeeping for a component takes longer than pickling
one. For these it is known in advance which objects they may share with others, no user code runs
while they are pickled, and nothing is lost. So one pickler handles all of them, one after the
other. The streams are the same, byte for byte, as those of the general way (`components`).
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

from . import classes
from .pickling import PROTOCOL, ComponentPickler, SaveContext
from .reducers_functions import (
    are_plain_annotations,
    is_importable,
    is_plain_function,
    is_plain_value,
    plain_reduction,
)

Root = tuple[str, str]


class _Pickler(pickle.Pickler):
    """Pickles objects whose reductions are given; all other objects in them are plain values."""

    reductions: dict[int, Any]

    def reducer_override(self, value: Any) -> Any:
        return self.reductions.get(id(value), NotImplemented)


class PlainCode:
    """Pickles the plain functions and classes of one save."""

    def __init__(self, context: SaveContext) -> None:
        self._context = context
        self._registrar = ComponentPickler(io.BytesIO(), context)
        self._file = io.BytesIO()
        self._pickler = _Pickler(self._file, PROTOCOL)

    def pickled(self, roots: list[Root]) -> tuple[bytes, set[str], list[Any]] | None:
        """Pickle roots: the name of a function, or a class and its name, in this order.

        Returns the stream, the keys of the classes used, and the objects that other components
        may share; None if the roots are not plain.
        """
        value = self._context.namespace.get(roots[-1][1]) if roots[-1][0] == "name" else None
        shared: list[Any] = []
        reductions: dict[int, Any] = {}
        try:
            if len(roots) == 1 and type(value) is types.FunctionType:
                if self._takes(value, reductions, shared):
                    return self._dump(reductions, value), set(), shared
            elif len(roots) == 2 and type(value) is type and roots[0][0] == "class":
                key = roots[0][1]
                parts = self._parts(value, reductions, shared)
                if parts is not None and self._context.classes.get(key) is value:
                    reductions[id(value)] = classes.restore_class, (key,)
                    return self._dump(reductions, *parts, value), {key}, shared
        except Exception:
            return None  # the general way will get the same error and report it
        return None

    def _dump(self, reductions: dict[int, Any], *parts: Any) -> bytes:
        pickler, file = self._pickler, self._file
        pickler.reductions = reductions
        pickler.clear_memo()
        file.seek(0)
        file.truncate()
        for part in parts:
            pickler.dump(part)
        return file.getvalue()

    def _takes(
        self, function: types.FunctionType, reductions: dict[int, Any], shared: list[Any]
    ) -> bool:
        """Add a function's reduction, and its objects that others may share; false if not plain."""
        if is_importable(self._registrar, function) or not is_plain_function(function):
            return False
        scope = function.__globals__
        if scope is not self._context.namespace and scope.get("__name__") != "__main__":
            return False
        reduction = plain_reduction(self._registrar, function)
        if reduction is None:
            return False
        reductions[id(function)] = reduction
        shared.append(function)
        if function.__annotations__:
            shared.append(function.__annotations__)
        return True

    def _parts(
        self, cls: type, reductions: dict[int, Any], shared: list[Any]
    ) -> tuple[Any, Any] | None:
        """Return the parts that a class is pickled as, before its name (`classes.contents`).

        Returns None if the class is not plain.
        """
        methods, attributes, registered = classes.contents(cls)
        for _, method in methods:
            if type(method) is not types.FunctionType:
                return None
            if not self._takes(method, reductions, shared):
                return None
        for name, value in attributes:
            if name == "__annotations__" and type(value) is dict and are_plain_annotations(value):
                shared.append(value)
            elif not is_plain_value(value):
                return None
        return methods, (attributes, registered)
