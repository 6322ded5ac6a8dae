"""Parses a user's message into intents, by patterns alone. Pure, no I/O.

The order of the rules matters: specific rules precede general ones. A message may ask for several
things ("load x.csv and plot a by b"); each clause is parsed separately.
"""

from __future__ import annotations

import ast
import re

from prime_ext.models.offline import (
    agent_phrases,
    compute_phrases,
    figure_phrases,
    look_phrases,
    notebook_phrases,
)
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.grammar import DATA_FILE, first_match
from prime_ext.models.offline.phrases import clean

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\S\n]*\n(.*?)\n?[ \t]*```", re.S)
_RUN = re.compile(
    r"^(?:please\s+)?(?:run|execute|eval(?:uate)?|exec)(?:\s+(?:this|the)(?:\s+following)?"
    r"(?:\s+(?:python\s+)?code)?|\s+code|\s+python)?\s*(?P<mark>:|`)",
    re.I,
)

_RULES = (
    *agent_phrases.RULES,
    *notebook_phrases.RULES,
    *look_phrases.LOAD_RULES,
    *compute_phrases.RULES,
    *figure_phrases.RULES,
    *compute_phrases.ROW_RULES,
    *look_phrases.ROW_RULES,
    *compute_phrases.AGGREGATE_RULES,
    *look_phrases.RULES,
    *figure_phrases.LAST_RULES,
)


def parse(text: str) -> list[i.Intent]:
    """Return the intents of ``text`` in order; never empty.

    A message that no rule matches gives a single ``Unknown``.
    """
    fence = _FENCE.search(text)
    if fence is not None:
        return [_with_code(text, fence)]
    stripped = text.strip()
    direct = _direct_code(stripped)
    if direct is not None:
        return [i.RunCode(direct)]
    whole = _clause(stripped)
    if isinstance(whole, (i.Help, i.Tour, i.Compact, i.ConnectModel, i.Recall, i.InsertCell)):
        return [whole]
    if isinstance(whole, i.Aggregate) and re.match(r"(?:group|aggregate)\b", clean(stripped), re.I):
        return [whole]  # "group by a and compute b" is a single intent
    clauses = _split(stripped)
    if len(clauses) > 1:
        parsed = [_clause(clause) for clause in clauses]
        if not isinstance(parsed[0], i.Unknown):
            return parsed
    if isinstance(whole, i.Unknown) and (traceback := _traceback(stripped)):
        return [i.ExplainError(traceback)]
    return [whole]


def _clause(text: str) -> i.Intent:
    cleaned = clean(text)
    code = _direct_code(cleaned)
    if code is not None:
        return i.RunCode(code)
    return first_match(_RULES, cleaned) or i.Unknown(text)


_VERBS = (
    "load|read|open|plot|draw|describe|summari[sz]e|show|display|compute|calculate|run|re-?run|"
    "execute|sort|filter|list|insert|add|give|tell|save|export|inspect|drop|remove|fill|make|"
    "create|visuali[sz]e|explain|group|analy[sz]e|explore|what(?:'s| is| are)|how many|find|check|"
    "search|delete|move|print|edit|in cell"
)
# After a plain "and" or comma a clause begins with a verb. Nouns that are also aggregations
# ("count", "mean") begin one only after "then" and the like; otherwise "mean and count of x" would
# be split.
_NOUNS = "count|mean|average|median|sum|top|histogram|scatter|correlations?|missing|value counts"
_SPLIT = re.compile(
    rf"(?:\s*,?\s+and\s+|\s*,\s*(?:and\s+)?)(?=(?:also\s+|please\s+)?(?:{_VERBS})\b)|"
    r"(?:\s*[;\n]\s*(?:and\s+)?(?:then\s+)?|\.\s+(?:then\s+|and\s+)?|\s*,?\s+(?:and\s+)?then\s+)"
    rf"(?=(?:also\s+|please\s+)?(?:{_VERBS}|{_NOUNS})\b)",
    re.I,
)


def _split(text: str) -> list[str]:
    return [clause for clause in _SPLIT.split(text) if clause.strip()]


def _with_code(text: str, fence: re.Match[str]) -> i.Intent:
    """Parse a message with a fenced block; the text around the block says what to do with it."""
    language, code = fence[1].lower(), fence[2]
    prose = clean(text[: fence.start()] + " " + text[fence.end() :]).rstrip(":").strip()
    if _traceback(code):
        return i.ExplainError(code)
    found = notebook_phrases.cell_with_source(prose, code, markdown=language in ("markdown", "md"))
    if found is not None:
        return found
    if re.search(r"\b(?:explain|review|fix|improve|translate|optimi[sz]e|refactor|rewrite|why)\b",
                 prose, re.I):  # fmt: skip
        return i.Unknown(text)
    if language in ("markdown", "md"):
        return i.InsertCell(code, "markdown")
    return i.RunCode(code)


def _direct_code(text: str) -> str | None:
    """Return the code in ``run: …``, in ``run `…` `` or in a message that is only Python."""
    run = _RUN.match(text)
    if run is not None:
        code = text[run.end() :].strip()
        if run["mark"] == "`":
            code = code.rstrip(".! ")
            return code[:-1].strip() if code.endswith("`") and len(code) > 1 else None
        return code.strip("`").strip() or None
    whole = re.fullmatch(r"`([^`]+)`", text)
    if whole is not None and _is_python(whole[1]):
        return whole[1]
    if re.match(r"[%!][\w%]", text):
        return text
    return text if _is_python(text) else None


def _is_python(text: str) -> bool:
    """Whether a message is clearly code; "thanks, bye" and "not good" are valid Python as well."""
    if re.fullmatch(rf"[\w./ -]+\.{DATA_FILE}", text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    if not tree.body:
        return False
    return any(_is_work(statement) for statement in tree.body)


def _is_work(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AnnAssign):  # "note: this" parses as an annotation
        return statement.value is not None
    if not isinstance(statement, ast.Expr):
        return not isinstance(statement, (ast.Pass, ast.Continue, ast.Break))
    value = statement.value
    if isinstance(value, ast.Attribute):
        return True
    if isinstance(value, ast.BinOp):  # "top-5" is prose; "2 * 3" and "a.b / 2" are not
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name)]
        return not names or (" " in ast.unparse(value) and not _hyphenated(value))
    return isinstance(
        value,
        (ast.Call, ast.Subscript, ast.ListComp, ast.DictComp, ast.SetComp, ast.List, ast.Dict,
         ast.JoinedStr, ast.Await),
    ) or (isinstance(value, ast.Compare) and not any(
        isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for operator in value.ops
    ))  # fmt: skip


def _hyphenated(value: ast.BinOp) -> bool:
    return (
        isinstance(value.op, ast.Sub)
        and isinstance(value.left, ast.Name)
        and value.right.col_offset == (value.left.end_col_offset or 0) + 1
    )


def _traceback(text: str) -> str | None:
    if "Traceback (most recent call last)" in text:
        return text
    if re.search(r"^\s*(?:Cell In|File \")", text, re.M) and re.search(
        r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b", text, re.M
    ):
        return text
    return None
