"""Small parts of English that the rules of the parser are built of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from prime_ext.models.offline.intents import Intent

Rule = tuple[str, Callable[["re.Match[str]"], "Intent | None"]]
"""A pattern for the whole clause, case ignored, and the intent it makes. A builder that gives
``None`` lets the next rule try."""

DATA_FILE = (
    r"(?:csv|tsv|tab|parquet|pq|xlsx|xls|json|jsonl|ndjson|feather|arrow)(?:\.(?:gz|bz2|zip|xz))?"
)

_LEAD = re.compile(
    r"^(?:(?:please|now|ok(?:ay)?|so|well|and|then|next|first|also|just|finally|"
    r"(?:hey|hi|hello|great|thanks|thank you|yes|no|sure)(?=[,:!.])|let's|lets|let us|go ahead and|"
    r"(?:can|could|would|will) you(?: please| kindly)?(?: help me(?: to)?)?|"
    r"i(?: would|'d)? (?:want|like|need)(?: you)? to|i want|help me(?: to)?|"
    r"try to|could we|can we|can i|may i|i'd like|do you mind)\b[,:!.]?\s+)+",
    re.I,
)
_TAIL = re.compile(
    r"(?:[\s,]+(?:please|for me|again|now|thanks|thank you|too|as well|if you can|"
    r"in (?:a|the) (?:new )?cell))*\s*[?.!]*\s*$",
    re.I,
)

ARTICLE = r"(?:(?:the|a|an|my|our|this|that|these|those|all(?: the)?|each|every)\s+)?"
SHOW = (
    r"(?:(?:show|give|display|print|compute|calculate|get|find|tell|list|report|see|view|"
    r"what(?:'s| is| are| was| were)|whats|which(?: is| are)?)(?:\s+me)?(?:\s+all)?\s+(?:the\s+)?)?"
)
FRAME_NOUN = r"(?:data ?frames?|frames?|data ?sets?|datasets?|table|data|df)"
PRONOUN = r"(?:it|that|this|them|these|those)"

_IN_FRAME = re.compile(
    rf"\s+(?:in|from|within|using|on|inside)\s+(?:the\s+|my\s+|our\s+)?"
    rf"(?P<frame>[`'\"]?[A-Za-z_]\w*[`'\"]?)(?:\s+{FRAME_NOUN})?$",
    re.I,
)
_SUBSCRIPT = re.compile(
    r"^(?P<frame>[A-Za-z_]\w*)\s*(?:\[\s*['\"](?P<c>[^'\"]+)['\"]\s*\]|"
    r"\.(?P<a>\w+))$"
)


def clean(text: str) -> str:
    """``text`` without courtesies, doubled spaces and closing punctuation."""
    text = " ".join(text.replace("’", "'").replace("“", '"').replace("”", '"').split())
    text = _LEAD.sub("", text)
    return _TAIL.sub("", text).strip()


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.I)


def first_match(rules: Sequence[Rule], text: str) -> Intent | None:
    """What the first rule that fits the whole of ``text`` makes of it."""
    for pattern, build in rules:
        match = _compiled(f"(?:{pattern})").fullmatch(text)
        if match is not None:
            found = build(match)
            if found is not None:
                return found
    return None


def unquote(text: str | None) -> str:
    """A name without quotes, articles and the word "column"."""
    text = (text or "").strip().strip(",:").strip()
    text = re.sub(r"^(?:the|a|an|my|our|each|every|all(?: the)?)\s+", "", text, flags=re.I)
    text = re.sub(r"^(?:column|variable|feature|field)s?\s+(?=\S)", "", text, flags=re.I)
    text = re.sub(r"(?<=\S)\s+(?:column|variable|feature|field)s?$", "", text, flags=re.I)
    return text.strip().strip("`'\"").strip()


def column_and_frame(text: str | None) -> tuple[str, str | None]:
    """``"mass in penguins"``, ``"penguins['mass']"`` or ``"penguins.mass"`` taken apart."""
    text = unquote(text)
    subscript = _SUBSCRIPT.match(text)
    if subscript is not None:
        return subscript["c"] or subscript["a"], subscript["frame"]
    inside = _IN_FRAME.search(text)
    if inside is not None:
        return unquote(text[: inside.start()]), frame_name(inside["frame"])
    return text, None


def frame_name(text: str | None) -> str | None:
    """A frame as named, or ``None`` for "it", "the data" and the like."""
    name = unquote(text)
    name = re.sub(rf"\s+{FRAME_NOUN}$", "", name, flags=re.I).strip("`'\" ")
    name = re.sub(rf"^{FRAME_NOUN}\s+(?=\w)", "", name, flags=re.I).strip("`'\" ")
    if not name or re.fullmatch(
        rf"{PRONOUN}|(?:that |this |the )?(?:data ?frame|frame|data ?set|dataset|table|data)s?",
        name,
        re.I,
    ):
        return None
    return name


def names(text: str | None) -> tuple[str, ...]:
    """``"a, b and c"`` as a tuple."""
    parts = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*|\s+then\s+by\s+", (text or "").strip())
    return tuple(name for name in (unquote(part) for part in parts) if name)


def columns_and_frame(text: str | None) -> tuple[tuple[str, ...], str | None]:
    """Several columns and the frame they are in."""
    rest, frame = column_and_frame(text)
    found: list[str] = []
    for name in names(rest):
        column, inner = column_and_frame(name)
        frame = frame or inner
        found.append(column)
    return tuple(found), frame


def group(match: re.Match[str], name: str) -> str | None:
    """A named group that the pattern may lack."""
    found: Any = match.groupdict().get(name)
    return found if found is None else str(found)
