"""One-line summaries of values, without changing or computing anything. Sent like ``bootstrap``.

The only user code that runs is ``__repr__``, under a deadline. Attributes are read only from types
of well-known libraries, never from types that the user has written.
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
    """Return ``__name__``, ``__module__``, ``__mro__``, ``__bases__`` or ``__dict__`` of a class.

    Normal attribute access would run a metaclass that the user has written.
    """
    return type.__dict__[attribute].__get__(kind)


def package_of(kind: type) -> str:
    """Return the top-level package of a class, according to its ``__module__``."""
    module = of_class(kind, "__module__")
    return module.partition(".")[0] if type(module) is str else ""


def has(value: Any, name: str) -> bool:
    """Whether the type of ``value``, or a base of it, defines ``name``."""
    return defined(type(value), name) is not MISSING


MISSING = object()


def defined(kind: type, name: str) -> Any:
    """Return the class attribute ``name`` of a class or its bases, or `MISSING`."""
    tables = (of_class(base, "__dict__") for base in of_class(kind, "__mro__"))
    return next((table[name] for table in tables if name in table), MISSING)


def instance_attributes(value: Any) -> dict[str, Any]:
    """Return a copy of the instance's own ``__dict__``; empty if it has none."""
    getter = defined(type(value), "__dict__")
    held = getter.__get__(value) if type(getter) is types.GetSetDescriptorType else {}
    return dict(held) if type(held) is dict else {}


def static_attribute(value: Any, name: str) -> Any:
    """Return the attribute or descriptor behind ``value.name`` without running it, or `MISSING`.

    ``inspect.getattr_static`` is not used because it may run a metaclass.
    """
    if is_instance(value, type):
        own = defined(value, name)
    else:
        own = instance_attributes(value).get(name, MISSING)
    found = defined(type(value), name)
    overrides = found is not MISSING and (has(found, "__set__") or has(found, "__delete__"))
    return found if overrides or own is MISSING else own


def is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """Return ``kind in kinds`` by identity; ``in`` might run the ``__eq__`` of a metaclass."""
    return any(kind is one for one in kinds)


def names_of(value: Any) -> list[str]:
    """Return ``package.Class`` for the type of ``value`` and each of its bases."""
    mro = of_class(type(value), "__mro__")
    return [f"{package_of(kind)}.{of_class(kind, '__name__')}" for kind in mro]


def is_a(value: Any, *names: str) -> bool:
    """Whether the type of ``value`` or a base is one of ``names``; nothing is imported.

    A user's subclass of a library class does not count, since the methods it overrides are user
    code. Subclasses of built-in types do.
    """
    found = set(names).intersection(names_of(value))
    if package_of(type(value)) == "__main__":
        return any(name.startswith("builtins.") for name in found)
    return bool(found)


def is_known_library(value: Any) -> bool:
    """Whether the type of ``value`` is from a package whose attributes users do not inspect."""
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
    """Do as ``isinstance`` does, without running a ``__class__`` property."""
    return issubclass(type(value), kinds)


def type_name(value: Any) -> str:
    """Return e.g. ``pandas.DataFrame``; only the class name for user and built-in types."""
    package, name = package_of(type(value)), str(of_class(type(value), "__name__"))
    return name if package in ("builtins", "__main__") else f"{package}.{name}"


def kind_of(value: Any) -> str:
    """Return ``module``, ``class``, ``function`` or ``data``."""
    if is_instance(value, types.ModuleType):
        return "module"
    if is_instance(value, type):
        return "class"
    if is_instance(value, types.FunctionType, types.BuiltinFunctionType, types.MethodType):
        return "function"
    return "data"


def shape_of(value: Any) -> str | None:
    """Return e.g. ``(150, 5)`` for tables and arrays, the length of containers, else ``None``."""
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
    """Return the size of the data itself in bytes, where that is cheap to know."""
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
    """Whether the type of ``value`` inherits ``object.__repr__``."""
    mro = of_class(type(value), "__mro__")
    defining: Any = next(kind for kind in mro if "__repr__" in of_class(kind, "__dict__"))
    return defining is object


def short(value: Any, clock: guard.Clock, level: int = 2) -> str:
    """Return a ``repr`` on one line of at most `MAX_LINE` characters."""
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
    except BaseException as error:  # A repr may raise anything.
        return f"<{name}: its repr raised {type(error).__name__}>"


def _repr(value: Any, seconds: float) -> str:
    text = guard.within(seconds, repr, value)
    if type(text) is not str:
        text = str.__str__(text)
    return str(text[: MAX_LINE * 4])
