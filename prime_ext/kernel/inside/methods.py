"""The library methods that have no side effects. Sent like ``bootstrap``.

A method is allowed by name and library, never by name alone: ``replace`` of a string returns a new
string, but ``replace`` of a path renames a file. No argument may be a callable or contain one at
any depth, since the method might call it.
"""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.kernel.inside import summary


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ARRAY = _words(
    """
    all any astype clip copy cumprod cumsum item max mean min prod ravel reshape round squeeze std
    sum tolist trace transpose var
    """
)

_FRAME = _words(
    """
    abs add_prefix agg all any astype between clip contains copy corr count cov cummax cummin
    cumprod cumsum describe diff drop_duplicates dropna duplicated endswith eq explode fillna
    filter first get get_group groupby head idxmax idxmin isin isna isnull item items keys kurt
    last len lower max mean median melt memory_usage min mode ne nlargest notna notnull nsmallest
    nunique pct_change pivot_table prod quantile rank replace resample reset_index rolling round
    select_dtypes sem set_index skew sort_index sort_values split squeeze startswith std strftime
    strip sum tail title to_dict to_list to_numpy tolist total_seconds transpose unique unstack
    upper value_counts var where xs
    """
)

METHODS = {
    "builtins": _words(
        """
        copy count difference endswith find get index intersection is_integer isalnum isalpha
        isdigit isdisjoint issubset issuperset items keys lower replace rfind split splitlines
        startswith strip title union upper values
        """
    ),
    "collections": _words("copy count get index items keys most_common total values"),
    "datetime": _words("date isoformat isoweekday strftime timestamp total_seconds weekday"),
    "decimal": _words("as_tuple is_nan quantize"),
    "fractions": _words("limit_denominator"),
    "pathlib": _words("as_posix is_absolute with_name with_suffix"),
    "uuid": frozenset(),
    "enum": frozenset(),
    "numpy": _ARRAY,
    "pandas": _FRAME,
    "polars": _words(
        """
        cast corr count describe drop_nulls explain explode filter first group_by head is_in
        is_null item last len max mean median min n_unique null_count quantile round schema select
        sort std sum tail to_dict to_dicts to_list unique value_counts var with_columns
        """
    ),
    "pyarrow": _words("column field slice to_pydict to_pylist value_counts"),
    "scipy": _words("max mean min sum toarray todense transpose"),
    "sklearn": _words("get_params"),
    "torch": _words(
        """
        abs all any argmax argmin clone count_nonzero dim flatten item max mean median min numel
        reshape size squeeze std sum tolist transpose unique var
        """
    ),
    "xarray": _words(
        "count head isel isnull max mean median min notnull sel std sum tail to_dict transpose var"
    ),
}
"""Library → methods that return a new object and change neither their own object nor the disk."""

FUNCTIONS = {
    function.__name__: function
    for function in (abs, dict, len, list, max, min, round, set, sorted, str, sum, tuple, type)
}

_COMPARING = _words("count difference index intersection issubset issuperset isdisjoint union")
"""Methods of Python's containers that compare their elements."""

_AGGREGATES = _words(
    """
    all any count cumcount first idxmax idxmin kurt last max mean median min mode ngroup nunique
    prod quantile rank sem size skew std sum unique var
    """
)
"""Strings allowed as aggregation: pandas would call any method with the given name."""

_PATTERNS = _words("contains count filter replace split")
"""Methods of pandas that accept regular expressions."""

_REPEATING = frozenset("*+?{")
"""Repetition operators of regular expressions. With them a search may take forever, and nothing
could stop it."""

TYPES = {kind.__name__: kind for kind in (bool, bytes, complex, float, int, str)}
"""Types allowed as arguments, as in ``astype(int)``."""

_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_EMPTY: dict[Any, Any] = {}
_VIEWS = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_CONTAINERS = (list, tuple, set, frozenset, collections.deque, *_MAPPINGS, *_VIEWS)
_SEARCHED = frozenset(map(id, _CONTAINERS))
_MAX_CONTAINERS = 10_000

_BUILTINS = (
    *(bool, bytearray, bytes, complex, float, int, memoryview, range, slice, str, type),
    *(type(None), type(Ellipsis)),
    *_CONTAINERS,
)
"""Types of Python and of ``collections`` whose operations run no code but that of their elements.
Other types delegate to the objects they wrap: proxies, chains of mappings, exceptions."""


class Refused(Exception):
    """The call might have side effects; the message says which."""


def library_of(value: Any) -> str | None:
    """Return the library that the type of ``value`` is from; ``None`` if look-ups may run code."""
    name = summary.package_of(type(value))
    if name in ("builtins", "collections"):
        return name if summary.is_one_of(type(value), _BUILTINS) else None
    return name if name in METHODS else None


