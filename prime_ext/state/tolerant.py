"""Loading what is left of a component after something in it could not be loaded."""

from __future__ import annotations

import types
from typing import Any

from .pickling import ComponentUnpickler, describe
from .unrestorable import Unrestorable


class Lost(Unrestorable):
    """A placeholder made while loading: takes, and forgets, whatever the stream holds for it."""

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
    """Stands for a class that is gone; so do its instances, with what they were and why."""
    # As attributes of the class: instances may be made without their constructor being called.
    return type("Lost", (Lost,), {"__slots__": (), "_what": what, "_why": why, "_shown": ""})


class TolerantUnpickler(ComponentUnpickler):
    """Puts placeholders where a class is gone or a function fails."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            found = super().find_class(module, name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return lost_class(f"{module}.{name}", describe(error))
        if not isinstance(found, types.FunctionType):
            return found

        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                lost = [value._why for value in args if isinstance(value, Unrestorable)]
                return lost_class(f"{module}.{name}", lost[0] if lost else describe(error))()

        return guarded
