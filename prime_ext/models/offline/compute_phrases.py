"""Rules for aggregates, counts, conditions, sorting and missing values."""

from __future__ import annotations

import re

from prime_ext.models.offline import conditions
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.grammar import Found, match, rule
from prime_ext.models.offline.phrases import (
    column_and_frame,
    columns_and_frame,
    frame_name,
    names,
    unquote,
)

_FUNCTIONS = {
    "mean": "mean", "average": "mean", "avg": "mean", "means": "mean", "averages": "mean",
    "median": "median", "medians": "median",
    "sum": "sum", "total": "sum", "totals": "sum", "sums": "sum",
    "min": "min", "minimum": "min", "lowest": "min", "smallest": "min",
    "max": "max", "maximum": "max", "highest": "max", "largest": "max",
    "std": "std", "standard deviation": "std", "stdev": "std", "sd": "std",
    "variance": "var", "var": "var",
    "count": "count", "counts": "count",
    "number of unique": "nunique", "nunique": "nunique", "number of distinct": "nunique",
}  # fmt: skip
_WORDS = "|".join(_FUNCTIONS)
_MORE = ", [and|&] [the]"
FUNCTIONS = f"{{f1:{_WORDS}}} [{_MORE} {{f2:{_WORDS}}}] [{_MORE} {{f3:{_WORDS}}}]"
"""Template for up to three aggregates; ``functions`` reads its slots."""

_SMALL = ("bottom", "smallest", "lowest", "least", "shortest", "lightest")
_EXTREME = (
    "{which:largest|highest|biggest|smallest|lowest|heaviest|longest|shortest|lightest|most|least}"
)
_ORDER = (
    "[, [in] {order:descending|desc|ascending|asc|increasing|decreasing|highest|lowest|largest|"
    "smallest|biggest|newest|latest|oldest|high to low|low to high} [first] [order]]"
)


_EVERYTHING = (
    "[the] (<rows>|values?|them|it|everything|all|columns|all columns|numeric|numeric columns)"
)


def functions(found: Found) -> tuple[str, ...]:
    """Return the pandas names of the aggregates that ``FUNCTIONS`` matched."""
    words = (found[slot] for slot in ("f1", "f2", "f3"))
    return tuple(_FUNCTIONS[word.lower()] for word in words if word)


def _aggregate(found: Found) -> i.Intent:
    columns, frame = columns_and_frame(found["col"])
    by, frame_by = columns_and_frame(found["by"])
    frame = frame or frame_by or frame_name(found["frame"])
    if all(match(_EVERYTHING, column) for column in columns):
        columns = ()
    wanted = functions(found)
    if wanted == ("count",) and by and not columns:
        return i.ValueCounts(by[0], frame)
    if wanted == ("count",) and len(columns) == 1 and not by:
        return i.ValueCounts(columns[0], frame)
    return i.Aggregate(wanted, columns, by, frame)


def _bars(found: Found) -> i.Intent:
    return i.Aggregate(functions(found)[:1], names(found["col"]), names(found["by"]), plot=True)


def _counts(found: Found) -> i.Intent:
    return i.ValueCounts(*column_and_frame(found["col"]))


def _unique(found: Found) -> i.Intent:
    return i.Unique(*column_and_frame(found["col"]))


def _filter(found: Found) -> i.Intent | None:
    understood = conditions.parse(found.text("cond"))
    if understood is None:
        return None
    parsed, join = understood
    return i.Filter(
        parsed, join, frame_name(found["frame"]), found["name"], count=found["count"] is not None
    )


def _sort(found: Found) -> i.Intent:
    columns, frame = columns_and_frame(found["col"])
    order = found.text("order").lower()
    return i.Sort(
        columns,
        descending=bool(re.match(r"desc|high|larg|big|decreas|most|new|latest", order)),
        frame=frame or frame_name(found["frame"]),
    )


