"""Functions and classes that consist of code and plain values only, as most of a notebook do.

A notebook has hundreds of them, and what each needs as a component takes longer than pickling it
does. Of these it is known beforehand which of their objects may be shared with others, nothing of
the user's runs while they are pickled, and nothing is lost: one pickler does them all, one after
the other. What comes out is what the general way would give, byte for byte.
"""

from __future__ import annotations

import io
import types
from typing import Any

from . import classes
from .pickling import ComponentPickler, SaveContext
from .reducers_functions import (
    are_plain_annotations,
    is_importable,
    is_plain_function,
    is_plain_value,
)
from .risk import TrialNeeded

Root = tuple[str, str]


class PlainCode:
    """Pickles such functions and classes of one save."""

    def __init__(self, context: SaveContext) -> None:
        self._context = context
        self._file = io.BytesIO()
        self._pickler = ComponentPickler(self._file, context)

    def pickled(self, roots: list[Root]) -> tuple[bytes, set[str], list[Any]] | None:
        """Stream, keys of the classes used, and the objects others may share; None if not plain.

        ``roots``: the name of a function, or a class and its name, in this order.
        """
        parts: tuple[Any, ...]
        value = self._context.namespace.get(roots[-1][1]) if roots[-1][0] == "name" else None
        if len(roots) == 1 and type(value) is types.FunctionType:
            shared = self._of_function(value)
            parts = (value,)
        elif len(roots) == 2 and type(value) is type and roots[0][0] == "class":
            if self._context.classes.get(roots[0][1]) is not value:
                return None
            shared, parts = self._of_class(value)
        else:
            return None
        if shared is None:
            return None
        try:
            return self._dump(parts), self._pickler.used_classes, shared
        except (Exception, TrialNeeded):
            return None  # what is wrong is found out in the general way

    def _dump(self, parts: tuple[Any, ...]) -> bytes:
        pickler, file = self._pickler, self._file
        pickler.clear_memo()
        pickler.used_classes = set()
        file.seek(0)
        file.truncate()
        for part in parts:
            pickler.dump(part)
        return file.getvalue()

    def _of_function(self, function: types.FunctionType) -> list[Any] | None:
        """What of a function others may share: the function itself and its annotations."""
        if not is_plain_function(function) or is_importable(self._pickler, function):
            return None
        if not self._has_known_globals(function):
            return None
        annotations = function.__annotations__
        return [function, annotations] if annotations else [function]

    def _has_known_globals(self, function: types.FunctionType) -> bool:
        scope = function.__globals__
        return scope is self._context.namespace or scope.get("__name__") == "__main__"

    def _of_class(self, cls: type) -> tuple[list[Any] | None, tuple[Any, ...]]:
        methods, attributes, registered = classes.contents(cls)
        shared: list[Any] = []
        for _, method in methods:
            parts = self._of_function(method) if type(method) is types.FunctionType else None
            if parts is None:
                return None, ()
            shared += parts
        for name, value in attributes:
            if name == "__annotations__" and type(value) is dict and are_plain_annotations(value):
                shared.append(value)
            elif not is_plain_value(value):
                return None, ()
        return shared, (methods, (attributes, registered), cls)
