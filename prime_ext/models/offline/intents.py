"""The intents that the offline agent understands, one dataclass each.

Fields hold the user's own words (``"body mass"``, ``"that frame"``, ``"3"``); plans match them with
existing columns, variables and cells.
"""

from __future__ import annotations

from dataclasses import dataclass

# --- the agent itself -------------------------------------------------------------------------


@dataclass(frozen=True)
class Help:
    """``/help``, "what can you do"."""


@dataclass(frozen=True)
class Greeting:
    """A greeting."""


@dataclass(frozen=True)
class Thanks:
    """Thanks or praise."""


@dataclass(frozen=True)
class About:
    """Ask what the agent is, and whether it is a language model."""


@dataclass(frozen=True)
class ConnectModel:
    """Ask how to connect a model."""


@dataclass(frozen=True)
class Tour:
    """``/tour``. ``step`` counts from 1; ``None`` starts at the beginning."""

    step: int | None = None
    resume: bool = False
    """Continue after the last step that the conversation shows."""


@dataclass(frozen=True)
class Compact:
    """Compact the conversation."""

    instructions: str | None = None


@dataclass(frozen=True)
class Unknown:
    text: str


# --- code and cells ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCode:
    code: str


@dataclass(frozen=True)
class ExplainError:
    """Explain the pasted traceback, or the last one if ``None``."""

    traceback: str | None = None


@dataclass(frozen=True)
class ReadNotebook:
    cell: str | None = None
    """Reference to one cell: a position from 1, ``In[n]``, ``first``, ``last`` or an id."""


@dataclass(frozen=True)
class InsertCell:
    source: str
    cell_type: str = "code"
    after: str | None = None
    """Reference to the preceding cell, ``top``, or ``None`` for the end."""
    run: bool = False


@dataclass(frozen=True)
class EditCell:
    cell: str
    source: str


@dataclass(frozen=True)
class ReplaceInCell:
    cell: str
    old: str
    new: str


@dataclass(frozen=True)
class DeleteCell:
    cell: str


@dataclass(frozen=True)
class MoveCell:
    cell: str
    after: str


@dataclass(frozen=True)
class RunCell:
    cell: str
    """Reference to a cell, or ``all``."""


# --- files and the session's record -----------------------------------------------------------


@dataclass(frozen=True)
class ListFiles:
    path: str | None = None


@dataclass(frozen=True)
class ReadFile:
    path: str


@dataclass(frozen=True)
class SearchFiles:
    pattern: str


@dataclass(frozen=True)
class Recall:
    """Ask about something said or done before; ``query`` is the search query."""

    query: str


# --- data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    file: str
    name: str | None = None
    """Name of the variable to load into; ``None`` derives it from the file."""


@dataclass(frozen=True)
class ListVariables:
    """List what is defined in the kernel."""


@dataclass(frozen=True)
class Inspect:
    """Look at one variable; ``aspect`` is ``value``, ``shape``, ``columns`` or ``type``."""

    name: str
    aspect: str = "value"


@dataclass(frozen=True)
class Describe:
    """Describe a frame or one of its columns."""

    target: str | None = None
    frame: str | None = None


@dataclass(frozen=True)
class Analyse:
    """Take a first look: load a file, describe it, count missing values, draw a figure."""

    target: str | None = None


@dataclass(frozen=True)
class Rows:
    """Show the first, the last or random rows."""

    which: str = "head"
    """``head``, ``tail`` or ``sample``."""
    n: int = 5
    frame: str | None = None


@dataclass(frozen=True)
class Plot:
    y: str
    x: str | None = None
    kind: str | None = None
    """``hist``, ``bar``, ``scatter``, ``line``, ``box``; ``None`` lets the column types decide."""
    frame: str | None = None
    color: str | None = None


@dataclass(frozen=True)
class Aggregate:
    functions: tuple[str, ...]
    columns: tuple[str, ...]
    by: tuple[str, ...] = ()
    frame: str | None = None
    plot: bool = False
    """Draw the result as bars instead of showing the table."""


@dataclass(frozen=True)
class ValueCounts:
    column: str
    frame: str | None = None


@dataclass(frozen=True)
class Unique:
    column: str
    frame: str | None = None


@dataclass(frozen=True)
class Condition:
    column: str
    operator: str
    """``==``, ``!=``, ``>``, ``>=``, ``<``, ``<=``, ``between``, ``contains``, ``startswith``,
    ``isin``, ``isna`` or ``notna``."""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Filter:
    conditions: tuple[Condition, ...]
    join: str = "and"
    frame: str | None = None
    name: str | None = None
    """Variable to store the rows in."""
    count: bool = False
    """Return only the number of rows."""


@dataclass(frozen=True)
class Sort:
    columns: tuple[str, ...]
    descending: bool = False
    frame: str | None = None


@dataclass(frozen=True)
class Top:
    n: int
    column: str
    largest: bool = True
    frame: str | None = None


@dataclass(frozen=True)
class Missing:
    """Count missing values or, with ``drop``, remove the rows that have any."""

    column: str | None = None
    frame: str | None = None
    drop: bool = False


@dataclass(frozen=True)
class FillMissing:
    column: str
    value: str
    """``mean``, ``median``, ``mode`` or a literal."""
    frame: str | None = None


@dataclass(frozen=True)
class Correlation:
    columns: tuple[str, ...] = ()
    """Empty: all numeric columns."""
    frame: str | None = None
    plot: bool = False


@dataclass(frozen=True)
class Crosstab:
    rows: str
    columns: str
    frame: str | None = None


@dataclass(frozen=True)
class Duplicates:
    frame: str | None = None


@dataclass(frozen=True)
class AddColumn:
    name: str
    expression: str
    frame: str | None = None


@dataclass(frozen=True)
class Export:
    file: str
    frame: str | None = None


Intent = (
    Help | Greeting | Thanks | About | ConnectModel | Tour | Compact | Unknown |
    RunCode | ExplainError | ReadNotebook | InsertCell | EditCell | ReplaceInCell | DeleteCell |
    MoveCell | RunCell |
    ListFiles | ReadFile | SearchFiles | Recall |
    Load | ListVariables | Inspect | Describe | Analyse | Rows | Plot | Aggregate |
    ValueCounts | Unique | Filter | Sort | Top | Missing | FillMissing | Correlation | Crosstab |
    Duplicates | AddColumn | Export
)  # fmt: skip
