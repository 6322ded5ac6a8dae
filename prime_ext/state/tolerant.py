"""Loading a component with placeholders for the objects in it that cannot be loaded."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any, ClassVar

from .interrupts import is_interrupt
from .nans import KeptNans
from .pickling import PROTOCOL, ComponentUnpickler, describe
from .restorers import ALIAS
from .unrestorable import Unrestorable


class Lost(Unrestorable):
    """A placeholder made while loading; accepts and discards everything the stream puts into it."""

    __slots__ = ()

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Lost:
        return object.__new__(cls)

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __setstate__(self, *_state: Any) -> None:
        pass

    def append(self, _item: Any) -> None:
        """Part of the pickle protocol for lists."""

    def extend(self, _items: Any) -> None:
        """Part of the pickle protocol for lists."""

    def __setitem__(self, _key: Any, _value: Any) -> None:  # type: ignore[override]
        pass


def lost_class(what: str, why: str) -> type[Lost]:
    """Return a placeholder class, whose instances are placeholders with that ``what`` and ``why``.

    These are attributes of the class, as instances may be made without calling a constructor.
    """
    return type("Lost", (Lost,), {"__slots__": (), "_what": what, "_why": why, "_shown": ""})


class TolerantUnpickler(KeptNans, pickle._Unpickler):
    """Puts placeholders in place of missing classes and of objects that cannot be made or filled.

    It is based on the unpickler written in Python, whose steps can be overridden one by one.
    Recovery may be slow.
    """

    memo: Any
    stack: list[Any]
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, stream: bytes | memoryview, buffers: Iterable[Any]) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._finder = ComponentUnpickler(pickle.dumps(None, PROTOCOL), ())
        self._finder.load()  # tells it the protocol, which `find_class` depends on

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._finder.find_class(module, name)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return lost_class(f"{module}.{name}", describe(error))

    def _lost(self, what: Any, arguments: Any, error: BaseException) -> Lost:
        if is_interrupt(error):
            raise error
        told = [value._why for value in arguments if isinstance(value, Unrestorable)]
        name = f"{getattr(what, '__module__', '')}.{getattr(what, '__qualname__', '')}"
        return lost_class(name, told[0] if told else describe(error))()

    def _make(self, make: Any, what: Any, arguments: Any) -> None:
        try:
            self.stack.append(make())
        except BaseException as error:
            self.stack.append(self._lost(what, arguments, error))

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack.pop()
        try:
            self.stack.append(function(*arguments))
        except BaseException as error:
            lost = self._lost(function, arguments, error)
            if _fills(function) and self.stack:
                self._replace(arguments[0], self._lost(type(arguments[0]), (), error))
            self.stack.append(lost)

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        cls = self.stack.pop()
        self._make(lambda: cls.__new__(cls, *arguments), cls, arguments)

    def load_newobj_ex(self) -> None:
        named = self.stack.pop()
        arguments = self.stack.pop()
        cls = self.stack.pop()
        self._make(lambda: cls.__new__(cls, *arguments, **named), cls, arguments)

    def load_build(self) -> None:
        unfilled = self.stack[-2]
        try:
            pickle._Unpickler.load_build(self)  # type: ignore[attr-defined]
        except BaseException as error:
            if not isinstance(unfilled, Unrestorable):
                self._replace(unfilled, self._lost(type(unfilled), (), error))

    def _replace(self, unfilled: Any, lost: Lost) -> None:
        """Replace an object that could not be filled, which would look as if it were whole."""
        self.stack[-1] = lost
        for number, value in list(self.memo.items()):
            if value is unfilled:
                self.memo[number] = lost

    def load_readonly_buffer(self) -> None:
        if not isinstance(self.stack[-1], Unrestorable):
            pickle._Unpickler.load_readonly_buffer(self)  # type: ignore[attr-defined]

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.READONLY_BUFFER[0]] = load_readonly_buffer


def _fills(function: Any) -> bool:
    """Return whether a function is a restorer that fills an object, as ``BUILD`` does."""
    name = getattr(function, "__name__", "")
    return getattr(function, "__module__", "") == ALIAS and name.startswith(("set_", "fill_"))