def _top(found: Found) -> i.Intent | None:
    if match("<rows>", found.text("col")):
        return None  # "top 5 rows" means the first rows
    column, frame = column_and_frame(found["col"])
    return i.Top(
        int(found["n"] or found["m"] or 1),
        column,
        largest=found.text("which").lower() not in _SMALL,
        frame=frame or frame_name(found["frame"]),
    )


def _missing(found: Found) -> i.Intent:
    column, frame = column_and_frame(found["col"])
    return i.Missing(frame_name(column), frame)


def _drop_missing(found: Found) -> i.Intent:
    column, frame = column_and_frame(found["col"])
    return i.Missing(frame_name(column), frame or frame_name(found["frame"]), drop=True)


def _fill_missing(found: Found) -> i.Intent:
    column, frame = column_and_frame(found["col"])
    return i.FillMissing(column, unquote(found["value"]), frame)


def _correlation(found: Found) -> i.Intent:
    columns, frame = columns_and_frame(found["col"])
    if found["other"]:
        other, frame_other = column_and_frame(found["other"])
        columns, frame = (*columns, other), frame or frame_other
    if len(columns) == 1:  # "correlations of penguins"
        frame = frame or frame_name(columns[0])
        columns = ()
    return i.Correlation(columns, frame, plot=found["draw"] is not None)


def _crosstab(found: Found) -> i.Intent:
    rows, frame_rows = column_and_frame(found["a"])
    columns, frame = column_and_frame(found["b"])
    return i.Crosstab(rows, columns, frame or frame_rows)


def _add_column(found: Found) -> i.Intent:
    return i.AddColumn(found.text("name"), unquote(found["expr"]), frame_name(found["frame"]))


RULES = [
    rule(
        _drop_missing,
        "(drop|remove|delete|discard|exclude) <the> [rows? (with|that have|having|containing)"
        " [any]] "
        "<missing> [(in|for|of|from) {col}]",
        "(dropna|drop na)",
        "{frame:word} dropna",
    ),
    rule(
        _fill_missing,
        "(fill|replace|impute) <the> <missing> (in|of|for) {col} (with|by|using) <the> {value}",
        "(fill|replace|impute) <the> (missing|nan|null|na) {col} (with|by|using) <the> {value}",
    ),
    rule(
        _missing,
        "(check|check for|count|are there|are there any|is there|is there any|how many|where are|"
        "which columns have|any|<show>) [the] [number of] <missing> [are there|are|do we have] "
        "[[are] (in|for|of|per|by) {col}] [have|are there]",
        "(what|which|how much) [data] is missing [(in|from) {col}]",
        "does {col} have [any] <missing>",
    ),
    rule(
        lambda found: i.Duplicates(frame_name(found["frame"])),
        "(check|check for|count|are there|are there any|how many|any|<show>) [any] "
        "(duplicates?|duplicated) [<rows>] [are there|are] <of_frame>",
    ),
    rule(
        _correlation,
        "[{draw:plot|draw|visualize|visualise}] <show> [pairwise] "
        "(corr|corrs|correlations?|correlation (matrix|table|coefficients?)) "
        "[(of|between|for|in|among) {col} [(and|with|to|vs.?) {other}]]",
        "how (are|do|is|does) {col} (and|with) {other} (correlated?|related?)",
        "(are|is) {col} and {other} correlated",
        "(is|are|does|do) {col} correlated? (with|to) {other}",
        "correlate {col} (and|with|to|against) {other}",
    ),
]

