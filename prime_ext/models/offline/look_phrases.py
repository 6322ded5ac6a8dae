"""Rules for requests to load and inspect data."""

from __future__ import annotations

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.grammar import Found, Rule, rule
from prime_ext.models.offline.phrases import column_and_frame, frame_name, unquote

_FIRST = "{which:first|last|top|bottom|random|few|sample}"
_WHICH = {"last": "tail", "tail": "tail", "bottom": "tail", "random": "sample", "sample": "sample"}


def _load(found: Found) -> i.Intent:
    return i.Load(unquote(found["file"]), found["name"])


def _rows(found: Found) -> i.Intent:
    which = _WHICH.get(found.text("which").lower(), "head")
    return i.Rows(which, int(found["n"] or 5), frame_name(found["frame"]))


def _describe(found: Found) -> i.Intent:
    column, frame = column_and_frame(found["what"])
    return i.Describe(frame_name(column), frame)


def _inspect(aspect: str, *templates: str) -> Rule:
    return rule(lambda found: i.Inspect(frame_name(found["name"]) or "it", aspect), *templates)


LOAD_RULES = [
    rule(
        _load,
        "(load|read|open|import|get|fetch|use|take) [in] [me] <the> "
        "[file|data from|data in|data file|data|csv|dataset]* [the] {file:data} [file|data] "
        "<as_name> [with pandas]",
        "(load|import) <the> {file} [data|data set|dataset|file|csv|table] <as_name>",
        "(read|open|get|use) <the> {file:csv|parquet|excel|json|dataset|data set|data} [file] "
        "<as_name>",
        "(read|open|get|use) <the> {file:word} (csv|parquet|excel|json|dataset|data) [file] "
        "<as_name>",
        "[(show|tell) [me]] [what's in|what is in] {file:lone_data}",
    ),
    rule(
        lambda found: i.Analyse(frame_name(found["what"])),
        "(analyse|analyze|explore|eda|examine|investigate|profile|study) [of|on|for|at|with] <the> "
        "[{what}] [data|data set|dataset|file]",
        "(do|make|run|give me|perform|start) [a|an|the|some] [quick|first|basic|short] "
        "(analysis|eda|exploration|exploratory analysis|exploratory data analysis|look|overview) "
        "[of|on|for|at|with] <the> [{what}] [data|data set|dataset|file]",
    ),
]

ROW_RULES = [
    rule(
        _rows,
        f"<show> [a] {_FIRST} [{{n:number}}] [few|random] <rows> <of_frame>",
        "<show> [a] [{n:number}] {which:random} <rows> <of_frame>",
        "<show> [a] [random] {which:sample} of {n:number} [<rows>] <of_frame>",
        "<show> {which:first|last|head|tail} {n:number}",
        "<show> [a] {which:random|sample} [<rows>] (of|from) [the] {frame}",
        "<show> {n:number} <rows> <of_frame>",
        "<show> {which:head|tail} [(of|for) {frame}]",
        "{frame:word} {which:head|tail}",
    ),
]

_SUM_UP = "(stats|statistics|summary|overview|description|info|information|details)"

RULES = [
    _inspect(
        "shape",
        "how many (rows|columns|records|observations) [are there|do we have|do i have]",
        "how (many|large|big|long) [rows and columns|rows|columns|records|entries|observations] "
        "(is|are) [there] in {name}",
        "how (many|large|big|long) [rows and columns|rows|columns|records|entries|observations] "
        "(is|are|does|do) {name} [have]",
        "<show> (shape|size|dimensions?|length|number of (rows|columns)) (of|in) {name} [have]",
        "{name:word} shape",
    ),
    rule(
        lambda found: i.Export(found.text("file"), frame_name(found["frame"])),
        "(save|export|write|store|dump) [{frame}] (to|as|into|in) [a] [file] {file:data}",
    ),
    rule(
        lambda _: i.ListVariables(),
        "[list|show|what|which|print|see|display|inspect] [me] [are|all|the|my|current|live]* "
        "(variables?|names|objects|dataframes?|data frames?|frames|namespace|workspace) "
        "[are|do|have|exist|in|is|there|i|we|you|defined|the|kernel|memory|here|loaded|available|"
        "now|live|have you got]*",
        "(list_variables|who|whos|vars)",
        "(what's|what is|what do i have|what do we have) (defined|loaded|in [the] "
        "(kernel|memory|namespace|workspace))",
        "what [data] (do|have) (i|we) (have|got|loaded) [loaded|here]",
    ),
    _inspect(
        "columns",
        "<show> (columns?|column names|dtypes|fields|features|schema|types|column types|"
        "data types) (of|in|does|has) {name} [have]",
        "(list|show|what|what are|which|print) [me] [the|all] "
        "(columns?|column names|dtypes|fields|features) "
        "[are there|does it have|does the data have|do we have|do i have]",
        "(columns|dtypes|schema)",
        "what (columns?|fields|features) (does|do|are in|has|is in) {name} [have]",
        "{name:word} (columns|dtypes)",
    ),
    _inspect(
        "type",
        "<show> (type|class|kind) (of|in) {name}",
        "what (type|kind|dtype) is {name:word}",
        "{name:word} type",
    ),
    rule(
        _describe,
        "{what:word} describe",
        "(describe|summarize|summarise|tell me about|tell me more about|what does|"
        "what do we know about|what's in|what is in) [{what}] [look like|contain|hold|mean]",
        "[(give|show) [me]] [a|an|the] [summary|descriptive|basic|some|quick]* "
        f"{_SUM_UP} [of|for|on|about] [{{what}}]",
    ),
    rule(
        lambda found: i.Unique(found.text("col")),
        "(what|which) {col:word} (are|is) (there|in the data|in it|present)",
    ),
    rule(
        lambda found: i.Inspect(unquote(found["name"])),
        "(inspect|print|show|display|examine|check|look at|view|see|value of|what's|what is|"
        "what are|what's the value of|what is the value of|where is) [me] [the] "
        "[variable|value of] {name:word} [<frame>]",
    ),
]
