"""Objects of the standard library that are written in C and do not support pickle: readers and
writers of CSV, keys for sorting, scanners of JSON, layouts of `struct`.

What they refer to is found by the garbage collector, which has to know it too.
"""

from __future__ import annotations

import csv
import decimal
import functools
import gc
import importlib
import struct
import types
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .restorers import SandboxedResource, restorer
from .standard_options import dialect_fields
from .unrestorable import Unrestorable


class _Discards:
    """A file that keeps nothing, to make a writer whose type can be named."""

    def write(self, _text: str) -> None:
        """Do nothing."""


def _parts(value: Any) -> list[Any]:
    """Return the objects that an object written in C refers to, without its type."""
    return [found for found in gc.get_referents(value) if found is not type(value)]


@reduces(type(csv.get_dialect("excel")))
def reduce_dialect(_pickler: Reducing, dialect: Any) -> Any:
    return restore_dialect, (dialect_fields(dialect),)


@restorer
def restore_dialect(fields: dict[str, Any]) -> Any:
    make: Any = type(csv.get_dialect("excel"))
    return make(**fields)


@reduces(type(csv.reader(())))
def reduce_csv_reader(pickler: Reducing, reader: Any) -> Any:
    dialect = reader.dialect
    rows = [part for part in _parts(reader) if part is not dialect and type(part) is not list]
    if len(rows) != 1:
        return pickler.lose(reader, "it is not known what it reads")
    if reader.line_num:
        pickler.notes.append("a restored reader of CSV counts its lines (line_num) from 0 again")
    return restore_csv_reader, (rows[0], dialect_fields(dialect))


@restorer
def restore_csv_reader(rows: Any, fields: dict[str, Any]) -> Any:
    return _made(restore_csv_reader, csv.reader, rows, fields)


@reduces(type(csv.writer(_Discards())))
def reduce_csv_writer(pickler: Reducing, writer: Any) -> Any:
    dialect = writer.dialect
    methods = [part for part in _parts(writer) if getattr(part, "__name__", "") == "write"]
    if len(methods) != 1 or getattr(methods[0], "__self__", None) is None:
        return pickler.lose(writer, "it is not known what it writes to")
    return restore_csv_writer, (methods[0].__self__, dialect_fields(dialect))


@restorer
def restore_csv_writer(file: Any, fields: dict[str, Any]) -> Any:
    return _made(restore_csv_writer, csv.writer, file, fields)


def _made(recall: Any, make: Any, file: Any, fields: dict[str, Any]) -> Any:
    if isinstance(file, Unrestorable):
        return file
    if isinstance(file, SandboxedResource):
        return SandboxedResource(recall, (file, fields))
    return make(file, **fields)


@reduces(struct.Struct)
def reduce_struct(_pickler: Reducing, layout: struct.Struct) -> Any:
    return struct.Struct, (layout.format,)


_KEY: Any = functools.cmp_to_key(lambda _one, _other: 0)


@reduces(type(_KEY))
def reduce_sorting_key(pickler: Reducing, key: Any) -> Any:
    wrapped = (key.obj,) if hasattr(key, "obj") else ()
    compare = [p for p in _parts(key) if not (wrapped and p is wrapped[0])]
    if len(compare) != 1:
        return pickler.lose(key, "the function that compares is not known")
    return restore_sorting_key, (compare[0], wrapped)


@restorer
def restore_sorting_key(compare: Any, wrapped: tuple[Any, ...]) -> Any:
    made: Any = functools.cmp_to_key(compare)
    return made(*wrapped) if wrapped else made


@reduces(decimal.Context)
def reduce_decimal_context(pickler: Reducing, context: decimal.Context) -> Any:
    """Refer to the context in use, which is restored with the state of the process."""
    if context is not decimal.getcontext():
        return NotImplemented
    pickler.context.references.add(id(context))
    return restore_decimal_context, ()


@restorer
def restore_decimal_context() -> decimal.Context:
    return decimal.getcontext()


_SCANNER = (
    "strict",
    "object_hook",
    "object_pairs_hook",
    "parse_float",
    "parse_int",
    "parse_constant",
)


@reduces("_json:Scanner")
def reduce_json_scanner(_pickler: Reducing, scanner: Any) -> Any:
    return restore_json_scanner, ({name: getattr(scanner, name) for name in _SCANNER},)


@restorer
def restore_json_scanner(fields: dict[str, Any]) -> Any:
    make = importlib.import_module("json.scanner").c_make_scanner
    return make(types.SimpleNamespace(**fields))
