"""Plans that compute: each inserts a cell of pandas code, runs it and reports the output."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prime_ext.models.offline import code, observations
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.bench import Bench, quoted
from prime_ext.models.offline.names import matching
from prime_ext.models.offline.observations import Column, Frame
from prime_ext.models.offline.plans.errors import failed_run
from prime_ext.models.offline.steps import Asking, Plan, Stop


def _run(source: str, lead: str, bench: Bench) -> Plan:
    result = yield from bench.cell(source)
    if result.is_error:
        return (yield from failed_run(result, bench))
    output = observations.output(result.text)
    if output.startswith("Empty DataFrame"):
        return f"{lead}: there are none."
    return f"{lead}:\n\n{quoted(output)}" if output.strip() else f"{lead}."


def _columns(frame: Frame, phrases: Sequence[str], bench: Bench) -> list[Column]:
    return [bench.column(frame, phrase) for phrase in phrases]


def aggregate(intent: i.Aggregate, bench: Bench) -> Plan:
    lone = yield from _lone(intent, bench)
    if lone is not None:
        return (yield from _run(f"{lone}.{intent.functions[0]}()", f"`{lone}`", bench))
    frame = yield from bench.frame(intent.frame, (*intent.columns, *intent.by))
    by = _columns(frame, intent.by, bench)
    wanted = [c for c in intent.columns if c.lower() not in _ALL]
    if not wanted and not by and _is_count(intent.functions):
        return f"`{frame.name}` has {frame.rows} rows." if frame.rows is not None else ""
    columns = _columns(frame, wanted, bench)
    needs_numbers = set(intent.functions) & {"mean", "median", "sum", "std", "var"}
    wrong = [c for c in columns if needs_numbers and c.kind == "category"]
    if wrong:
        raise Stop(
            f"`{wrong[0].name}` holds `{wrong[0].dtype}`, so it has no {intent.functions[0]}. "
            f"`value counts of {wrong[0].name}` works."
        )
    if intent.plot and columns and by:
        result = yield from bench.cell(
            code.bars(frame.name, intent.functions[0], columns[0].name, by[0].name)
        )
        if result.is_error:
            return (yield from failed_run(result, bench))
        return (
            f"I drew the {intent.functions[0]} of `{columns[0].name}` by `{by[0].name}`; "
            "the figure is below the new cell."
        )
    source = code.aggregate(
        frame.name, intent.functions, [c.name for c in columns], [c.name for c in by]
    )
    what = " and ".join(intent.functions)
    of = ", ".join(f"`{c.name}`" for c in columns) or f"the numeric columns of `{frame.name}`"
    per = f" by {', '.join(f'`{c.name}`' for c in by)}" if by else ""
    return (yield from _run(source, f"The {what} of {of}{per}", bench))


_ALL = ("it", "everything", "all", "data", "the data", "them")


def _is_count(functions: tuple[str, ...]) -> bool:
    return functions == ("count",)


def _lone(intent: i.Aggregate, bench: Bench) -> Asking[str | None]:
    """Return the name of a series or array if the intent names its variable."""
    if len(intent.columns) != 1 or intent.by or intent.frame or len(intent.functions) != 1:
        return None
    known = {variable.name: variable for variable in (yield from bench.variables())}
    found = known.get(intent.columns[0])
    if found is None or found.type.rsplit(".", 1)[-1] not in ("Series", "ndarray"):
        return None
    return found.name


def value_counts(intent: i.ValueCounts, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, [intent.column])
    column = bench.column(frame, intent.column)
    source = code.value_counts(frame.name, column.name)
    return (yield from _run(source, f"Counts of `{column.name}` in `{frame.name}`", bench))


def unique(intent: i.Unique, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, [intent.column])
    column = bench.column(frame, intent.column)
    source = code.value_counts(frame.name, column.name)
    return (yield from _run(source, f"The different values of `{column.name}` and how often each "
                                    "occurs", bench))  # fmt: skip


def rows(intent: i.Rows, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame)
    lead = {"head": "The first", "tail": "The last", "sample": "Random"}[intent.which]
    source = code.rows(frame.name, intent.which, intent.n)
    return (yield from _run(source, f"{lead} {intent.n} rows of `{frame.name}`", bench))


def filter_(intent: i.Filter, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, [c.column for c in intent.conditions])
    masks = [
        code.mask(frame.name, condition, _comparable(bench, frame, condition))
        for condition in intent.conditions
    ]
    source = code.filtered(frame.name, masks, intent.join, name=intent.name, count=intent.count)
    if intent.name:
        bench.use(intent.name)
    lead = "Number of rows" if intent.count else "The rows"
    kept = f", kept in `{intent.name}`" if intent.name else ""
    return (yield from _run(source, f"{lead} of `{frame.name}` that fit{kept}", bench))


def _comparable(bench: Bench, frame: Frame, condition: i.Condition) -> Column:
    """Return the condition's column, or stop if a value cannot be compared with it."""
    column = bench.column(frame, condition.column)
    for value in condition.values:
        if column.kind == "number" and not re.fullmatch(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", value, re.I):
            raise Stop(f"`{column.name}` holds numbers (`{column.dtype}`), and “{value}” is none.")
    return column


def sort(intent: i.Sort, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, intent.columns)
    columns = [c.name for c in _columns(frame, intent.columns, bench)]
    source = code.sort(frame.name, columns, descending=intent.descending)
    order = "largest first" if intent.descending else "smallest first"
    by = ", ".join(f"`{column}`" for column in columns)
    lead = f"`{frame.name}` sorted by {by}, {order} (the frame itself keeps its order)"
    return (yield from _run(source, lead, bench))


def top(intent: i.Top, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, [intent.column])
    column = bench.column(frame, intent.column)
    source = code.top(
        frame.name,
        intent.n,
        column.name,
        largest=intent.largest,
        numeric=column.kind in ("number", "time"),
    )
    which = "largest" if intent.largest else "smallest"
    rows_ = "row" if intent.n == 1 else f"{intent.n} rows"
    lead = f"The {rows_} of `{frame.name}` with the {which} `{column.name}`"
    return (yield from _run(source, lead, bench))


def missing(intent: i.Missing, bench: Bench) -> Plan:
    frame, name = yield from _frame_or_column(intent.column, intent.frame, bench)
    if intent.drop:
        what = f"without `{name}`" if name else "with any missing value"
        source = code.drop_missing(frame.name, name)
        lead = f"I dropped the rows {what} from `{frame.name}`; rows and columns now"
    else:
        source = code.missing(frame.name, name)
        lead = f"Missing values in `{name or frame.name}`"
    return (yield from _run(source, lead, bench))


def _frame_or_column(
    phrase: str | None, hint: str | None, bench: Bench
) -> Asking[tuple[Frame, str | None]]:
    """Return the frame and, if ``phrase`` names a column rather than a frame, the column."""
    if phrase is not None and hint is None:
        known = yield from bench.variables()
        found = matching(phrase, [variable.name for variable in known if variable.is_frame])
        if found:
            return (yield from bench.frame(found[0])), None
    if phrase is not None and phrase.lower() in ("column", "each column", "columns"):
        phrase = None
    frame = yield from bench.frame(hint, [phrase] if phrase else [])
    return frame, bench.column(frame, phrase).name if phrase else None


def fill_missing(intent: i.FillMissing, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, [intent.column])
    column = bench.column(frame, intent.column)
    if column.kind == "category" and intent.value.lower() in ("mean", "average", "median"):
        raise Stop(f"`{column.name}` holds `{column.dtype}`, so it has no {intent.value}; "
                   "the mode works.")  # fmt: skip
    source = code.fill_missing(frame.name, column, intent.value)
    lead = f"I filled the missing values of `{column.name}`; missing now"
    return (yield from _run(source, lead, bench))


def correlation(intent: i.Correlation, bench: Bench) -> Plan:
    hint = intent.frame
    columns: tuple[str, ...] = intent.columns
    frame = yield from bench.frame(hint, columns)
    found = _columns(frame, columns, bench)
    wrong = next((column for column in found if column.kind not in ("number", "flag")), None)
    if wrong is not None:
        raise Stop(f"`{wrong.name}` holds `{wrong.dtype}`; a correlation takes two numbers.")
    if intent.plot:
        result = yield from bench.cell(code.heat_map(frame.name))
        if result.is_error:
            return (yield from failed_run(result, bench))
        return f"I drew the correlations of `{frame.name}`'s numeric columns."
    source = code.correlation(frame.name, [column.name for column in found])
    between = " and ".join(f"`{c.name}`" for c in found) or "the numeric columns"
    return (yield from _run(source, f"Pearson correlation of {between} in `{frame.name}`", bench))


def crosstab(intent: i.Crosstab, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame, [intent.rows, intent.columns])
    rows_, columns = _columns(frame, (intent.rows, intent.columns), bench)
    source = code.crosstab(frame.name, rows_.name, columns.name)
    return (yield from _run(source, f"`{rows_.name}` by `{columns.name}`", bench))


def duplicates(intent: i.Duplicates, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame)
    return (yield from _run(code.duplicates(frame.name), f"Rows of `{frame.name}` that occur more "
                                                         "than once", bench))  # fmt: skip


def add_column(intent: i.AddColumn, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame)
    used = re.findall(r"(?<![\w.\"'])[A-Za-z_]\w*(?!\w|\()", intent.expression)
    if not any(name in frame.names for name in used):
        raise Stop(
            f"The expression `{intent.expression}` names no column of `{frame.name}`. Write it "
            f"with their exact names, e.g. `{frame.names[0]} / 2`."
        )
    source = code.add_column(frame, intent.name, intent.expression)
    return (yield from _run(source, f"`{frame.name}` has the column `{intent.name}` now", bench))


def export(intent: i.Export, bench: Bench) -> Plan:
    frame = yield from bench.frame(intent.frame)
    result = yield from bench.cell(code.save(frame.name, intent.file))
    if result.is_error:
        return (yield from failed_run(result, bench))
    return f"I wrote `{frame.name}` to `{intent.file}`, beside the notebook."
