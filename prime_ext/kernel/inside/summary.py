"""One line about a value, without changing or computing anything. Sent like ``bootstrap``.

Code of the user's runs only in ``__repr__``, and that under a deadline. Attributes are read
from types of well-known libraries alone, never from types the user has written.
"""

from __future__ import annotations

import types
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prime_ext.kernel.inside import guard

REPR_SECONDS = 0.25
MAX_LINE = 120
_MAX_ITEMS = 6
_MAX_STRING = 60
_MAX_INT_BITS = 4096

_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def of_class(kind: type, attribute: str) -> Any:
    """``__name__``, ``__module__``, ``__mro__``, ``__bases__`` or ``__dict__`` of a class.

    Reading them by ``.`` would run a metaclass that the user has written.
    """
    return type.__dict__[attribute].__get__(kind)


def package_of(kind: type) -> str:
    """The package, or single module, that a class says it comes from."""
    module = of_class(kind, "__module__")
    return module.partition(".")[0] if type(module) is str else ""


def has(value: Any, name: str) -> bool:
    """Whether the type of ``value``, or a base of it, defines ``name``."""
    return defined(type(value), name) is not MISSING


MISSING = object()


def defined(kind: type, name: str) -> Any:
    """What a class or its bases have under ``name``, or `MISSING`."""
    tables = (of_class(base, "__dict__") for base in of_class(kind, "__mro__"))
    return next((table[name] for table in tables if name in table), MISSING)


def instance_attributes(value: Any) -> dict[str, Any]:
    """What the instance itself holds."""
    getter = defined(type(value), "__dict__")
    held = getter.__get__(value) if type(getter) is types.GetSetDescriptorType else {}
    return dict(held) if type(held) is dict else {}


def static_attribute(value: Any, name: str) -> Any:
    """What ``value.name`` would be made from, with nothing run; `MISSING` if there is nothing.

    ``inspect.getattr_static`` reads classes by way of their metaclass.
    """
    if is_instance(value, type):
        own = defined(value, name)
    else:
        own = instance_attributes(value).get(name, MISSING)
    found = defined(type(value), name)
    overrides = found is not MISSING and (has(found, "__set__") or has(found, "__delete__"))
    return found if overrides or own is MISSING else own


def is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """As ``kind in kinds``, which would compare classes as their metaclass wants."""
    return any(kind is one for one in kinds)


def names_of(value: Any) -> list[str]:
    """``package.Class`` for the type of ``value`` and each of its bases."""
    mro = of_class(type(value), "__mro__")
    return [f"{package_of(kind)}.{of_class(kind, '__name__')}" for kind in mro]


def is_a(value: Any, *names: str) -> bool:
    """Whether a type or base is one of ``package.Class``; nothing is imported for it.

    A class of the user's that is derived from a library's does not count as the library's: what
    it overrides is the user's code.
    """
    found = set(names).intersection(names_of(value))
    if package_of(type(value)) == "__main__":
        return any(name.startswith("builtins.") for name in found)
    return bool(found)


def is_known_library(value: Any) -> bool:
    """Whether its type comes from an installed package that people do not look inside of."""
    return package_of(type(value)) in _LIBRARIES


_LIBRARIES = frozenset(
    (
        "builtins",
        "datetime",
        "decimal",
        "fractions",
        "numpy",
        "pandas",
        "polars",
        "pyarrow",
        "scipy",
        "torch",
        "xarray",
        "pathlib",
        "enum",
        "collections",
    )
)


def is_instance(value: Any, *kinds: type) -> bool:
    """As ``isinstance``, which would run a ``__class__`` property."""
    return issubclass(type(value), kinds)


def type_name(value: Any) -> str:
    """``DataFrame`` of pandas as ``pandas.DataFrame``, the user's and built-in types bare."""
    package, name = package_of(type(value)), str(of_class(type(value), "__name__"))
    return name if package in ("builtins", "__main__") else f"{package}.{name}"


def kind_of(value: Any) -> str:
    """``module``, ``class``, ``function`` or ``data``."""
    if is_instance(value, types.ModuleType):
        return "module"
    if is_instance(value, type):
        return "class"
    if is_instance(value, types.FunctionType, types.BuiltinFunctionType, types.MethodType):
        return "function"
    return "data"


def shape_of(value: Any) -> str | None:
    """``(150, 5)`` for tables and arrays, a length for containers, else ``None``."""
    if is_a(value, *_SHAPED):
        return str(tuple(int(length) for length in value.shape))
    if is_a(value, "pyarrow.Table"):
        return str((value.num_rows, value.num_columns))
    if is_a(value, "polars.Series", "pandas.Index"):
        return str((len(value),))
    if is_one_of(type(value), (*_SIZED, range)):
        return str(len(value))
    return None


