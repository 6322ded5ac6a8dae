"""Parser for conditions on rows, such as "body mass is over 4000 and species is Adelie"."""

from __future__ import annotations

import re

from prime_ext.models.offline.intents import Condition
from prime_ext.models.offline.phrases import unquote

_IS = r"(?:\s+(?:is|are|was|has|have|value is))?"
_OPERATORS: list[tuple[str, str]] = [
    (rf"{_IS}\s+(?:not\s+missing|not\s+(?:null|na|nan|empty)|present|known)$", "notna"),
    (rf"{_IS}\s+(?:missing|null|na|nan|empty|unknown)$", "isna"),
    (rf"{_IS}\s+between\s+(?P<a>.+?)\s+and\s+(?P<b>.+)$", "between"),
    (r"\s+(?:contains?|containing|includes?)\s+(?P<a>.+)$", "contains"),
    (r"\s+(?:starts?|starting|begins?)\s+with\s+(?P<a>.+)$", "startswith"),
    (rf"(?:\s*>=\s*|{_IS}\s+(?:at least|no less than|not less than|greater (?:than )"
     rf"?or equal(?: to)?|"
     rf"from)\s+)(?P<a>.+)$", ">="),
    (rf"(?:\s*<=\s*|{_IS}\s+(?:at most|no more than|not more than|less (?:than )?or equal(?: to)?|"
     rf"up to)\s+)(?P<a>.+)$", "<="),
    (rf"(?:\s*>\s*|{_IS}\s+(?:greater than|more than|larger than|bigger than|higher than|"
     rf"longer than|"
     rf"heavier than|older than|over|above|exceeds|after)\s+)(?P<a>.+)$", ">"),
    (rf"(?:\s*<\s*|{_IS}\s+(?:less than|smaller than|lower than|fewer than|shorter than|"
     rf"lighter than|"
     rf"younger than|under|below|before)\s+)(?P<a>.+)$", "<"),
    (rf"(?:\s*(?:!=|<>)\s*|{_IS}\s+(?:not equal to|not|isn't|is not|other than)\s+|"
     r"\s+(?:isn't|does not equal|doesn't equal)\s+)(?P<a>.+)$", "!="),
    (rf"{_IS}\s+(?:either\s+|in\s+|one of\s+)(?P<a>.+)$", "isin"),
    (r"(?:\s*==?\s*|\s+(?:is equal to|equals?|equal to|is|are|was|matches)\s+)(?P<a>.+)$", "=="),
]  # fmt: skip
_COMPILED = [(re.compile(rf"^(?P<col>.+?){pattern}", re.I), op) for pattern, op in _OPERATORS]


def parse(text: str) -> tuple[tuple[Condition, ...], str] | None:
    """Return the conditions and ``and`` or ``or``; ``None`` if one of them cannot be parsed."""
    # "between 3 and 5" contains an "and" that does not join conditions.
    shielded = re.sub(r"(between\s+\S+)\s+and\s+", "\\1 \0 ", text, flags=re.I)
    join = "and"
    parts = re.split(r"\s+(?:and|&)\s+", shielded, flags=re.I)
    if len(parts) == 1:
        either = re.split(r"\s+(?:or|\|)\s+", shielded, flags=re.I)
        if len(either) > 1 and all(_one(part.replace("\0", "and")) for part in either):
            parts, join = either, "or"
    found = [_one(part.replace("\0", "and")) for part in parts]
    conditions = tuple(condition for condition in found if condition is not None)
    return (conditions, join) if len(conditions) == len(parts) else None


def _one(text: str) -> Condition | None:
    best: tuple[int, Condition] | None = None
    for pattern, operator in _COMPILED:
        match = pattern.match(text.strip())
        if match is None:
            continue
        values = tuple(
            value
            for value in (match.groupdict().get("a"), match.groupdict().get("b"))
            if value is not None
        )
        if operator == "isin":
            values = tuple(re.split(r"\s*,\s*(?:or\s+)?|\s+or\s+", values[0].strip("[]() ")))
        if operator == "==" and re.search(r"\s+or\s+", values[0]):
            operator, values = "isin", tuple(re.split(r"\s*,\s*(?:or\s+)?|\s+or\s+", values[0]))
        condition = Condition(
            unquote(match["col"]), operator, tuple(_value(value) for value in values)
        )
        # The operator that comes first in the text counts.
        at = len(match["col"])
        if condition.column and (best is None or at < best[0]):
            best = (at, condition)
    return best[1] if best else None


def _value(text: str) -> str:
    text = text.strip().rstrip(".")
    if len(text) > 1 and text[0] == text[-1] and text[0] in "`'\"":
        return text[1:-1]
    number = text.replace(",", "").replace("_", "")
    return number if re.fullmatch(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", number, re.I) else text
