"""Pandas and Matplotlib code as if written by hand. Pure functions from names to source."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from prime_ext.models.offline.intents import Condition
from prime_ext.models.offline.observations import Column, Frame

PANDAS = "import pandas as pd\n\n"
PYPLOT = "import matplotlib.pyplot as plt\n\n"

READERS = {
    "csv": "read_csv({path})",
    "tsv": 'read_csv({path}, sep="\\t")',
    "tab": 'read_csv({path}, sep="\\t")',
    "txt": 'read_csv({path}, sep=None, engine="python")',
    "parquet": "read_parquet({path})",
    "pq": "read_parquet({path})",
    "xlsx": "read_excel({path})",
    "xls": "read_excel({path})",
    "json": "read_json({path})",
    "jsonl": "read_json({path}, lines=True)",
    "ndjson": "read_json({path}, lines=True)",
    "feather": "read_feather({path})",
    "arrow": "read_feather({path})",
}
WRITERS = {
    "csv": "to_csv({path}, index=False)",
    "tsv": 'to_csv({path}, sep="\\t", index=False)',
    "parquet": "to_parquet({path})",
    "json": 'to_json({path}, orient="records", date_format="iso")',
    "xlsx": "to_excel({path}, index=False)",
    "feather": "to_feather({path})",
}


def string(value: str) -> str:
    """Return ``value`` as a Python string literal in double quotes."""
    return json.dumps(value, ensure_ascii=False)


def extension(path: str) -> str:
    """Return the extension without compression: ``csv`` for ``a.csv`` and ``a.csv.gz``."""
    return re.sub(r"\.(?:gz|bz2|zip|xz)$", "", path.lower()).rsplit(".", 1)[-1]


def load(name: str, path: str) -> str:
    reader = READERS[extension(path)].format(path=string(path))
    return f"{PANDAS}{name} = pd.{reader}\n{name}"


def save(frame: str, path: str) -> str:
    return f"{frame}.{WRITERS[extension(path)].format(path=string(path))}"


def pick(frame: str, columns: Sequence[str]) -> str:
    """Select columns: ``df["a"]`` or ``df[["a", "b"]]``."""
    quoted = ", ".join(string(column) for column in columns)
    return f"{frame}[{quoted}]" if len(columns) == 1 else f"{frame}[[{quoted}]]"


def aggregate(
    frame: str, functions: Sequence[str], columns: Sequence[str], by: Sequence[str]
) -> str:
    """Aggregate ``columns`` (all numeric ones if empty), grouped by the columns in ``by``."""
    source = frame
    if by:
        keys = ", ".join(string(column) for column in by)
        source += f".groupby({keys})" if len(by) == 1 else f".groupby([{keys}])"
    if columns:
        source = pick(source, columns)
    elif not by:
        source += '.select_dtypes("number")'
    if len(functions) > 1:
        if not columns and by:
            # `agg` has no parameter numeric_only.
            source = source.replace(frame, f'{frame}.select_dtypes("number")', 1)
            keys = ", ".join(f"{frame}[{string(column)}]" for column in by)
            source = f'{frame}.select_dtypes("number").groupby([{keys}])'
        return f"{source}.agg([{', '.join(string(f) for f in functions)}])"
    numeric_only = "numeric_only=True" if not columns and functions[0] not in _ANY_TYPE else ""
    return f"{source}.{functions[0]}({numeric_only})"


_ANY_TYPE = ("count", "nunique")


def bars(frame: str, function: str, column: str, by: str) -> str:
    return (
        f"{PYPLOT}"
        f"ax = {frame}.groupby({string(by)})[{string(column)}].{function}().plot.bar(rot=0)\n"
        f"ax.set_ylabel({string(f'{function} of {column}')})\n"
        f"ax.set_title({string(f'{function} of {column} by {by}')})\n"
        "plt.show()"
    )


def value_counts(frame: str, column: str) -> str:
    return f"{frame}[{string(column)}].value_counts(dropna=False)"


def unique(frame: str, column: str) -> str:
    return f"{frame}[{string(column)}].drop_duplicates().sort_values()"


def rows(frame: str, which: str, n: int) -> str:
    return f"{frame}.sample({n}, random_state=0)" if which == "sample" else f"{frame}.{which}({n})"


def sort(frame: str, columns: Sequence[str], *, descending: bool) -> str:
    keys = ", ".join(string(column) for column in columns)
    keys = keys if len(columns) == 1 else f"[{keys}]"
    order = ", ascending=False" if descending else ""
    return f"{frame}.sort_values({keys}{order})"


def top(frame: str, n: int, column: str, *, largest: bool, numeric: bool) -> str:
    if not numeric:
        return f"{sort(frame, [column], descending=largest)}.head({n})"
    return f"{frame}.{'nlargest' if largest else 'nsmallest'}({n}, {string(column)})"


def missing(frame: str, column: str | None) -> str:
    return f"{frame}[{string(column)}].isna().sum()" if column else f"{frame}.isna().sum()"


def drop_missing(frame: str, column: str | None) -> str:
    subset = f"subset=[{string(column)}]" if column else ""
    return f"{frame} = {frame}.dropna({subset})\n{frame}.shape"


def fill_missing(frame: str, column: Column, value: str) -> str:
    target = f"{frame}[{string(column.name)}]"
    filler = {
        "mean": f"{target}.mean()",
        "average": f"{target}.mean()",
        "median": f"{target}.median()",
        "mode": f"{target}.mode()[0]",
        "most frequent value": f"{target}.mode()[0]",
        "zero": "0",
    }.get(value.lower(), literal(value, column))
    return f"{target} = {target}.fillna({filler})\n{target}.isna().sum()"


def correlation(frame: str, columns: Sequence[str]) -> str:
    if len(columns) == 2:
        return f"{frame}[{string(columns[0])}].corr({frame}[{string(columns[1])}])"
    chosen = pick(frame, columns) if columns else frame
    return f"{chosen}.corr(numeric_only=True).round(2)"


def heat_map(frame: str) -> str:
    return (
        f"{PYPLOT}"
        f"corr = {frame}.corr(numeric_only=True)\n"
        "fig, ax = plt.subplots()\n"
        'image = ax.imshow(corr, cmap="coolwarm", vmin=-1, vmax=1)\n'
        'ax.set_xticks(range(len(corr)), corr.columns, rotation=45, ha="right")\n'
        "ax.set_yticks(range(len(corr)), corr.columns)\n"
        'fig.colorbar(image, label="correlation")\n'
        f"ax.set_title({string(f'Correlations in {frame}')})\n"
        "plt.show()"
    )


def crosstab(frame: str, row: str, column: str) -> str:
    return f"{PANDAS}pd.crosstab({frame}[{string(row)}], {frame}[{string(column)}])"


def duplicates(frame: str) -> str:
    return f"{frame}[{frame}.duplicated(keep=False)]"


def add_column(frame: Frame, name: str, expression: str) -> str:
    """Add a column by an expression in column names: ``df["c"] = df["a"] / df["b"]``."""
    names = sorted(frame.names, key=len, reverse=True)
    pattern = "|".join(re.escape(column) for column in names)
    source = re.sub(
        rf"(?<![\w.\"'])({pattern})(?![\w(\"'])",
        lambda m: f"{frame.name}[{string(m[1])}]",
        expression,
    )
    return f"{frame.name}[{string(name)}] = {source}\n{frame.name}.head()"


def literal(value: str, column: Column) -> str:
    """Return ``value`` as a literal that can be compared with the column."""
    if column.kind == "number" and re.fullmatch(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", value, re.I):
        return value
    if column.kind == "flag" and value.lower() in ("true", "false", "yes", "no"):
        return "True" if value.lower() in ("true", "yes") else "False"
    return string(value)


def mask(frame: str, condition: Condition, column: Column) -> str:
    """Return a condition as a boolean pandas expression."""
    target = f"{frame}[{string(column.name)}]"
    values = [literal(value, column) for value in condition.values]
    return {
        "between": lambda: f"{target}.between({values[0]}, {values[1]})",
        "contains": lambda: (
            f"{target}.str.contains({string(condition.values[0])}, case=False, "
            "na=False, regex=False)"
        ),
        "startswith": lambda: f"{target}.str.startswith({string(condition.values[0])}, na=False)",
        "isin": lambda: f"{target}.isin([{', '.join(values)}])",
        "isna": lambda: f"{target}.isna()",
        "notna": lambda: f"{target}.notna()",
    }.get(condition.operator, lambda: f"{target} {condition.operator} {values[0]}")()


def filtered(frame: str, masks: Sequence[str], join: str, *, name: str | None, count: bool) -> str:
    symbol = " & " if join == "and" else " | "
    joined = masks[0] if len(masks) == 1 else symbol.join(_closed(one) for one in masks)
    if count:
        return f"{_closed(joined)}.sum()"
    selection = f"{frame}[{joined}]"
    return f"{name} = {selection}\n{name}" if name else selection


def _closed(expression: str) -> str:
    """Put ``expression`` in parentheses if it contains an operator outside of calls."""
    outside = re.sub(r"\"(?:\\.|[^\"\\])*\"", "", expression)
    outside = re.sub(r"\([^()]*\)", "", outside)
    return f"({expression})" if " " in outside else expression
