"""Risky types of objects, which are tried out before they are pickled in the kernel itself.

A ``__reduce__`` written in the notebook may do anything, and one in a little-known C extension may
crash. A component with such an object is first pickled in a forked child, so that a failure costs
only the child.
"""

from __future__ import annotations

import copyreg
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

from . import own_attributes
from .plans import Plan, module_of

if TYPE_CHECKING:
    from .pickling import Reducing

_HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")

_WELL_KNOWN = frozenset(
    """
    _cffi_backend astropy bokeh bs4 catboost cryptography cv2 dask duckdb fiona gensim
    geopandas greenlet h5py IPython jax jaxlib lightgbm llvmlite lxml matplotlib msgpack
    netCDF4 networkx numba numexpr numpy onnx pandas PIL plotly polars psutil psycopg2 pyarrow
    pydantic pydantic_core regex scipy seaborn shapely skimage sklearn spacy sqlalchemy
    statsmodels sympy tables tensorflow tokenizers torch tornado traitlets xarray xgboost yaml
    zmq
    """.split()  # noqa: SIM905 - a list this long is read better as words
)


_known_to_fail: weakref.WeakKeyDictionary[type, tuple[Any, str]] = weakref.WeakKeyDictionary()
"""Type that hung or crashed → its pickling methods, and the problem. Trying it again at each save
would cost seconds. It is tried again once the user has replaced one of the methods."""


def remember_failure(kind: type, what: str) -> None:
    """Turn objects of this type into placeholders from now on."""
    _known_to_fail[kind] = _hooks_of(kind), what


def _failure(kind: type) -> str:
    hooks, what = _known_to_fail.get(kind, (None, ""))
    return what if hooks == _hooks_of(kind) else ""


def _hooks_of(kind: type) -> tuple[Any, ...]:
    return tuple(getattr(kind, name, None) for name in _HOOKS)


class StartOver(BaseException):
    """Raised through a pickler to pickle the component again, with what is known by then."""


class PickleAgain(StartOver):
    """Raised to pickle the component again at once; the reason is on record in the context."""


class TrialNeeded(StartOver):
    """Raised through the pickler by the first object of a risky type that was not tried yet."""

    def __init__(self, kind: type) -> None:
        super().__init__(kind)
        self.kind = kind


def guarded(plan: Plan, kind: type) -> Plan:
    """Return the plan if the type is harmless, otherwise a plan that requires a trial first."""
    if not is_risky(kind):
        return plan

    is_told = not _from_unknown_extension(kind)

    def guard(pickler: Reducing, value: Any) -> Any:
        failure = _failure(kind)
        if failure:
            return pickler.lose(value, failure)
        tried = pickler.context.tried
        if tried is not None and kind not in tried:
            raise TrialNeeded(kind)
        if is_told and len(pickler.described) <= own_attributes.MOST:
            pickler.described[id(value)] = own_attributes.describe(value)
        return plan(pickler, value)

    return guard


def is_risky(kind: type) -> bool:
    """Return whether pickling an instance runs the user's own or little-known C code."""
    if issubclass(kind, (type, types.ModuleType)):
        return False
    for base in kind.__mro__[:-1]:
        if module_of(base) == "__main__" and any(hook in vars(base) for hook in _HOOKS):
            return True
    reducer = copyreg.dispatch_table.get(kind)
    if getattr(reducer, "__module__", None) == "__main__":
        return True
    return _from_unknown_extension(kind)


def _from_unknown_extension(kind: type) -> bool:
    top = module_of(kind).partition(".")[0]
    if top in _WELL_KNOWN or top in _STANDARD:
        return False
    file = getattr(sys.modules.get(module_of(kind)), "__file__", None) or ""
    return file.endswith((".so", ".pyd"))


_STANDARD: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset()) | frozenset(
    sys.builtin_module_names
)
