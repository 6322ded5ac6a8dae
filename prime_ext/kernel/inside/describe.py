"""The full description of a value: text of useful length, and an image of a figure.

Sent like ``bootstrap``. If an error interrupts the description, the lines before it remain.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import inspect
import io
import linecache
import types
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prime_ext.kernel.inside import guard, summary

MAX_CHARS = 20_000
MAX_COLUMNS = 60
MAX_ITEMS = 40
FEW = 6
MAX_SOURCE = 8_000
BIG_CELLS = 20_000_000
"""Cells of a table, or elements of an array, above which statistics cover only its head."""

IMAGE_SIDE = 1568
"""Maximum length of an image's longer side in pixels; models scale larger images down."""


def describe(value: Any, clock: guard.Clock, lines: list[str]) -> None:
    """Append a description of ``value`` to ``lines``, which keep what is there on a timeout."""
    lines.append(_headline(value))
    section = _section(value)
    try:
        for line in section(value, clock):
            lines.append(line)
            if sum(map(len, lines)) > MAX_CHARS:
                break
    except guard.TookTooLong:
        raise
    except BaseException as error:  # A repr may raise even SystemExit.
        lines.append(f"(The rest cannot be shown: {type(error).__name__}: {error})")


def _section(value: Any) -> Any:
    exact = next((section for kind, section in _EXACT.items() if type(value) is kind), None)
    if exact is not None:
        return exact
    return next((s for names, s in _SECTIONS if summary.is_a(value, *names)), _any)


def _headline(value: Any) -> str:
    parts = ["class" if summary.is_instance(value, type) else summary.type_name(value)]
    shape, size = summary.shape_of(value), summary.size_of(value)
    if shape is not None:
        parts.append(f"shape {shape}" if shape.startswith("(") else f"length {shape}")
    if size is not None:
        parts.append(f"{size:,} bytes")
    return ", ".join(parts)


# -- tables and arrays ------------------------------------------------------------------------


def _pandas_frame(frame: Any, clock: guard.Clock) -> Iterator[str]:
    yield f"index: {_pandas_index(frame.index)}"
    part, which = _head(frame, frame.shape[0] * max(1, frame.shape[1]), frame.shape[0])
    shown = list(islice(enumerate(frame.dtypes.items()), MAX_COLUMNS))
    yield "columns (dtype, missing values" + which + "):"
    for position, (name, dtype) in shown:
        yield f"  {name!r}: {dtype}, {int(part.iloc[:, position].isna().sum())} missing"
    if frame.shape[1] > MAX_COLUMNS:
        yield f"  … {frame.shape[1] - MAX_COLUMNS} more columns"
    narrow = frame.iloc[:, :MAX_COLUMNS]
    yield "first rows:"
    yield _texts(narrow.head(5), clock).to_string(max_colwidth=40)
    numbers = part.iloc[:, :MAX_COLUMNS].select_dtypes("number")
    if numbers.shape[1] and numbers.shape[0]:
        yield f"numbers{which}:"
        yield numbers.describe().to_string(float_format=lambda x: f"{x:.6g}")
    if frame.attrs:
        yield f"attrs: {summary.clip(repr(frame.attrs), 200)}"


def _pandas_series(series: Any, clock: guard.Clock) -> Iterator[str]:
    part, which = _head(series, series.shape[0], series.shape[0])
    yield f"name: {series.name!r}, dtype: {series.dtype}, index: {_pandas_index(series.index)}"
    yield f"missing values{which}: {int(part.isna().sum())}"
    yield "first values:"
    yield _texts(series.head(10).to_frame(), clock).iloc[:, 0].to_string()
    if _are_plain(part):
        yield f"summary{which}:"
        yield part.describe().to_string()


def _texts(head: Any, clock: guard.Clock) -> Any:
    """Return the rows with each object replaced by a short text.

    To show an object, pandas would take its length, iterate over it and call its ``__str__``.
    """
    head = head.copy()
    for position in range(head.shape[1]):
        column = head.iloc[:, position]
        if not _are_plain(column):
            texts = [v if _is_plain(v) else summary.short(v, clock) for v in column.to_numpy()]
            head.isetitem(position, type(column)(texts, index=head.index, dtype=object))
    return head