def method(owner: Any, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Return the bound method ``name`` of ``owner``, checked for a call with these arguments.

    Raises
    ------
    Refused
        The call might run user code, or change its object or a file.
    """
    library = library_of(owner)
    if library is None or summary.is_instance(owner, type, types.ModuleType) or callable(owner):
        raise Refused(f"calling {name}() runs code")
    if name not in METHODS[library]:
        raise Refused(f"{name}() is not known to leave its object unchanged")
    if name in _COMPARING:
        plain(owner)
    elif name == "get":
        keys(owner)
    for item in [*arguments, *named.values()]:
        plain(item)
    if not {"inplace", "out", "into", "key"}.isdisjoint(named):
        raise Refused("the arguments inplace, out, into and key do more than read")
    if library == "numpy" and any(library_of(item) == "numpy" for item in arguments[1:]):
        raise Refused("an array may be the output argument; pass it by keyword")
    if library == "pandas":
        if any(item is True for item in arguments[1:]):
            raise Refused("a positional True may mean inplace; pass it by keyword")
        if name in _PATTERNS and named.get("regex") is not False:
            _check_patterns([*arguments, *named.values()])
        if name == "agg":
            _check_aggregates(arguments, named)
        if name == "pivot_table" and (len(arguments) > 3 or "aggfunc" in named):
            if len(arguments) > 3:
                raise Refused("aggfunc must be passed by keyword")
            _check_aggregate(named["aggfunc"])
    return getattr(owner, name)


def function(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Return the builtin ``name``, checked for a call with these arguments.

    Raises
    ------
    Refused
        The call might run user code, or exhaust an iterator.
    """
    if "key" in named:
        raise Refused("a key function is code")
    # These three do not look at the elements.
    deep = name not in ("len", "type", "round")
    for item in [*arguments, *named.values()]:
        if library_of(item) is None and not summary.has(item, "__next__"):
            raise Refused(f"{name}() of a user-defined object runs its code")
        plain(item, deep=deep)
    return FUNCTIONS[name]


def keys(container: Any) -> None:
    """Refuse a mapping with keys of user types: a look-up would compare them."""
    if summary.is_one_of(type(container), _MAPPINGS):
        plain(tuple(container))


def plain(value: Any, *, deep: bool = True) -> None:
    """Refuse callables, iterators (a look would exhaust them) and instances of user classes.

    Python's own containers are searched; the elements of an object array or column are not.
    """
    pending, seen = [value], 0
    while pending:
        item = pending.pop()
        if id(type(item)) not in _SEARCHED:
            _check_one(item)
            continue
        if not deep:
            continue
        seen += 1
        if seen > _MAX_CONTAINERS:
            raise Refused("it holds too many containers to check")
        parts = list(item)
        if summary.is_one_of(type(item), _MAPPINGS):
            parts += item.values()
        # Check one element of each type: of a million numbers, only one.
        kinds = {id(type(part)): part for part in parts}
        pending += kinds.values()
        pending += [part for part in parts if id(type(part)) in _SEARCHED or callable(part)]


def _check_one(item: Any) -> None:
    if summary.is_instance(item, type):
        if not summary.is_one_of(item, TYPES.values()) and not _is_dtype(item):
            raise Refused("a class as an argument may be called")
    elif callable(item):
        raise Refused("a function as an argument may be called")
    elif summary.has(item, "__next__"):
        raise Refused("reading an iterator uses it up")
    elif item is not None and library_of(item) is None:
        raise Refused(f"a user-defined object ({summary.type_name(item)}) may run its code")


def _is_dtype(item: type) -> bool:
    known = {
        (summary.of_class(base, "__name__"), summary.package_of(base))
        for base in summary.of_class(item, "__mro__")
    }
    return not known.isdisjoint({("generic", "numpy"), ("DataType", "polars")})


def _check_patterns(values: list[Any]) -> None:
    for value in values:
        if isinstance(value, str) and not _REPEATING.isdisjoint(value):
            raise Refused("a pattern with repetition may never end; pass regex=False or plain text")
        if isinstance(value, (list, tuple)):
            _check_patterns(list(value))
        if isinstance(value, dict):
            _check_patterns([*value, *value.values()])


def _check_aggregates(arguments: list[Any], named: dict[str, Any]) -> None:
    if len(arguments) > 1:
        raise Refused("agg() passes further arguments on to what it calls")
    for item in arguments:
        _check_aggregate(item)
    for item in named.values():
        if not (type(item) is tuple and len(item) == 2):
            raise Refused("agg() needs a pair of a column and a function's name here")
        _check_aggregate(item[1])


def _check_aggregate(item: Any) -> None:
    if type(item) is dict:
        for part in item.values():
            _check_aggregate(part)
    elif type(item) in (list, tuple):
        for part in item:
            _check_aggregate(part)
    elif type(item) is not str or item not in _AGGREGATES:
        known = ", ".join(sorted(_AGGREGATES))
        raise Refused(f"agg() runs what its argument names; known are {known}")