ROW_RULES = [
    rule(
        _counts,
        "<show> (value_counts|value counts|frequency|frequencies|counts) (of|for|in|by|per) {col}",
        "{col} (value_counts|value counts)",
        "(how many|number of|count|count the|count the number of|<show> number of) [{what:word}] "
        "[are|are there] (by|per|(for|in|of|on|at|from) (each|every)) {col} [are there|exist]",
    ),
    rule(
        _unique,
        "(how many|number of|count|count of|<show> number of) (unique|distinct|different) "
        "[values? (of|in|are in)] {col} [are there|exist]",
        "<show> (unique|distinct|different) [values? (of|in|for)] {col}",
        "what (values|categories|levels) (does|are in|has|can) {col} [have|take]",
    ),
    rule(
        _filter,
        "{count:how many|count|count the|number of} <rows> [are there|are|do we have|exist] "
        "<of_frame> <where> {cond}",
    ),
    rule(
        _top,
        "<show> {which:top|bottom} {n:number} [<rows>|{what:word}] <of_frame> "
        "(by|in|sorted by|ordered by|with (highest|lowest|largest|most|smallest)|"
        "with the (highest|lowest|largest|most|smallest)) {col}",
        f"<show> {{n:number}} {_EXTREME} [<rows>] [(by|in|of|values? of|values? in)] {{col}}",
        f"<show> {_EXTREME} {{m:number}} [<rows>] [(by|in|of|values? of|values? in)] {{col}}",
        f"<show> {{n:number}} (<rows>|{{what:word}}) with [the] {_EXTREME} {{col}}",
        f"(which|what) {{what:word}} (has|have|had|is|are|with) the {_EXTREME} {{col}}",
        "<show> {which:top|bottom} {n:number} {col:word}",
    ),
    rule(
        _sort,
        f"(sort|order|rank|arrange) (by|on) {{col}} {_ORDER}",
        f"(sort|order|rank|arrange) {{frame}} (by|on) {{col}} {_ORDER}",
        f"<show> {{frame:word}} (sorted|ordered) by {{col}} {_ORDER}",
    ),
    rule(
        _filter,
        "(select|filter|keep|get|find|show|give|list|display|take|extract|subset|print) [me] "
        "[only|just] <the> <rows> <of_frame> <where> {cond} <keep_as>",
        "(filter|subset|query) (to|by|on|for|where|with) [only] [<rows>] [<where>] {cond} "
        "<keep_as>",
        "(filter|subset|query) {frame:word} (to|by|on|for|where|with) [only] [<rows>] [<where>] "
        "{cond} <keep_as>",
        "(select|keep|get|find|show|give|list) [me] [only|all] [the] {frame:word} <where> {cond} "
        "<keep_as>",
        "(filter|where) {cond}",
        "<rows> <where> {cond}",
    ),
]

AGGREGATE_RULES = [
    rule(
        _bars,
        f"<draw> [a bar (chart|plot|graph) (of|for)] [the] {FUNCTIONS} [of] {{col}} <each> {{by}} "
        "as [a] bars? [chart|plot]",
    ),
    rule(
        _aggregate,
        f"<show> {FUNCTIONS} [values?] [of|for] {{col}} <each> {{by}}",
        f"<show> {FUNCTIONS} <each> {{by}}",
        "(group|grouped|aggregate) [{frame:word}] by {by}, [and] [then] "
        "[compute|take|calculate|show|get|find|give|aggregate|do|return] [me] [the] "
        f"{FUNCTIONS} [[of|for] {{col}}]",
        f"{{col}} {FUNCTIONS} <each> {{by}}",
    ),
    rule(_counts, "(group|aggregate) [{frame:word}] by {col}", "count <each> {col}"),
    rule(
        _aggregate,
        f"<show> {FUNCTIONS} [value] (of|in|for) {{col}}",
        f"(compute|calculate|show|what's|what is) [me] [the] {FUNCTIONS} {{col}}",
        f"{FUNCTIONS} {{col}}",
    ),
    rule(
        lambda found: i.Aggregate(("sum",), columns_and_frame(found["col"])[0]),
        "(sum|add) up {col}",
    ),
    rule(
        _crosstab,
        "<show> [a] (crosstab|cross tab|crosstabulation|contingency table|pivot|pivot table) "
        "(of|for|between) {a} (and|by|with|against|vs.?) {b}",
        "(crosstab|crosstabulate|cross tab|cross tabulate) {a} (and|by|with|against|vs.?) {b}",
    ),
    rule(
        _add_column,
        "(add|create|make|compute|define) [a] [new] (column|feature|variable) [called|named] "
        "{name:word} (=|as|equal to|that is|with|:) {expr} <of_frame>",
    ),
]