def _are_plain(series: Any) -> bool:
    """Whether no element may have a ``__hash__`` or ``__eq__`` that the user has written."""
    if series.dtype != object:
        return True
    kinds = {id(type(value)): value for value in series.to_numpy()}
    return all(map(_is_plain, kinds.values()))


def _is_plain(value: Any) -> bool:
    if value is None or summary.is_one_of(type(value), (str, bytes, bool, int, float, complex)):
        return True
    return summary.package_of(type(value)) in ("datetime", "decimal", "numpy", "pandas", "uuid")


def _pandas_index(index: Any) -> str:
    kind = type(index).__name__
    if not len(index):
        return f"{kind}, empty"
    return f"{kind}, {index[0]!r} … {index[-1]!r}"


def _head(table: Any, cells: int, rows: int) -> tuple[Any, str]:
    if cells <= BIG_CELLS:
        return table, ""
    kept = max(1, rows * BIG_CELLS // cells)
    return table.iloc[:kept], f" in the first {kept:,} rows"


def _polars_frame(frame: Any, _clock: guard.Clock) -> Iterator[str]:
    missing = frame.null_count().row(0) if frame.width else ()
    yield "columns (dtype, missing values):"
    pairs = zip(frame.schema.items(), missing)  # noqa: B905 - Python 3.9
    for (name, dtype), count in islice(pairs, MAX_COLUMNS):
        yield f"  {name!r}: {dtype}, {count} missing"
    yield "first rows:"
    yield str(frame.head(5))
    if 0 < frame.height * frame.width <= BIG_CELLS:
        yield "summary:"
        yield str(frame.describe())


def _lazy_frame(frame: Any, _clock: guard.Clock) -> Iterator[str]:
    yield "a query that has not been computed; it is not computed for this. Plan:"
    yield frame.explain(optimized=False)


def _array(array: Any, _clock: guard.Clock) -> Iterator[str]:
    import numpy as np

    yield f"dtype: {array.dtype}"
    if array.dtype.kind in "biufc" and array.size:
        flat = array.reshape(-1)[:BIG_CELLS] if array.size > BIG_CELLS else array
        which = f" of the first {BIG_CELLS:,}" if array.size > BIG_CELLS else ""
        if array.dtype.kind in "fc":
            yield f"missing (nan){which}: {int(np.isnan(flat).sum())}"
        if array.dtype.kind != "c":
            finite = flat[np.isfinite(flat)] if array.dtype.kind == "f" else flat
            if finite.size:
                yield (
                    f"min {finite.min():.6g}, mean {finite.mean():.6g}, max {finite.max():.6g}"
                    + which
                )
    yield "values:"
    yield np.array2string(np.asarray(array), threshold=50, edgeitems=3, max_line_width=100)


def _arrow_table(table: Any, _clock: guard.Clock) -> Iterator[str]:
    yield "columns:"
    for column in islice(table.schema, MAX_COLUMNS):
        yield f"  {column.name!r}: {column.type}"


# -- containers and text ----------------------------------------------------------------------


def _dict(value: Any, clock: guard.Clock) -> Iterator[str]:
    if len(value) <= FEW:
        yield summary.short(value, clock)
    for key, item in list(islice(dict.items(value), MAX_ITEMS)):
        yield f"  {summary.short(key, clock)}: {summary.short(item, clock)}"
    if len(value) > MAX_ITEMS:
        yield f"  … {len(value) - MAX_ITEMS} more"


def _sequence(value: Any, clock: guard.Clock) -> Iterator[str]:
    if len(value) <= FEW:
        yield summary.short(value, clock)
    kinds = Counter(summary.type_name(item) for item in list(islice(value, 10_000)))
    if len(kinds) > 1 or len(value) > MAX_ITEMS:
        yield "types: " + ", ".join(f"{name} × {n}" for name, n in kinds.most_common(8))
    for number, item in enumerate(list(islice(value, MAX_ITEMS))):
        yield f"  [{number}] {summary.short(item, clock)}"
    if len(value) > MAX_ITEMS:
        yield f"  … {len(value) - MAX_ITEMS} more"


def _text(value: Any, _clock: guard.Clock) -> Iterator[str]:
    yield summary.clip(value, MAX_CHARS // 2)


# -- code -------------------------------------------------------------------------------------


def _function(value: Any, _clock: guard.Clock) -> Iterator[str]:
    yield f"{value.__name__}{_signature(value)}"
    doc = inspect.getdoc(value)
    source = _source(value)
    if doc and not source:
        yield doc
    if source:
        yield source


def _class(value: Any, clock: guard.Clock) -> Iterator[str]:
    bases = [summary.of_class(base, "__name__") for base in summary.of_class(value, "__bases__")]
    yield f"class {summary.of_class(value, '__name__')}({', '.join(bases)})"
    source = _source(value)
    if source:
        yield source
        return
    doc = _own_doc(value)
    if doc:
        yield summary.clip(doc, 2000)
    for name, member in islice(summary.of_class(value, "__dict__").items(), 200):
        if name.startswith("_"):
            continue
        if type(member) is types.FunctionType:
            yield f"  {name}{_signature(member)}"
        elif not summary.has(member, "__get__"):
            yield f"  {name} = {summary.short(member, clock)}"


def _module(value: Any, _clock: guard.Clock) -> Iterator[str]:
    contents = object.__getattribute__(value, "__dict__")
    name, version = contents.get("__name__"), contents.get("__version__", "unknown")
    yield f"module {name}, version {version}"
    yield f"file: {contents.get('__file__', 'built in')}"
    doc = contents.get("__doc__")
    if isinstance(doc, str):
        yield summary.clip(inspect.cleandoc(doc), 600)
    public = [name for name in contents if not name.startswith("_")]
    yield "names: " + ", ".join(public[:80]) + (" …" if len(public) > 80 else "")


def _signature(function: Any) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"


def _source(value: Any) -> str:
    if summary.is_instance(value, type) and summary.package_of(type(value)) not in _METACLASSES:
        return _class_source(value)  # `inspect.getsource` would run the metaclass.
    try:
        return summary.clip(inspect.getsource(value), MAX_SOURCE)
    except (OSError, TypeError, IndentationError):
        return _class_source(value) if summary.is_instance(value, type) else ""


_METACLASSES = ("builtins", "abc", "enum", "typing")


def _class_source(value: type) -> str:
    """Find the source of a class defined in a cell through the file name of one of its methods."""
    for member in summary.of_class(value, "__dict__").values():
        if type(member) is not types.FunctionType:
            continue
        source = "".join(linecache.getlines(member.__code__.co_filename))
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(source)):
                if (
                    isinstance(node, ast.ClassDef)
                    and node.name == summary.of_class(value, "__name__")
                    and node.lineno <= member.__code__.co_firstlineno <= (node.end_lineno or 0)
                ):
                    return summary.clip(ast.get_source_segment(source, node) or "", MAX_SOURCE)
    return ""


# -- objects ----------------------------------------------------------------------------------


def _estimator(value: Any, clock: guard.Clock) -> Iterator[str]:
    yield guard.within(_seconds(clock), repr, value)
    fitted = {
        name: item
        for name, item in vars(value).items()
        if name.endswith("_") and not name.startswith("_")
    }
    yield _fitted(value, fitted)
    for name, item in islice(fitted.items(), MAX_ITEMS):
        yield f"  {name} = {summary.short(item, clock)}"


def _fitted(value: Any, attributes: dict[str, Any]) -> str:
    """Say whether scikit-learn considers ``value`` fitted: a pipeline, for one, by its steps."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(value)
    except NotFittedError:
        return "not fitted"
    except Exception:
        return "fitted:" if attributes else "whether it is fitted cannot be told"
    return "fitted:" if attributes else "fitted"


def _error(value: BaseException, _clock: guard.Clock) -> Iterator[str]:
    import traceback

    yield "".join(traceback.format_exception(type(value), value, value.__traceback__, limit=20))


def _plotly(figure: Any, _clock: guard.Clock) -> Iterator[str]:
    for number, trace in enumerate(figure.data):
        yield f"  trace {number}: {trace.type}, name {trace.name!r}"


def _axes_figure(value: Any, _clock: guard.Clock) -> Iterator[str]:
    axes = value.axes if summary.is_a(value, "matplotlib.Figure") else [value]
    for number, axis in enumerate(axes[:MAX_ITEMS]):
        yield (
            f"  axes {number}: title {axis.get_title()!r}, x {axis.get_xlabel()!r}, "
            f"y {axis.get_ylabel()!r}, {len(axis.lines)} lines, {len(axis.patches)} patches, "
            f"{len(axis.collections)} collections, {len(axis.images)} images"
        )


def _any(value: Any, clock: guard.Clock) -> Iterator[str]:
    if not summary.has_default_repr(value):
        try:
            yield summary.clip(str(guard.within(_seconds(clock), repr, value)), MAX_CHARS // 2)
        except guard.TookTooLong:
            yield "(its repr takes too long)"
        except BaseException as error:  # A failing repr must not hide the rest.
            yield f"(its repr raised {type(error).__name__}: {error})"
    if summary.is_known_library(value):
        return  # Its repr suffices; its attributes are internals.
    doc = _own_doc(type(value))
    if doc:
        yield "about the type: " + summary.clip(doc.partition("\n\n")[0], 300)
    attributes = summary.instance_attributes(value)
    if attributes:
        yield "attributes:"
    for name, item in islice(attributes.items(), MAX_ITEMS):
        yield f"  {name} = {summary.short(item, clock)}"


def _own_doc(kind: type) -> str:
    """Return the class's own docstring: neither inherited nor generated for a data class."""
    doc = summary.of_class(kind, "__dict__").get("__doc__")
    if type(doc) is not str or doc.startswith(f"{summary.of_class(kind, '__name__')}("):
        return ""
    return inspect.cleandoc(doc)


def _seconds(clock: guard.Clock) -> float:
    return max(0.01, min(2.0, clock.left()))


_EXACT: dict[type, Any] = {
    dict: _dict,
    list: _sequence,
    tuple: _sequence,
    set: _sequence,
    frozenset: _sequence,
    str: _text,
}

_SECTIONS: list[tuple[tuple[str, ...], Any]] = [
    (("pandas.DataFrame",), _pandas_frame),
    (("pandas.Series",), _pandas_series),
    (("polars.DataFrame",), _polars_frame),
    (("polars.LazyFrame",), _lazy_frame),
    (("numpy.ndarray",), _array),
    (("pyarrow.Table",), _arrow_table),
    (("sklearn.BaseEstimator",), _estimator),
    (("matplotlib.Figure", "matplotlib.Axes"), _axes_figure),
    (("plotly.BaseFigure",), _plotly),
    (("builtins.BaseException",), _error),
    (("collections.Counter", "collections.OrderedDict", "collections.defaultdict"), _dict),
    (("builtins.function", "builtins.builtin_function_or_method", "builtins.method"), _function),
    (("builtins.type",), _class),
    (("builtins.module",), _module),
]


# -- images -----------------------------------------------------------------------------------


def image_of(value: Any) -> dict[str, str] | None:
    """Return ``{media_type, data}`` (base64) of a figure or picture, otherwise ``None``.

    Call it only while no cell runs: the user's thread might use the figure at the same time.
    """
    if summary.is_a(value, "matplotlib.Axes"):
        value = value.figure
    if summary.is_a(value, "matplotlib.Figure"):
        return _png(_drawn(value))
    if summary.is_a(value, "PIL.Image"):
        copy = value.copy()
        copy.thumbnail((IMAGE_SIDE, IMAGE_SIDE))
        if copy.mode not in ("RGB", "RGBA", "L"):
            copy = copy.convert("RGBA")
        buffer = io.BytesIO()
        copy.save(buffer, "PNG")
        return _png(buffer.getvalue())
    if summary.is_a(value, "IPython.Image") and type(value.data) is bytes:
        media_type = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif"}.get(
            value.format
        )
        if media_type is not None:
            return {"media_type": media_type, "data": base64.b64encode(value.data).decode()}
    return None


def _drawn(figure: Any) -> bytes:
    """Render the figure as PNG. It keeps its canvas, and pyplot is not involved."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    held = {name: figure.__dict__.get(name) for name in ("canvas", "_original_dpi", "_stale")}
    dpi = min(figure.dpi, IMAGE_SIDE / max(1.0, *figure.get_size_inches()))
    buffer = io.BytesIO()
    try:
        canvas = FigureCanvasAgg(figure)
        canvas.print_figure(buffer, format="png", dpi=dpi)
    finally:
        figure.__dict__.update(held)
    return buffer.getvalue()


def _png(data: bytes) -> dict[str, str]:
    return {"media_type": "image/png", "data": base64.b64encode(data).decode()}
