"""Reading tool results: variables, frames, cells and files as the tools write them down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_DTYPE = (
    r"u?int(?:8|16|32|64)|U?Int(?:8|16|32|64)|[fF]loat(?:16|32|64)|double|object|str|string|bool|"
    r"boolean|category|datetime64|timedelta64|period|complex(?:64|128)|date32|timestamp|large_string"
)


@dataclass(frozen=True)
class Variable:
    """A live variable."""

    name: str
    type: str
    detail: str = ""

    @property
    def is_frame(self) -> bool:
        return self.type.rsplit(".", 1)[-1] in ("DataFrame", "GeoDataFrame", "LazyFrame")

    @property
    def is_pandas_frame(self) -> bool:
        return self.is_frame and not self.type.startswith("polars")


@dataclass(frozen=True)
class Column:
    name: str
    dtype: str

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
    text: str = ""

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
    """From 1."""
    cell_type: str
    execution_count: int | None
    source: str
    text: str
    """Source and outputs as they were shown."""


def variables(text: str) -> list[Variable]:
    """Variables in a ``list_variables`` result."""
    return list(_variables(text))


def _variables(text: str) -> Iterator[Variable]:
    for line in text.splitlines():
        match = re.match(r"^\s*(?:[-*|]\s*)?`?([A-Za-z_]\w*)`?\s*(?::|\||\s{2,}|—|–|-)\s*`?([\w.]+)`?(.*)$", line)
        if match is not None and match[1] not in ("name", "Name"):
            yield Variable(match[1], match[2], match[3].strip(" ,;|"))


def frame(name: str, text: str) -> Frame:
    """The data frame that an ``inspect_variable`` result describes."""
    columns: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(
            rf"^\s*(?:[-*|]\s*|\d+\s+)?(?P<q>[`'\"]?)(?P<name>.+?)(?P=q)\s*(?::|\||\(|,|\s{{2,}}|\t|—|–|\s)\s*"
            rf"(?:\d+ non-null\s+)?`?(?P<dtype>(?:{_DTYPE})(?:\[[^\]]*\])?)`?(?=$|[\s,;)|(\[])",
            line,
        )
        if match is not None and match["name"].lower() not in ("dtype", "dtypes", "type"):
            columns.setdefault(match["name"].strip().strip("`'\""), match["dtype"])
    return Frame(
        name,
        tuple(Column(column, dtype) for column, dtype in columns.items()),
        rows(text),
        text,
    )


def rows(text: str) -> int | None:
    """Number of rows that a text about a frame states."""
    for pattern in (
        r"([\d,]+)\s+rows?\s*(?:[x×by]+|,|and)\s*[\d,]+\s+columns",
        r"shape:?\s*\(([\d,]+?),\s*\d+\)",
        r"\(([\d,]+?),\s*\d+\)",
        r"([\d,]+)\s*[x×]\s*[\d,]+",
        r"([\d,]+)\s+rows?",
    ):
        found = re.search(pattern, text)
        if found is not None:
            return int(found[1].replace(",", "") or 0)
    return None


def cells(text: str) -> list[CellSeen]:
    """Cells in a ``read_notebook`` result."""
    return []


def inserted_id(text: str) -> str | None:
    """Id of the cell that ``insert_cell`` made."""
    for pattern in (
        r"\bid[\s:=]+[`'\"]?([\w-]+)",
        r"\bcell\s+[`'\"]?([\w-]*\d[\w-]*|[0-9a-f]{6,})[`'\"]?",
        r"[`'\"]([\w-]+)[`'\"]",
    ):
        found = re.search(pattern, text, re.I)
        if found is not None:
            return found[1]
    return None


def files(text: str) -> list[str]:
    """File names or paths in a ``list_files`` result, folders with a closing slash."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*(?:[-*]\s+)?`?([^\s`][^`\t]*?)`?(?:\s{2,}.*|\t.*|\s+\(.*\)|\s+[\d.,]+\s*[kMG]?B.*)?$", line)
        if match is not None and not match[1].endswith(":"):
            found.append(match[1])
    return found


def output(text: str) -> str:
    """What a run printed or returned, without the tool's own words."""
    return text


def hits(text: str) -> list[int]:
    """``seq`` of the records that a ``session_search`` result lists, best first."""
    return [int(seq) for seq in re.findall(r"(?m)^\D{0,12}(\d+)\b", text)]
