"""Frames and series of polars.

polars pickles a frame as one copy, and text slowly: a gigabyte takes seconds. Large columns are
saved through Arrow instead. Where possible the memory itself is written, and mapped when restored.
Small columns, and those of other types than the ones below, are left to polars.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .packing import MIN_BUFFER
from .pickling import Reducing
from .plans import reduces
from .restorers import restorer

_WORTH_IMPORTING = 64 * 1024 * 1024
"""Size in bytes from which a frame is worth importing pyarrow for, some tenths of a second."""

_TEXT = ("Binary", "String")
_NUMBERS = (
    *("Boolean", "Date", "Datetime", "Duration", "Time", "Float32", "Float64"),
    *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
)
_BYTES_A_VIEW = 16


@reduces("polars.dataframe.frame:DataFrame")
def reduce_frame(_pickler: Reducing, frame: Any) -> Any:
    """Reduce a large frame to its columns."""
    columns = frame.get_columns()
    if _arrow(frame.estimated_size()) is None or not any(map(_is_arrow_column, columns)):
        return NotImplemented
    if any(type(column.dtype).__name__ == "Object" for column in columns):
        return NotImplemented  # such a frame cannot be kept, and the placeholder is for all of it
    return restore_polars_frame, (columns,)


@restorer
def restore_polars_frame(columns: list[Any]) -> Any:
    return importlib.import_module("polars").DataFrame(columns)


@reduces("polars.series.series:Series")
def reduce_series(_pickler: Reducing, series: Any) -> Any:
    if not _is_arrow_column(series):
        return NotImplemented
    pieces = [_piece(chunk) for chunk in series.get_chunks()]
    return restore_polars_series, (series.name, pieces, series.flags)


@restorer
def restore_polars_series(name: str, pieces: list[Any], flags: dict[str, bool]) -> Any:
    pl = importlib.import_module("polars")
    series = pl.concat([pl.Series(name, piece) for piece in pieces], rechunk=False)
    if flags.get("SORTED_ASC") or flags.get("SORTED_DESC"):
        series = series.set_sorted(descending=not flags.get("SORTED_ASC"))
    return series


def _is_arrow_column(series: Any) -> bool:
    kind = type(series.dtype).__name__
    return kind in (*_TEXT, *_NUMBERS) and _arrow(series.estimated_size()) is not None


def _piece(chunk: Any) -> Any:
    """Return the data of a series in one piece as an Arrow array that shares its memory.

    A part of a larger piece of memory is copied, or it would drag all of it along.
    """
    pl, pa = importlib.import_module("polars"), importlib.import_module("pyarrow")
    data = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
    is_text = type(chunk.dtype).__name__ in _TEXT
    size = chunk.estimated_size() + (_BYTES_A_VIEW * len(chunk) if is_text else 0)
    if data.offset == 0 and data.get_total_buffer_size() < size + MIN_BUFFER:
        return data
    if is_text:
        copied = chunk.to_arrow(compat_level=pl.CompatLevel.oldest())
    else:
        copied = pa.concat_arrays([data, data.slice(0, 0)])
    return pl.Series(copied).to_arrow(compat_level=pl.CompatLevel.newest())


def _arrow(size: int) -> Any:
    """Return pyarrow if it is new enough and worth using for data of ``size`` bytes, else None."""
    if size < MIN_BUFFER or ("pyarrow" not in sys.modules and size < _WORTH_IMPORTING):
        return None
    try:
        pa = importlib.import_module("pyarrow")
    except ImportError:
        return None
    known = hasattr(pa, "string_view") and hasattr(sys.modules["polars"], "CompatLevel")
    return pa if known else None
