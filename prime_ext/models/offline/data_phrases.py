"""Rules of the parser for data: loading, looking, computing and drawing."""

from __future__ import annotations

import re

from prime_ext.models.offline import conditions
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.phrases import (
    ARTICLE,
    DATA_FILE,
    FRAME_NOUN,
    PRONOUN,
    SHOW,
    Rule,
    column_and_frame,
    columns_and_frame,
    frame_name,
    group,
    names,
    unquote,
)

FUNCTIONS = {
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
_FUNC_WORD = "(?:" + "|".join(sorted(map(re.escape, FUNCTIONS), key=len, reverse=True)) + ")"
_FUNCS = rf"(?P<func>{_FUNC_WORD}(?:(?:\s*,\s*|\s*,?\s+and\s+|\s*&\s*)(?:the\s+)?{_FUNC_WORD})*)"
_BY = r"(?:by|per|for each|for every|in each|for|across|grouped by|within each|of each|over)"
_STRICT_BY = r"(?:by|per|for each|for every|in each|across|grouped by|within each|of each)"

_KINDS = {
    "hist": "hist", "histogram": "hist", "distribution": "hist", "density": "hist",
    "bar": "bar", "barplot": "bar", "bar chart": "bar", "bar plot": "bar", "bar graph": "bar",
    "column chart": "bar", "barchart": "bar",
    "scatter": "scatter", "scatterplot": "scatter", "scatter plot": "scatter",
    "scatter chart": "scatter", "scatter graph": "scatter",
    "line": "line", "line plot": "line", "line chart": "line", "line graph": "line",
    "time series": "line", "lineplot": "line",
    "box": "box", "box plot": "box", "boxplot": "box", "boxplots": "box", "box plots": "box",
}  # fmt: skip
_KIND = "(?P<kind>" + "|".join(sorted(map(re.escape, _KINDS), key=len, reverse=True)) + ")"
_DRAW = (
    r"(?:(?:plot|draw|show|make|create|do|give|produce|generate|visuali[sz]e|graph|chart|see|"
    r"display|add)(?:\s+me)?\s+)"
)
_VERSUS = (
    r"(?:by|vs\.?|versus|against|as a function of|over|across|per|for each|grouped by|on|with)"
)
_COLOR = r"(?:,?\s+(?:colou?red|colou?r|hue|split|grouped)(?:ed)?\s+by\s+(?P<color>.+?))?"


def _functions(text: str) -> tuple[str, ...]:
    return tuple(FUNCTIONS[word.lower()] for word in re.findall(_FUNC_WORD, text, re.I))


def _plot(match: re.Match[str]) -> i.Intent | None:
    kind = group(match, "kind")
    y, frame_y = column_and_frame(match["y"])
    x, frame_x = column_and_frame(group(match, "x"))
    color, frame_c = column_and_frame(group(match, "color"))
    aggregate = re.fullmatch(rf"(?:the\s+)?{_FUNCS}\s+(?:of\s+)?(?P<col>.+)", y, re.I)
    if aggregate is not None and x:
        return i.Aggregate(
            _functions(aggregate["func"])[:1],
            names(aggregate["col"]),
            names(x),
            frame_x or frame_y,
            plot=True,
        )
    if not x:
        pair = names(y)
        if len(pair) == 2 and kind in (None, "scatter", "line", "scatter plot", "scatterplot"):
            x, y = pair
        elif len(pair) == 2 and kind and _KINDS[kind.lower()] in ("box", "bar"):
            y, x = pair
    frame = frame_x or frame_y or frame_c
    return i.Plot(y, x or None, _KINDS[kind.lower()] if kind else None, frame, color or None)


def _aggregate(match: re.Match[str]) -> i.Intent | None:
    columns, frame = columns_and_frame(group(match, "col"))
    by, frame_by = columns_and_frame(group(match, "by"))
    functions = _functions(match["func"])
    if functions == ("count",) and by and (not columns or _is_rows(columns)):
        return i.ValueCounts(by[0], frame_by or frame)
    if functions == ("count",) and len(columns) == 1 and not by and not _is_rows(columns):
        return i.ValueCounts(columns[0], frame)
    if columns and _is_rows(columns):
        columns = ()
    named = frame_name(group(match, "frame"))
    return i.Aggregate(functions, columns, by, frame or frame_by or named)


def _is_rows(columns: tuple[str, ...]) -> bool:
    return all(
        re.fullmatch(r"rows?|records?|entries|observations?|cases|samples?|values?|items?|them|it|"
                     r"everything|all|numeric(?: columns)?|(?:all )?(?:the )?columns", c, re.I)
        for c in columns
    )  # fmt: skip


def _counts(match: re.Match[str]) -> i.Intent | None:
    column, frame = column_and_frame(match["col"])
    return i.ValueCounts(column, frame) if column else None


def _inspect(aspect: str) -> Rule:
    words = {
        "shape": r"(?:the\s+)?(?:shape|size|dimensions?|number of (?:rows|columns)|length)",
        "columns": r"(?:the\s+)?(?:columns?|column names|dtypes|fields|features|schema|"
        r"(?:column )?types|data types)",
        "type": r"(?:the\s+)?(?:type|class|kind)",
    }[aspect]
    return (
        rf"{SHOW}{words}\s+(?:of|in|does|has)\s+(?P<name>.+?)(?:\s+have)?",
        lambda m: i.Inspect(frame_name(m["name"]) or "it", aspect),
    )


def _filter(match: re.Match[str]) -> i.Intent | None:
    found = conditions.parse(match["cond"])
    if found is None:
        return None
    parsed, join = found
    return i.Filter(
        parsed,
        join,
        frame_name(group(match, "frame")),
        group(match, "name") or None,
        count=group(match, "count") is not None,
    )


def _rows(match: re.Match[str]) -> i.Intent | None:
    which = {"first": "head", "top": "head", "head": "head", "last": "tail", "tail": "tail",
             "bottom": "tail", "random": "sample", "sample": "sample", "few": "head"}  # fmt: skip
    number = group(match, "n")
    return i.Rows(
        which[(group(match, "which") or "first").lower()],
        int(number) if number else 5,
        frame_name(group(match, "frame")),
    )


def _sort(match: re.Match[str]) -> i.Intent:
    columns, frame = columns_and_frame(match["col"])
    order = (group(match, "order") or "").lower()
    return i.Sort(
        columns,
        descending=bool(re.match(r"desc|high|larg|big|decreas|most|new|latest", order)),
        frame=frame or frame_name(group(match, "frame")),
    )


def _top(match: re.Match[str]) -> i.Intent:
    column, frame = column_and_frame(match["col"])
    word = (group(match, "which") or "top").lower()
    return i.Top(
        int(group(match, "n") or group(match, "m") or 5),
        column,
        largest=word not in ("bottom", "smallest", "lowest", "least", "shortest", "lightest"),
        frame=frame or frame_name(group(match, "frame")),
    )


def _top_if_counted(match: re.Match[str]) -> i.Intent | None:
    """ "5 largest x" are rows; "the largest x" is one number."""
    return _top(match) if match["n"] or match["m"] else None


def _top_column(match: re.Match[str]) -> i.Intent | None:
    """ "top 5 mass" are extremes; "top 5 rows" are the first ones."""
    return None if re.fullmatch(_ROWS, match["col"], re.I) else _top(match)


def _load(match: re.Match[str]) -> i.Intent | None:
    return i.Load(unquote(match["file"]), unquote(group(match, "name")) or None)


def _describe(match: re.Match[str]) -> i.Intent:
    column, frame = column_and_frame(group(match, "what"))
    return i.Describe(frame_name(column), frame)


def _missing(match: re.Match[str]) -> i.Intent:
    column, frame = column_and_frame(group(match, "col"))
    return i.Missing(frame_name(column), frame, drop=group(match, "drop") is not None)


def _correlation(match: re.Match[str]) -> i.Intent:
    columns, frame = columns_and_frame(group(match, "col"))
    if len(columns) == 1 and group(match, "other"):
        other, frame_other = column_and_frame(match["other"])
        columns, frame = (*columns, other), frame or frame_other
    if len(columns) == 1:
        name = frame_name(columns[0])
        return i.Correlation((), frame or name, plot=group(match, "draw") is not None)
    return i.Correlation(columns, frame, plot=group(match, "draw") is not None)


_NAME_AS = r"as|(?:and )?(?:call|name) it"
_NAME_IN = r"into|in|to|in(?:to)? (?:a )?(?:variable|frame|data ?frame)(?: (?:called|named))?"
_NAME_VALUE = r"\s+[`'\"]?(?P<name>[A-Za-z_]\w*)[`'\"]?)?"
_NAME = rf"(?:\s+(?:{_NAME_AS}|{_NAME_IN}|with (?:the )?name){_NAME_VALUE}"
_KEEP_AS = rf"(?:\s+(?:{_NAME_AS}|into){_NAME_VALUE}"
"""Behind a condition "in" and "to" belong to the condition."""
_WHERE = (
    r"(?:where|with|have|has|that have|that are|having|whose|which have|which are|if|when|"
    r"for which|in which|satisfying)"
)
_ROWS = r"(?:rows?|records?|entries|observations?|samples?|cases|lines|data|items?)"
_ON_FRAME = (
    r"(?:\s+(?:of|in|from|for)\s+(?:the\s+)?"
    rf"(?P<frame>[`'\"]?\w+[`'\"]?(?:\s+{FRAME_NOUN})?))?"
)
_ORDER = (
    r"(?:,?\s*(?:\(|in\s+)?(?P<order>desc(?:ending)?|asc(?:ending)?|increasing|decreasing|"
    r"(?:highest|lowest|largest|smallest|biggest|newest|latest|oldest)(?:\s+first)?|"
    r"high to low|low to high)(?:\s+order)?\)?)?"
)
_DISTRIBUTION = r"(?:the\s+)?distributions?\s+of\s+"

RULES: list[Rule] = [
    # loading
    (rf"(?:load|read|open|import|get|fetch|use|take)(?:\s+in)?\s+(?:me\s+)?{ARTICLE}(?:file\s+|"
     rf"data\s+"
     rf"(?:from\s+|in\s+|file\s+)?|csv\s+|dataset\s+)*(?:the\s+)?[`'\"]?(?P<file>[^`'\"\n]+?"
     rf"\.{DATA_FILE})"
     rf"[`'\"]?(?:\s+(?:file|data))?{_NAME}(?:\s+with pandas)?", _load),
    (rf"(?:load|import)\s+{ARTICLE}(?P<file>.+?)(?:\s+(?:data|data ?set|file|csv|table))"
     rf"?{_NAME}", _load),
    (rf"(?:read|open|get|use)\s+{ARTICLE}(?P<file>(?:\w+\s+)?(?:csv|parquet|excel|json|data ?set|"
     rf"data))"
     rf"(?:\s+file)?{_NAME}", _load),
    (rf"(?:(?:show|tell)\s+(?:me\s+)?)?(?:what(?:'s| is) in\s+)"
     rf"?(?P<file>[\w./-]+\.{DATA_FILE})", _load),
    # a first analysis
    (rf"(?:analy[sz]e|explore|eda(?: (?:of|on|for))?|examine|investigate|profile|study|"
     rf"(?:do|make|run|give me|perform|start)\s+(?:a|an|the|some)?\s*(?:quick\s+|first\s+|"
     rf"basic\s+|short\s+)?"
     rf"(?:analysis|eda|exploration|exploratory(?: data)? analysis|look|overview))"
     rf"(?:\s+(?:of|on|for|at|with))?\s*{ARTICLE}(?P<what>.*?)(?:\s+(?:data|data ?set|file))?",
     lambda m: i.Analyse(frame_name(m["what"]))),
    # missing values
    (rf"(?:drop|remove|delete|discard|exclude)\s+{ARTICLE}(?:rows?\s+(?:with|that have|having|"
     rf"containing)\s+"
     rf"(?:any\s+)?)?(?P<drop>missing|nan|nans|null|nulls|na|nas|empty)(?:\s+(?:values?|rows?|data|"
     rf"entries))?(?:\s+(?:in|for|of|from)\s+(?P<col>.+))?",
     _missing),
    (rf"(?:fill|replace|impute)\s+{ARTICLE}(?:missing|nan|nans|null|nulls|na)(?:\s+(?:values?|"
     rf"data|entries))?"
     rf"\s+(?:in|of|for)\s+(?P<col>.+?)\s+(?:with|by|using)\s+{ARTICLE}(?P<value>.+?)",
     lambda m: i.FillMissing(column_and_frame(m["col"])[0], unquote(m["value"]),
                             column_and_frame(m["col"])[1])),
    (r"drop ?na(?P<drop>)|(?P<frame>\w+)"
     r"\.?\s+dropna(?P<drop2>)", lambda m: i.Missing(None, frame_name(m["frame"]), drop=True)),
    (rf"(?:fill|replace|impute)\s+{ARTICLE}(?:missing|nan|null|na)\s+(?P<col>(?!values?\b)\S.*?)"
     rf"\s+(?:with|by|using)\s+"
     rf"{ARTICLE}(?P<value>.+?)",
     lambda m: i.FillMissing(column_and_frame(m["col"])[0], unquote(m["value"]),
                             column_and_frame(m["col"])[1])),
    (rf"(?:check\s+(?:for\s+)?|count\s+|are there\s+(?:any\s+)?|is there\s+(?:any\s+)?|how many\s+|"
     rf"where are\s+|does .+ have\s+|which columns have\s+|any\s+|{SHOW})(?:the\s+)"
     rf"?(?:number of\s+)?"
     rf"(?:missing(?:ness)?|nan|nans|null|nulls|na|nas|empty)(?:\s+(?:values?|data|entries|cells|"
     rf"rows|counts?))?"
     rf"(?:\s+(?:are there|are|do we have|does it have))?"
     rf"(?:\s+(?:are\s+)?(?:in|for|of|per|by)\s+(?P<col>.+?))?(?:\s+(?:have|are there))?",
     _missing),
    (r"(?:what|which|how much)(?:\s+data)?\s+is\s+missing(?:\s+(?:in|from)\s+(?P<col>.+))"
     r"?", _missing),
    (rf"{SHOW}(?:any\s+|the\s+)?(?:duplicates?|duplicated)(?:\s+(?:rows?|records?|entries))"
     rf"?{_ON_FRAME}|"
     rf"(?:check\s+(?:for\s+)?|count\s+|are there\s+(?:any\s+)?|how many\s+|any\s+)(?:duplicates?|"
     rf"duplicated)"
     rf"(?:\s+(?:rows?|records?|entries))?(?:\s+(?:are there|are))?(?:\s+(?:in|of)"
     rf"\s+(?P<frame2>.+))?",
     lambda m: i.Duplicates(frame_name(m["frame"] or m["frame2"]))),
    # correlation
    (rf"{_DRAW}?(?:a\s+|an\s+|the\s+)?(?:correlation\s+)?heat ?map(?:\s+of\s+(?:the\s+)"
     rf"?(?:correlations?|.+))?",
     lambda m: i.Correlation((), None, plot=True)),
    (rf"(?:(?P<draw>plot|draw|visuali[sz]e|heat ?map of)\s+)?(?:{SHOW})(?:the\s+|all\s+)"
     rf"?(?:pairwise\s+)?"
     rf"(?:corr(?:elation)?s?|corr(?:elation)? (?:matrix|table|coefficients?|heat ?map))"
     rf"(?:\s+(?:of|between|for|in|among)\s+(?P<col>.+?)(?:\s+(?:and|with|to|vs\.?)"
     rf"\s+(?P<other>\S.*?))?)?",
     _correlation),
    (r"(?:how (?:are|do|is|does)\s+)(?P<col>.+?)\s+(?:and|with)\s+(?P<other>.+?)"
     r"\s+(?:correlated?|related?)"
     r"|(?:are|is)\s+(?P<a>.+?)\s+(?:and|with)\s+(?P<b>.+?)\s+correlated|"
     r"(?:is|are|does|do)\s+(?P<c>.+?)\s+correlated?\s+(?:with|to)\s+(?P<d>.+)",
     lambda m: i.Correlation((unquote(m["col"] or m["a"] or m["c"]),
                                      unquote(m["other"] or m["b"] or m["d"])))),
    (r"correlate\s+(?P<col>.+?)\s+(?:and|with|to|against)\s+(?P<other>.+)", _correlation),
    # figures
    (rf"{_DRAW}?(?:the\s+)?relation(?:ship)?\s+between\s+(?P<y>.+?)\s+and\s+(?P<x>.+?)"
     rf"{_COLOR}", _plot),
    (rf"{_DRAW}?(?:a|an|the)?\s*{_KIND}(?:\s+(?:plots?|charts?|graphs?|diagram|figure))?\s+(?:of|"
     rf"for|with|showing)"
     rf"\s+(?P<y>.+?)(?:\s+{_VERSUS}\s+(?P<x>.+?))?{_COLOR}", _plot),
    (rf"{_DRAW}?(?P<y>.+?)(?:\s+{_VERSUS}\s+(?P<x>.+?))?\s+(?:as|in|using|with)\s+(?:a|an)"
     rf"\s+{_KIND}(?:\s+(?:plot|chart|graph))?", _plot),
    (rf"(?P<kind>scatter|histogram|hist|boxplot|bar plot|line plot)\s+(?P<y>.+?)"
     rf"(?:\s+{_VERSUS}\s+(?P<x>.+?))?{_COLOR}", _plot),
    (rf"(?:plot|draw|graph|chart|visuali[sz]e)\s+(?:a\s+(?:plot|figure|graph|chart)\s+of\s+)"
     rf"?(?P<y>.+?)"
     rf"(?:\s+{_VERSUS}\s+(?P<x>.+?))?{_COLOR}", _plot),
    (rf"(?:show|make|create|draw|give)\s+(?:me\s+)?(?:a|the)\s+(?:plot|figure|graph|chart|picture)"
     rf"\s+(?:of|for|with)"
     rf"\s+(?P<y>.+?)(?:\s+{_VERSUS}\s+(?P<x>.+?))?{_COLOR}", _plot),
    (r"how\s+(?:is|are|does|do)\s+(?P<y>.+?)\s+(?:distributed|look)", _plot),
    (r"(?:how\s+(?:does|do)\s+)(?P<y>.+?)\s+(?:vary|varies|change|depend|differ)s?\s+(?:with|by|"
     r"across|on|over|"
     r"between)\s+(?P<x>.+)", _plot),
    (r"compare\s+(?P<y>.+?)\s+(?:by|across|between|per|for each|against|with|and|to)"
     r"\s+(?P<x>.+)", _plot),
    (rf"(?:show\s+(?:me\s+)?)?(?P<y>[\w.]+)\s+(?:vs\.?|versus|against)\s+(?P<x>[\w.]+)"
     rf"{_COLOR}", _plot),
    # counting
    (rf"{SHOW}(?:the\s+)?(?:value[ _]?counts|frequenc(?:y|ies)|counts)\s+(?:of|for|in|by|per)"
     rf"\s+(?P<col>.+)", _counts),
    (r"(?P<col>[\w.'\"`\[\]]+)\s+value[ _]?counts", _counts),
    (rf"(?:how many|{SHOW}number of|count(?: the)?(?: number of)?)\s+(?:(?:\w+)\s+)"
     rf"?(?:are\s+(?:there\s+)?)?"
     rf"(?:by|per|(?:for|in|of|on|at|from)\s+(?:each|every))\s+(?P<col>.+?)(?:\s+(?:are there|"
     rf"exist))?", _counts),
    (rf"(?:how many|number of|count(?: of)?|{SHOW}number of)\s+(?:unique|distinct|different)"
     rf"\s+(?:values?\s+(?:of|in|are in)\s+)?"
     rf"(?P<col>.+?)(?:\s+(?:are there|exist))?",
     lambda m: i.Unique(*column_and_frame(m["col"]))),
    (rf"{SHOW}(?:the\s+)?(?:unique|distinct|different)\s+(?:values?\s+(?:of|in|for)\s+)"
     rf"?(?P<col>.+)",
     lambda m: i.Unique(*column_and_frame(m["col"]))),
    (r"what\s+(?:values|categories|levels)\s+(?:does|are in|has|can)\s+(?P<col>.+?)(?:\s+(?:have|"
     r"take))?",
     lambda m: i.Unique(*column_and_frame(m["col"]))),
    (rf"(?P<count>how many|count(?: the)?|number of)\s+(?P<rows>{_ROWS})(?:\s+(?:are there|are|"
     rf"do we have|exist))?"
     rf"{_ON_FRAME}\s+{_WHERE}\s+(?P<cond>.+)", _filter),
    (r"how\s+(?:many|large|big|long)\s+(?:(?:rows|columns|records|entries|observations|"
     r"rows and columns)\s+)?"
     r"(?:is|are|does|do)\s+(?:there\s+)?(?:in\s+)?(?P<name>(?!there$).+?)(?:\s+have)?|"
     r"how many (?:rows|columns|records|observations)(?:\s+(?:are there|do (?:we|i) have))"
     r"?(?P<bare>)",
     lambda m: i.Inspect(frame_name(m["name"]) or "it", "shape")),
    # top and sort
    (rf"{SHOW}(?P<which>top|bottom)\s+(?P<n>\d+)(?:\s+{_ROWS}|\s+\w+)?{_ON_FRAME}\s+(?:by|"
     rf"with (?:the )?(?:highest|lowest|"
     rf"largest|most|smallest)|in|sorted by|ordered by)\s+(?P<col>.+)", _top),
    (rf"{SHOW}(?:(?P<n>\d+)\s+)?(?P<which>largest|highest|biggest|smallest|lowest|heaviest|longest|"
     rf"shortest|lightest)\s+(?:(?P<m>\d+)\s+)?(?:{_ROWS}\s*)?(?:(?:by|in|of|values? (?:of|in))"
     rf"\s+)?(?P<col>.+)", _top_if_counted),
    (rf"{SHOW}(?:the\s+)?(?P<n>\d+)\s+(?:{_ROWS}|\w+)\s+with\s+(?:the\s+)?(?P<which>largest|"
     rf"highest|biggest|smallest|lowest|most|least)"
     rf"\s+(?P<col>.+)", _top),
    (r"(?:which|what)\s+\w+\s+(?:has|have|had|is|are|with)\s+the\s+(?P<which>largest|highest|"
     r"biggest|smallest|lowest|most|"
     r"least)\s+(?P<col>.+)",
     lambda m: i.Top(1, *column_and_frame(m["col"])[:1],
                     largest=m["which"].lower() not in ("smallest", "lowest", "least"),
                     frame=column_and_frame(m["col"])[1])),
    (rf"{SHOW}(?P<which>top)\s+(?P<n>\d+)\s+(?P<col>\w+)", _top_column),
    (rf"(?:sort|order|rank|arrange)\s+(?:(?P<frame>(?!by\b).+?)\s+)?(?:by|on)\s+(?P<col>.+?)"
     rf"{_ORDER}", _sort),
    (rf"{SHOW}(?P<frame>\w+)\s+(?:sorted|ordered)\s+by\s+(?P<col>.+?){_ORDER}", _sort),
    # rows
    (rf"(?:select|filter|keep|get|find|show|give|list|display|take|extract|subset|print)"
     rf"\s+(?:me\s+)?(?:only\s+|just\s+)?"
     rf"(?:all\s+)?{ARTICLE}(?P<rows>{_ROWS}){_ON_FRAME}\s+{_WHERE}\s+(?P<cond>.+?)"
     rf"{_KEEP_AS}", _filter),
    (rf"(?:filter|subset|query)\s+(?:(?P<frame>\w+)\s+)?(?:to|by|on|for|where|with)\s+(?:only\s+)"
     rf"?(?:{_ROWS}\s+)?"
     rf"(?:{_WHERE}\s+)?(?P<cond>.+?){_KEEP_AS}", _filter),
    (rf"(?:select|keep|get|find|show|give|list)\s+(?:me\s+)?(?:only\s+|all\s+)?(?:the\s+)"
     rf"?(?P<frame>\w+)\s+{_WHERE}\s+"
     rf"(?P<cond>.+?){_KEEP_AS}", _filter),
    (r"(?:filter|where)\s+(?P<cond>.+)", _filter),
    (rf"{_ROWS}\s+{_WHERE}\s+(?P<cond>.+)", _filter),
    (rf"{SHOW}(?:a\s+)?(?P<which>first|last|top|bottom|random|few|sample)\s+(?:(?P<n>\d+)\s+)"
     rf"?(?:few\s+|random\s+)?{_ROWS}"
     rf"{_ON_FRAME}", _rows),
    (rf"{SHOW}(?:a\s+)?(?P<n>\d+)?\s*(?P<which>random)\s+{_ROWS}{_ON_FRAME}", _rows),
    (rf"{SHOW}(?:a\s+)?(?:random\s+)?(?P<which>sample)\s+of\s+(?P<n>\d+)(?:\s+{_ROWS})"
     rf"?{_ON_FRAME}", _rows),
    (rf"{SHOW}(?:the\s+)?(?P<which>first|last|head|tail)\s+(?P<n>\d+)", _rows),
    (rf"{SHOW}(?:a\s+)?(?P<which>random|sample)(?:\s+{_ROWS})?\s+(?:of|from)\s+(?:(?P<n>\d+)"
     rf"\s+{_ROWS}\s+(?:of|from)\s+)?"
     rf"(?P<frame>.+)", _rows),
    (rf"{SHOW}(?P<n>\d+)\s+{_ROWS}{_ON_FRAME}", _rows),
    (rf"{SHOW}(?:the\s+)?(?P<which>head|tail)(?:\s+(?:of|for)\s+(?P<frame>.+))?", _rows),
    (r"(?P<frame>\w+)\s+(?P<which>head|tail)", _rows),
    # aggregation
    (rf"{_DRAW}(?:a\s+bar\s+(?:chart|plot|graph)\s+(?:of|for)\s+)?(?:the\s+)?{_FUNCS}\s+(?:of\s+)"
     rf"?(?P<col>.+?)\s+"
     rf"{_STRICT_BY}\s+(?P<by>.+?)\s+as\s+(?:a\s+)?bars?(?:\s+(?:chart|plot))?",
     lambda m: i.Aggregate(_functions(m["func"])[:1], names(m["col"]), names(m["by"]), plot=True)),
    (rf"{SHOW}(?:the\s+)?{_FUNCS}(?:\s+values?)?\s+(?:of\s+|for\s+)?(?P<col>.+?)"
     rf"\s+{_STRICT_BY}\s+(?P<by>.+)", _aggregate),
    (rf"{SHOW}(?:the\s+)?{_FUNCS}\s+{_STRICT_BY}\s+(?P<by>.+)", _aggregate),
    (rf"(?:group(?:ed)?|aggregate)\s+(?:(?P<frame>\w+)\s+)?by\s+(?P<by>.+?)(?:\s*[,:;]\s*|"
     rf"\s+and\s+|\s+then\s+)"
     rf"(?:and\s+|then\s+)?(?:(?:compute|take|calculate|show|get|find|give|aggregate|do|return|"
     rf"count)\s+)?(?:me\s+)?"
     rf"(?:the\s+)?{_FUNCS}(?:\s+(?:of\s+|for\s+)?(?P<col>.+))?", _aggregate),
    (rf"(?P<col>.+?)\s+{_FUNCS}\s+{_STRICT_BY}\s+(?P<by>.+)", _aggregate),
    (r"(?:group|aggregate)\s+(?:(?P<frame>\w+)\s+)?by\s+(?P<col>.+)", _counts),
    (rf"count\s+{_STRICT_BY}\s+(?P<col>.+)", _counts),
    (rf"{SHOW}(?:the\s+)?{_FUNCS}(?:\s+value)?\s+(?:of|in|for)\s+(?P<col>.+)", _aggregate),
    (rf"(?:compute|calculate|show|what(?:'s| is))\s+(?:me\s+)?(?:the\s+)?{_FUNCS}\s+(?P<col>[\w ]+"
     rf")", _aggregate),
    (rf"{_FUNCS}\s+(?P<col>[\w ]+)", _aggregate),
    (r"(?:sum|add)\s+up\s+(?P<col>.+)",
     lambda m: i.Aggregate(("sum",), columns_and_frame(m["col"])[0])),
    (rf"{SHOW}(?:a\s+|the\s+)?(?:cross ?tab(?:ulation)?|contingency table|pivot(?: table)?)"
     rf"\s+(?:of|for|between)\s+"
     rf"(?P<a>.+?)\s+(?:and|by|with|against|vs\.?)\s+(?P<b>.+)",
     lambda m: i.Crosstab(column_and_frame(m["a"])[0], *column_and_frame(m["b"]))),
    (r"cross ?tab(?:ulate)?\s+(?P<a>.+?)\s+(?:and|by|with|against|vs\.?)\s+(?P<b>.+)",
     lambda m: i.Crosstab(column_and_frame(m["a"])[0], *column_and_frame(m["b"]))),
    # new columns and files
    (rf"(?:add|create|make|compute|define)\s+(?:a\s+)?(?:new\s+)?(?:column|feature|variable)"
     rf"\s+(?:called\s+|named\s+)?"
     rf"[`'\"]?(?P<name>[A-Za-z_]\w*)[`'\"]?\s*(?:=|as|equal to|that is|with|:)\s*(?P<expr>.+?)"
     rf"{_ON_FRAME}",
     lambda m: i.AddColumn(m["name"], unquote(m["expr"]), frame_name(m["frame"]))),
    (r"(?:save|export|write|store|dump)\s+(?:(?P<frame>.+?)\s+)?(?:to|as|into|in)\s+(?:a\s+)"
     r"?(?:file\s+)?[`'\"]?"
     r"(?P<file>[\w./ -]+\.(?:csv|tsv|parquet|json|xlsx|feather))[`'\"]?",
     lambda m: i.Export(m["file"], frame_name(m["frame"]))),
    # variables and frames as wholes
    (r"(?:list|show|what|which|print|see|display|inspect)?(?:\s+me)?\s*(?:are\s+|all\s+|the\s+|"
     r"my\s+|current\s+|live\s+)*"
     r"(?:variables?|names|objects|data ?frames|frames|namespace|workspace)"
     r"(?:\s+(?:are|do|have|exist|in|is|there|i|we|you|defined|the|kernel|memory|here|loaded|"
     r"available|now|live|have you got))*"
     r"|(?:list_variables|whos?|vars)|what(?:'s| is| do (?:i|we) have)\s+(?:defined|loaded|"
     r"in (?:the\s+)?(?:kernel|memory|"
     r"namespace|workspace))|what (?:data )?(?:do|have) (?:i|we) (?:have|got|loaded)(?: loaded|"
     r" here)?",
     lambda m: i.ListVariables()),
    _inspect("shape"),
    _inspect("columns"),
    _inspect("type"),
    (r"(?:list|show|what(?: are)?|which|print)\s*(?:me\s+)?(?:the\s+|all\s+)?(?:columns?(?: names)"
     r"?|dtypes|fields|features)"
     r"(?:\s+(?:are there|does (?:it|the data) have|do (?:we|i) have|are in (?P<name>.+)))?|"
     r"columns|dtypes|schema",
     lambda m: i.Inspect(frame_name(m["name"]) or "it", "columns")),
    (r"what\s+(?:columns?|fields|features)\s+(?:does|do|are in|has|is in)\s+(?P<name>.+?)"
     r"(?:\s+have)?",
     lambda m: i.Inspect(frame_name(m["name"]) or "it", "columns")),
    (r"what\s+(?:type|kind|dtype)\s+(?:is|of \w+ is)"
     r"\s+(?P<name>\w+)", lambda m: i.Inspect(m["name"], "type")),
    (r"(?P<frame>\w+)\.?\s+describe", lambda m: i.Describe(frame_name(m["frame"]))),
    (r"(?:what|which)\s+(?P<col>\w+)\s+(?:are|is)\s+(?:there|in the data|in it|present)",
     lambda m: i.Unique(m["col"])),
    (r"(?P<name>\w+)\s+(?P<aspect>shape|columns|dtypes|type)",
     lambda m: i.Inspect(frame_name(m["name"]) or "it",
                         {"dtypes": "columns"}.get(m["aspect"].lower(), m["aspect"].lower()))),
    (r"(?:describe|summari[sz]e|tell me (?:more )?about|(?:give\s+(?:me\s+)?|show\s+(?:me\s+)?)"
     r"?(?:a\s+|an\s+|the\s+)?"
     r"(?:(?:summary|descriptive|basic|some|quick)\s+)*(?:stat(?:istic)?s|summary|overview|"
     r"description|info(?:rmation)?|details)"
     r"(?:\s+(?:of|for|on|about))?|what does|what do we know about|what(?:'s| is) in)"
     r"(?:\s+(?P<what>.+?))?"
     r"(?:\s+(?:look like|contain|hold|mean))?", _describe),
    (rf"(?:inspect|print|show|display|examine|check|look at|view|see|value of|what(?:'s| is| are)"
     rf"(?: the value of)?|"
     rf"where is)\s+(?:me\s+)?(?:the\s+)?(?:variable\s+|value of\s+)?(?P<name>{PRONOUN}|"
     rf"[`'\"]?[A-Za-z_]\w*[`'\"]?)"
     rf"(?:\s+{FRAME_NOUN})?",
     lambda m: i.Inspect(unquote(m["name"]))),
    (r"type\s+of\s+(?P<name>\w+)", lambda m: i.Inspect(m["name"], "type")),
    (rf"(?P<y>[\w.]+(?: [\w.]+){{0,2}})\s+by\s+(?P<x>[\w.]+(?: [\w.]+){{0,2}}){_COLOR}", _plot),
]  # fmt: skip
