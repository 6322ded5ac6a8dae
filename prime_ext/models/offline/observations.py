"""Parsers for tool results: variables, frames, cells, files and records."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """A variable in the kernel."""

    name: str
    type: str
    size: str = ""
    """Shape or length, and the size in bytes if it is large."""
    value: str = ""
    """Short ``repr``."""

    @property
    def is_frame(self) -> bool:
        """Whether pandas code works on it, unlike on frames of polars and other libraries."""
        return self.type in ("pandas.DataFrame", "geopandas.GeoDataFrame")


@dataclass(frozen=True)
class Column:
    name: str
    dtype: str
    missing: int | None = None
    """Number of missing values, if it is known."""

    @property
    def kind(self) -> str:
        """``number``, ``time``, ``flag`` or ``category``."""
        if re.match(r"(?:u?int|float|double|complex|timedelta|decimal)", self.dtype, re.I):
            return "number"
        if re.match(r"(?:datetime|timestamp|date|period)", self.dtype, re.I):
            return "time"
        if self.dtype.startswith("bool"):
            return "flag"
        return "category"


@dataclass(frozen=True)
class Frame:
    """A data frame: its variable, columns and, if known, number of rows."""

    name: str
    columns: tuple[Column, ...]
    rows: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def of_kind(self, *kinds: str) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind in kinds)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class CellSeen:
    """A cell as ``read_notebook`` shows it."""

    id: str
    position: int
    """Position in the notebook, from 1."""
    cell_type: str
    execution_count: int | None
    source: str
    outputs: str
    """Shortened outputs, as they were shown."""
    complete: bool = True
    """``False`` if only the first line was shown, as for distant cells of a long notebook."""


@dataclass(frozen=True)
class RecordSeen:
    """A record of the session, or a snippet of one."""

    seq: int
    kind: str
    text: str


def variables(text: str) -> list[Variable]:
    """Parse the variables that hold data in a ``list_variables`` result, oldest first."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^ {2}(\w+): ([\w.]+)(.*?) = (.*)$", line)
        if match is not None:
            found.append(Variable(match[1], match[2], match[3].lstrip(", "), match[4]))
    return found


def other_names(text: str) -> list[str]:
    """Return the lines on functions, classes and modules in a ``list_variables`` result."""
    return [
        line for line in text.splitlines() if re.match(r"(?:Functions|Classes|Modules): ", line)
    ]


def frame(name: str, text: str) -> Frame:
    """Parse the data frame in an ``inspect_variable`` result.

    Columns whose label is not a string are omitted: a question cannot name them.
    """
    columns: dict[str, Column] = {}
    for line in text.splitlines():
        match = re.match(r"^ {2}(['\"].*['\"]): (.+), (\d+) missing$", line)
        if match is not None:
            label = ast.literal_eval(match[1])
            columns.setdefault(label, Column(label, match[2], int(match[3])))
    size = re.search(r"\bshape \((\d+), \d+\)", text)
    return Frame(name, tuple(columns.values()), int(size[1]) if size is not None else None)


_LISTED = re.compile(r"^- \[(?P<id>[^\]]+)\] cell (?P<position>\d+), (?P<type>\w+): (?P<line>.*)$")
_LISTING = "Further cells, first lines only; read them with start and end:"
_HEADING = re.compile(
    r"^\[(?P<id>[^\]]+)\] cell (?P<position>\d+) of \d+, (?P<type>\w+)(?:, (?P<state>.*))?$"
)


def cells(text: str) -> list[CellSeen]:
    """Parse the cells in a ``read_notebook`` result: a heading, the fenced source, the outputs."""
    found: list[CellSeen] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        listed = _LISTED.match(lines[at])
        if listed is not None and (not found or int(listed["position"]) > found[-1].position):
            found.append(
                CellSeen(
                    listed["id"],
                    int(listed["position"]),
                    listed["type"],
                    None,
                    listed["line"],
                    "",
                    complete=False,
                )
            )
        heading = _HEADING.match(lines[at])
        if heading is None or not re.match(r"`{3,}", lines[min(at + 1, len(lines) - 1)]):
            at += 1
            continue
        marks = re.match(r"`+", lines[at + 1])
        assert marks is not None
        # Skip the whole source: one of its lines may look like a heading.
        end = next((n for n in range(at + 2, len(lines)) if lines[n] == marks[0]), len(lines))
        begin, at = at, end + 1
        while at < len(lines) and not _HEADING.match(lines[at]) and lines[at] != _LISTING:
            at += 1
        count = re.search(r"run as \[(\d+)\]", heading["state"] or "")
        found.append(
            CellSeen(
                heading["id"],
                int(heading["position"]),
                heading["type"],
                int(count[1]) if count is not None else None,
                "\n".join(lines[begin + 2 : end]),
                "\n".join(lines[end + 1 : at]),
            )
        )
    return found


def cell_count(text: str) -> int:
    """Return the number of cells in the notebook, including those not shown in the result."""
    found = re.search(r"^\[[^\]]+\] cell \d+ of (\d+), ", text, re.M)
    return int(found[1]) if found is not None else 0


def inserted_id(text: str) -> str | None:
    """Return the id of the new cell from an ``insert_cell`` result."""
    found = re.search(r"\bcell (?:id |\[)([^\],\s]+)", text)
    return found[1] if found is not None else None


_UNSAVED = re.compile(r"(?:^|[.] )The notebook is not saved: (.+)$", re.M)


def unsaved(text: str) -> str | None:
    """Return why the notebook is not saved from the result of a change or a run."""
    found = _UNSAVED.findall(text)
    return found[-1] if found else None


def files(text: str) -> list[str]:
    """Return the names in a ``list_files`` result, folders with a trailing slash."""
    # The first line names the folder; two spaces separate a name from its details.
    names = [line.split("  ")[0] for line in text.splitlines()[1:]]
    return [name for name in names if name and not name.startswith("… and ")]


def output(text: str) -> str:
    """Return what a run printed or returned, without the tool's own text and image markers."""
    lines = [
        line
        for line in text.splitlines()
        if line != "Ran without output."
        and not re.search(r"\[image \d+\]$", line)
        and not _UNSAVED.match(line)
    ]
    shown = "\n".join(lines).strip("\n")
    scalar = re.fullmatch(r"np\.\w+\((.*)\)", shown)
    return scalar[1] if scalar is not None else shown


_RECORD = re.compile(
    r"^<record seq=\"(\d+)\" kind=\"(\w+)\"[^>\n]*>\n(.*?)\n</record>$", re.M | re.S
)


def records(text: str) -> list[RecordSeen]:
    """Parse the records in a ``session_search`` or ``session_read`` result, in order."""
    return [RecordSeen(int(seq), kind, body) for seq, kind, body in _RECORD.findall(text)]
