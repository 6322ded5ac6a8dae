"""Connections to SQLite: to the same file again, or restored with the data they have in memory."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .restorers import outside, restorer
from .unrestorable import missed


@reduces("sqlite3:Connection", "_sqlite3:Connection")
def reduce_database(pickler: Reducing, connection: Any) -> Any:
    try:
        databases = {row[1]: row[2] for row in _plain_rows(connection, "PRAGMA database_list")}
    except Exception as error:
        return pickler.lose(connection, f"its databases cannot be read: {error}")
    made = sorted(_functions(connection) - _builtin_functions())
    if made:
        pickler.notes.append(f"the SQL functions made for it are not restored: {', '.join(made)}")
    settings = {
        "isolation_level": connection.isolation_level,
        "row_factory": connection.row_factory,
        "text_factory": connection.text_factory,
    }
    beside: dict[str, Any] = {
        "foreign_keys": _plain_rows(connection, "PRAGMA foreign_keys") == [(1,)],
        "any_thread": _may_be_used_by_any_thread(connection),
        "attached": _attached(pickler, connection, databases),
    }
    path = databases.get("main", "")
    if os.path.isabs(path):  # in memory, a database has no path, or "x" if it was deserialized
        if connection.in_transaction:
            pickler.notes.append(f"an open transaction on {path} is rolled back by a restore")
        return restore_database_file, (path, settings, beside)
    if connection.in_transaction:
        pickler.notes.append("an in-memory database comes back with its transaction committed")
    args = (_content(connection, "main"), settings, beside)
    with_files = any(isinstance(what, str) for what in beside["attached"].values())
    return (restore_memory_and_files if with_files else restore_memory_database), args


def _content(connection: Any, name: str) -> bytes | str:
    """Return a database in memory as SQLite serializes it, or as a script in an old Python."""
    if _plain_rows(connection, f"PRAGMA {_quoted(name)}.page_count") == [(0,)]:
        return b""  # SQLite cannot serialize an empty one
    if hasattr(connection, "serialize"):
        content: bytes = connection.serialize(name=name)
        return content
    with _plain(connection):
        return "\n".join(connection.iterdump())


def _attached(pickler: Reducing, connection: Any, databases: dict[str, str]) -> dict[str, Any]:
    """Return the name of each attached database, and its path, or its content if in memory."""
    found: dict[str, Any] = {}
    for name, path in databases.items():
        if name == "temp":
            if _plain_rows(connection, "SELECT 1 FROM temp.sqlite_master LIMIT 1"):
                pickler.notes.append("temporary tables of SQLite are not restored")
        elif name != "main" and os.path.isabs(path):
            found[name] = path
        elif name != "main" and hasattr(connection, "serialize"):
            found[name] = _content(connection, name)
        elif name != "main":
            pickler.notes.append(f"the attached database {name} is not restored")
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _may_be_used_by_any_thread(connection: Any) -> bool:
    """Return whether it was made with ``check_same_thread=False``, which only a try can tell."""
    succeeded: list[Any] = []

    def use() -> None:
        with contextlib.suppress(Exception):
            succeeded.append(connection.cursor())

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    return bool(succeeded)


@contextlib.contextmanager
def _plain(connection: Any) -> Any:
    """Let the connection return rows as tuples, and texts as strings, for as long as this lasts."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = factories


def _plain_rows(connection: Any, query: str) -> list[Any]:
    with _plain(connection):
        return list(connection.execute(query))


def _functions(connection: Any) -> set[str]:
    """Return the names of functions and collations; none where SQLite is too old to list them."""
    found = {row[0] for row in _plain_rows(connection, "PRAGMA function_list")}
    return found | {row[1] for row in _plain_rows(connection, "PRAGMA collation_list")}


@functools.cache
def _builtin_functions() -> frozenset[str]:
    import sqlite3

    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return frozenset(_functions(connection))


@restorer
def restore_memory_database(
    content: bytes | str, settings: dict[str, Any], beside: dict[str, Any] | None = None
) -> Any:
    connection: Any = _connect(":memory:", beside)
    if isinstance(content, str):
        connection.executescript(content)
    elif content:
        connection.deserialize(content)
    return _configured(connection, settings, beside)


@outside
def restore_memory_and_files(
    content: bytes | str, settings: dict[str, Any], beside: dict[str, Any]
) -> Any:
    return restore_memory_database(content, settings, beside)


@outside
def restore_database_file(
    path: str, settings: dict[str, Any], beside: dict[str, Any] | None = None
) -> Any:
    """Reconnect to a database file; a missing one is not created."""
    if not os.path.exists(path):
        return missed("sqlite3.Connection", f"{path} does not exist any more")
    return _configured(_connect(path, beside), settings, beside)


def _connect(path: str, beside: dict[str, Any] | None) -> Any:
    import sqlite3

    return sqlite3.connect(path, check_same_thread=not (beside or {}).get("any_thread", False))


def _configured(connection: Any, settings: dict[str, Any], beside: dict[str, Any] | None) -> Any:
    for name, what in (beside or {}).get("attached", {}).items():
        if isinstance(what, bytes):
            connection.execute(f"ATTACH ':memory:' AS {_quoted(name)}")
            if what:
                connection.deserialize(what, name=name)
        elif os.path.exists(what):
            connection.execute(f"ATTACH ? AS {_quoted(name)}", (what,))
        else:
            missed("sqlite3.Connection", f"{what}, attached as {name}, does not exist any more")
    if (beside or {}).get("foreign_keys"):
        connection.execute("PRAGMA foreign_keys = ON")
    for name, value in settings.items():
        setattr(connection, name, value)
    return connection


@reduces("sqlite3:Row", "_sqlite3:Row")
def reduce_row(_pickler: Reducing, row: Any) -> Any:
    return restore_row, (row.keys(), tuple(row))


@restorer
def restore_row(names: list[str], values: tuple[Any, ...]) -> Any:
    import sqlite3

    # A row takes the names of its columns from a cursor.
    columns = ", ".join(f"NULL AS {_quoted(name)}" for name in names)
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return sqlite3.Row(connection.execute(f"SELECT {columns}"), values)
