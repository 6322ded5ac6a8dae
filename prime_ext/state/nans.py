"""NaNs that are one object: as NaN does not equal itself, ``x in values`` and ``table[x]`` find a
NaN by its identity.

pickle writes each float anew. So a component with NaNs is pickled again, by a pickler that calls
`Nans.number` for each object, and writes the NaNs as persistent ids. That takes longer, so it is
done for streams of up to `LARGEST` bytes only.

It is also done for the dictionary of all built-ins, which ``exec(code, names)`` puts into
``names``: pickle would write its content.
"""

from __future__ import annotations

import builtins
import decimal
import math
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

from .risk import PickleAgain

LARGEST = 1024 * 1024

_WRITTEN = re.compile(rb"G[\x7f\xff]\xf8")
"""A NaN as pickle writes it: BINFLOAT, sign and exponent. It may occur by chance as well."""

_OF_MODULES = (("math", "nan"), ("numpy", "nan"), ("json.decoder", "NaN"), ("cmath", "nan"))

_BUILTINS = vars(builtins)
_BUILTINS_ID = ("builtins", "__dict__")

_KEY = "component with NaNs"


class NanMet(PickleAgain):
    """Raised through the pickler that has written a NaN, to pickle the component again."""


def is_nan(value: Any) -> bool:
    """Return whether it is a number that does not equal itself."""
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return isinstance(value, (float, complex)) and value != value


def are_in(stream: memoryview) -> bool:
    """Return whether a stream may contain a NaN, and is small enough to be pickled again."""
    return len(stream) <= LARGEST and _WRITTEN.search(stream) is not None


def expect(kept: dict[Any, Any]) -> None:
    """Make the next pickler of the save keep NaNs, and pickle the component again."""
    kept[_KEY] = True
    raise NanMet


def are_expected(kept: dict[Any, Any]) -> bool:
    """Return whether the component was found to contain NaNs."""
    return bool(kept.pop(_KEY, False))


class Nans:
    """The NaNs that a pickler has met: id → persistent id and the object.

    The persistent id of a NaN that a module has is the name of the module, as of ``math.nan``.
    Likewise, the dictionary of built-ins is an attribute of a module. ``met_globals`` is called for
    each dictionary that code has been executed in.
    """

    def __init__(self, met_globals: Callable[[dict[str, Any]], None]) -> None:
        self._met_globals = met_globals
        self.met: dict[int, tuple[Any, float]] = {}
        for module, name in _OF_MODULES:
            value = getattr(sys.modules.get(module), name, None)
            if type(value) is float and value != value:
                self.met.setdefault(id(value), ((module, name), value))
        self._of_modules = len(self.met)

    def number(self, value: Any) -> Any:
        """Return the persistent id of a NaN or of the built-ins, and None for any other object."""
        if type(value) is not float or value == value:
            if type(value) is not dict:
                return None
            if value is _BUILTINS:
                return _BUILTINS_ID
            if value.get("__builtins__") is _BUILTINS:
                self._met_globals(value)
            return None
        known = self.met.get(id(value))
        if known is None:
            number = len(self.met) - self._of_modules
            known = self.met[id(value)] = (number, struct.pack("<d", value)), value
        return known[0]

    def own(self) -> dict[int, tuple[int, float]]:
        """Return id → (0, object), like the memo of a pickler, without those that modules have."""
        return {key: (0, value) for key, (name, value) in self.met.items() if type(name[0]) is int}


class KeptNans:
    """A base of unpicklers that makes one object of each persistent id."""

    _nans: dict[Any, Any] | None = None

    def persistent_load(self, name: tuple[Any, Any]) -> Any:
        if self._nans is None:
            self._nans = {}
        found = self._nans.get(name)
        if found is None:
            first, second = name
            if type(first) is int:
                found = struct.unpack("<d", second)[0]
            else:
                found = getattr(sys.modules.get(first), second, math.nan)
            self._nans[name] = found
        return found
