"""Tools for SQLite files: look into one, and load a query's result into the notebook's kernel."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from prime_ext.tools import PrimeError, Tool, ToolContext, ToolOutcome, run_outcome

MAX_ROWS = 200
SECONDS = 20.0

PROPERTIES = {
    "path": {"type": "string", "description": "The SQLite file, relative to the server's root."},
    "sql": {"type": "string", "description": "One SELECT statement."},
}


async def query(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    """Run a query and show its first rows."""
    path = context.workspace.find(arguments["path"])  # refuses paths outside of the root
    columns, rows = await select(path, arguments["sql"])
    lines = ["\t".join(columns), *("\t".join(map(str, row)) for row in rows[:MAX_ROWS])]
    if len(rows) > MAX_ROWS:
        lines.append(f"(the first {MAX_ROWS} rows; there are more)")
    return ToolOutcome.text("\n".join(lines))


async def load(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    """Put all rows of a query into a variable of the kernel."""
    path = context.workspace.find(arguments["path"])
    name = arguments["name"]
    if not name.isidentifier():
        raise PrimeError(
            f"{name!r} is not a name for a variable.",
            code="bad_name",
            hint="Use letters, digits and underscores.",
        )
    # A function, so that nothing but the variable is left in the user's namespace.
    code = (
        f"{name} = (lambda pandas, sqlite3: pandas.read_sql({arguments['sql']!r}, "
        f"sqlite3.connect({path.as_uri() + '?mode=ro'!r}, uri=True)))"
        f"(__import__('pandas'), __import__('sqlite3'))\n{name}.shape"
    )
    execution = await context.kernel.execute(code, store_history=False)
    return run_outcome(execution)


async def select(path: Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a query, read in a thread so that the server goes on meanwhile."""
    with closing(
        sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
    ) as connection:
        connection.set_authorizer(authorize)
        reading = asyncio.ensure_future(asyncio.to_thread(fetch, connection, sql))
        try:
            return await asyncio.wait_for(asyncio.shield(reading), SECONDS)
        except sqlite3.Error as error:
            raise PrimeError(
                f"SQLite refused: {error}.",
                code="sql_error",
                hint="SELECT name, sql FROM sqlite_master tells what there is.",
            ) from None
        except asyncio.TimeoutError:
            raise PrimeError(
                f"The query took longer than {SECONDS:.0f} s and was stopped.",
                code="sql_too_slow",
                hint="Add a WHERE or a LIMIT.",
            ) from None
        finally:
            # Stop cancels the task, but not the thread: that is ended here.
            connection.interrupt()
            await asyncio.wait([reading])


def authorize(action: int, *_details: str | None) -> int:
    # ATTACH would open files that nobody has checked.
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def fetch(connection: sqlite3.Connection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    cursor = connection.execute(sql)
    rows = cursor.fetchmany(MAX_ROWS + 1)
    return [column[0] for column in cursor.description or ()], rows


TOOLS = [
    Tool(
        name="sqlite_query",
        description=(
            "Run a SELECT on a SQLite file and see its first rows. Nothing is changed. Use it to "
            "look around; sqlite_load brings data into the kernel."
        ),
        input_schema={
            "type": "object",
            "properties": PROPERTIES,
            "required": ["path", "sql"],
            "additionalProperties": False,
        },
        approval="read",
        handler=query,
        summary=lambda arguments: f"Query {arguments['path']}",
        detail=lambda arguments: f"```sql\n{arguments['sql']}\n```",
    ),
    Tool(
        name="sqlite_load",
        description="Load the result of a SELECT on a SQLite file into a pandas data frame.",
        input_schema={
            "type": "object",
            "properties": {
                **PROPERTIES,
                "name": {"type": "string", "description": "Name of the variable."},
            },
            "required": ["path", "sql", "name"],
            "additionalProperties": False,
        },
        approval="run",
        handler=load,
        summary=lambda arguments: f"Load {arguments['path']} into {arguments['name']}",
        detail=lambda arguments: f"```sql\n{arguments['sql']}\n```",
    ),
]
