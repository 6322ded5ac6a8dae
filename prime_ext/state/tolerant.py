"""Loading what is left of a component after something in it could not be loaded."""

from __future__ import annotations

import types
from typing import Any

from .pickling import ComponentUnpickler, describe
from .unrestorable import Unrestorable


class Lost(Unrestorable):
    """A placeholder made while loading: takes, and forgets, whatever state the stream holds."""

    __slots__ = ()

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__(type(self)._lost_type, type(self)._lost_reason)

    _lost_type = "object"
    _lost_reason = "it could not be loaded"

    def __setstate__(self, _state: Any) -> None:
        pass

    def append(self, _item: Any) -> None:
        """Part of the pickle protocol for lists."""

    def extend(self, _items: Any) -> None:
        """Part of the pickle protocol for lists."""

    def __setitem__(self, _key: Any, _value: Any) -> None:  # type: ignore[override]
        pass


def _lost(what: str, why: str) -> type[Lost]:
    return type("Lost", (Lost,), {"__slots__": (), "_lost_type": what, "_lost_reason": why})


class TolerantUnpickler(ComponentUnpickler):
    """Puts placeholders where a class is gone or a function fails."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            found = super().find_class(module, name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _lost(f"{module}.{name}", describe(error))
        if not isinstance(found, types.FunctionType):
            return found

        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                return _lost(f"{module}.{name}", describe(error))()

        return guarded