_SIZED = (str, bytes, bytearray, list, tuple, set, frozenset, dict)

_SHAPED = (
    "numpy.ndarray",
    "pandas.DataFrame",
    "pandas.Series",
    "polars.DataFrame",
    "torch.Tensor",
    "jax.Array",
    "jaxlib.ArrayImpl",
    "cupy.ndarray",
    "scipy.sparray",
    "scipy._spbase",
    "scipy.spmatrix",
    "xarray.DataArray",
)


def size_of(value: Any) -> int | None:
    """Bytes of the data itself, where that is known at once."""
    if is_a(value, "numpy.ndarray", "pyarrow.Table", "torch.Tensor", "pandas.Index"):
        return int(value.nbytes)
    if is_a(value, "pandas.DataFrame"):
        return int(value.memory_usage(deep=False).sum())
    if is_a(value, "pandas.Series"):
        return int(value.memory_usage(deep=False))
    if is_a(value, "polars.DataFrame", "polars.Series"):
        return int(value.estimated_size())
    if is_one_of(type(value), _SIZED):
        return int(value.__sizeof__())
    return None


def has_default_repr(value: Any) -> bool:
    """Whether its type has no ``__repr__`` but that of every object."""
    mro = of_class(type(value), "__mro__")
    defining: Any = next(kind for kind in mro if "__repr__" in of_class(kind, "__dict__"))
    return defining is object


def short(value: Any, clock: guard.Clock, level: int = 2) -> str:
    """A bounded ``repr`` on one line, at most `MAX_LINE` characters."""
    return clip(" ".join(_short(value, clock, level).split()), MAX_LINE)


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _short(value: Any, clock: guard.Clock, level: int) -> str:
    kind = type(value)
    if kind is int and value.bit_length() > _MAX_INT_BITS:
        return f"<int of {value.bit_length()} bits>"
    if value is None or is_one_of(kind, (int, float, complex, bool, range, type(Ellipsis))):
        return repr(value)
    if is_one_of(kind, (str, bytes, bytearray)):
        tail = "…" if len(value) > _MAX_STRING else ""
        return repr(value[:_MAX_STRING]) + tail
    if is_one_of(kind, _BRACKETS):
        return _items(kind, value, clock, level)
    if kind is dict:
        if level <= 0:
            return "{…}" if value else "{}"
        pairs = (
            f"{_short(key, clock, level - 1)}: {_short(item, clock, level - 1)}"
            for key, item in list(islice(value.items(), _MAX_ITEMS))
        )
        return "{" + _joined(pairs, len(value)) + "}"
    return _instance(value, clock)


def _items(kind: type, value: Any, clock: guard.Clock, level: int) -> str:
    opening, closing = _BRACKETS[kind]
    if level <= 0:
        return f"{opening}…{closing}" if value else f"{opening}{closing}"
    items = (_short(item, clock, level - 1) for item in list(islice(value, _MAX_ITEMS)))
    comma = "," if kind is tuple and len(value) == 1 else ""
    return opening + _joined(items, len(value)) + comma + closing


def _joined(parts: Iterable[str], total: int) -> str:
    more = f", … {total - _MAX_ITEMS} more" if total > _MAX_ITEMS else ""
    return ", ".join(parts) + more


def _instance(value: Any, clock: guard.Clock) -> str:
    if is_instance(value, types.ModuleType):
        return f"<module {object.__getattribute__(value, '__dict__').get('__name__')}>"
    if is_instance(value, type):
        return f"<class {of_class(value, '__name__')}>"
    if is_instance(value, types.FunctionType):
        return f"<function {value.__name__}>"
    name = type_name(value)
    try:
        shape = shape_of(value)
        if shape is not None:
            dtype = getattr(value, "dtype", None)
            return f"<{name} {shape}{f' {dtype}' if dtype is not None else ''}>"
        if has_default_repr(value):
            return f"<{name} object>"
        if clock.left() <= 0:
            return f"<{name}>"
        return _repr(value, min(REPR_SECONDS, clock.left()))
    except guard.TookTooLong:
        return f"<{name}: its repr takes too long>"
    except BaseException as error:  # What a repr raises is the user's business, not ours.
        return f"<{name}: its repr raised {type(error).__name__}>"


def _repr(value: Any, seconds: float) -> str:
    text = guard.within(seconds, repr, value)
    if type(text) is not str:
        text = str.__str__(text)
    return str(text[: MAX_LINE * 4])
