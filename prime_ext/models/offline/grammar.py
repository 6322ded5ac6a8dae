"""Rules written as sentence templates: ``"(load|read) [the] {file:file} [as {name:word}]"``.

A template matches a whole clause, ignoring case. In a template,

- ``word`` matches itself, ``rows?`` a word with or without its last letter,
- ``(a|b c)`` for one of several, ``[a|b]`` for one of several or nothing, ``[a|b]*`` for any
  number of them, ``,`` for a comma or nothing, ``:`` for a colon, ``*`` for any words or none,
- ``{slot}`` for any words, as few as possible; ``{slot:type}`` for a pattern in ``SLOTS``,
  ``{slot:a|b}`` for one of the words,
- ``<name>`` for the sub-template of that name in ``PIECES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prime_ext.models.offline.intents import Intent

DATA_FILE = (
    r"(?:csv|tsv|tab|parquet|pq|xlsx|xls|json|jsonl|ndjson|feather|arrow)(?:\.(?:gz|bz2|zip|xz))?"
)

SLOTS = {
    "word": r" [`'\"]?(?P<{0}>[A-Za-z_]\w*)[`'\"]?",
    "words": r" (?P<{0}>[\w.]+(?: [\w.]+){{0,2}})",
    "number": r" (?P<{0}>\d+)",
    "data": rf" [`'\"]?(?P<{{0}}>[^`'\"\n]+?\.{DATA_FILE})[`'\"]?",
    "lone_data": rf" (?P<{{0}}>[\w./-]+\.{DATA_FILE})",
    "file": r" [`'\"]?(?P<{0}>[\w./~+-][\w ./~+-]*\.[A-Za-z]\w{{0,9}})[`'\"]?",
    "folder": r" [`'\"]?(?P<{0}>[\w./-]+)[`'\"]?",
    "quoted": r" (?P<{0}_>[`'\"])(?P<{0}>.*?)(?P={0}_)",
    "cell": (
        r"(?: the)?(?: (?P<{0}_ordinal>first|last|previous|next|top|\d+(?:st|nd|rd|th))"
        r"(?: code)? cell|(?: code)? cell(?: number| no\.?| id)? #?[`'\"]?(?P<{0}_name>[\w-]+)"
        r"[`'\"]?|(?: cell)? (?P<{0}_count>(?:in|out)?\s?\[\d+\])"
        r"| (?P<{0}_it>it|this cell|that cell|cell))"
    ),
}
"""Type → pattern in which ``{0}`` is the slot's name; each pattern includes its leading space."""

PIECES = {
    "the": "[the|a|an|my|our|this|that|these|those|all|all the|each|every]",
    "what": "(what's|whats|what is|what are|what was|what were|which|which is|which are)",
    "show": (
        "[show|give|display|print|compute|calculate|get|find|tell|list|report|see|view|<what>] "
        "[me] [all] [the]"
    ),
    "draw": (
        "(plot|draw|show|make|create|do|give|produce|generate|visualize|visualise|graph|chart|see|"
        "display|add) [me]"
    ),
    "frame": "(data|data set|dataset|data frame|dataframe|frame|table|df)",
    "rows": "(rows?|records?|entries|observations?|samples?|cases|lines|data|items?)",
    "of_frame": "[(of|in|from|for) [the] {frame:word} [<frame>]]",
    "where": (
        "(where|with|have|has|that have|that are|having|whose|which have|which are|if|when|"
        "for which|in which|satisfying)"
    ),
    "as_name": (
        "[(as|call it|and call it|name it|and name it|into|in|to|with name|with the name|"
        "(into|in) [a] (variable|<frame>) [called|named]) {name:word}]"
    ),
    # After a condition, "in" and "to" belong to the condition.
    "keep_as": "[(as|into|call it|and call it|and name it) {name:word}]",
    "each": (
        "(by|per|for each|for every|in each|in every|across|grouped by|within each|of each|"
        "of every)"
    ),
    "versus": (
        "(by|vs.?|versus|against|as a function of|over|across|per|for each|grouped by|on|with)"
    ),
    "color": "[, (colored|coloured|color|colour|hue|split|grouped) by {color}]",
    "missing": (
        "(missing|missingness|nans?|nulls?|nas?|empty) "
        "[values?|data|entries|entry|cells|rows|counts?]"
    ),
    "files": "[data|csv] (files?|datasets|data sets|folder|directory)",
    "record": "(session|conversation|history|record|records|chat|log)",
}

_TOKEN = re.compile(
    r"(?P<open>[\[(])|(?P<close>\]\*|\]|\))|(?P<bar>\|)|<(?P<piece>\w+)>|"
    r"\{(?P<slot>\w+)(?::(?P<type>[^}]+))?\}|(?P<comma>,)|(?P<colon>:)|(?P<any>\*)|"
    r"(?P<word>[^\s\[\](){}|<>,:*]+)"
)


@lru_cache(maxsize=1024)
def pattern(template: str) -> re.Pattern[str]:
    """Compile ``template`` to a pattern for a clause with a leading space."""
    return re.compile(_source(template), re.I)


def _source(template: str) -> str:
    parts = []
    for token in _TOKEN.finditer(template):
        if token["open"]:
            parts.append("(?:")
        elif token["close"]:
            parts.append({"]": ")?", "]*": ")*", ")": ")"}[token["close"]])
        elif token["bar"]:
            parts.append("|")
        elif token["piece"]:
            parts.append(f"(?:{_source(PIECES[token['piece']])})")
        elif token["slot"]:
            parts.append(_slot(token["slot"], token["type"]))
        elif token["comma"]:
            parts.append(",?")
        elif token["colon"]:
            parts.append(":")
        elif token["any"]:
            parts.append("(?: .+?)?")
        else:
            parts.append(" " + _word(token["word"]))
    return "".join(parts)


def _slot(name: str, kind: str | None) -> str:
    if kind is None:
        return rf" (?P<{name}>.+?)"
    if kind in SLOTS:
        return SLOTS[kind].format(name)
    words = sorted(kind.split("|"), key=len, reverse=True)
    return rf" (?P<{name}>{'|'.join(_word(word) for word in words)})"


def _word(word: str) -> str:
    return re.escape(word[:-1]) + "?" if word.endswith("?") else re.escape(word)


@dataclass(frozen=True)
class Found:
    """The slots of a template that matched."""

    slots: dict[str, str | None]

    def __getitem__(self, name: str) -> str | None:
        """Text of a slot; ``None`` if it was not matched or the template does not have it."""
        return self.slots.get(name)

    def text(self, name: str) -> str:
        return self.slots.get(name) or ""


Build = Callable[[Found], "Intent | None"]


@dataclass(frozen=True)
class Rule:
    """Templates, and a function that builds the intent or returns ``None`` to try the next rule."""

    build: Build
    templates: tuple[str, ...]


def rule(build: Build, *templates: str) -> Rule:
    return Rule(build, templates)


def match(template: str, clause: str) -> Found | None:
    """Return the slots if ``template`` matches all of ``clause``, else ``None``."""
    found = pattern(template).fullmatch(f" {clause}")
    return Found(found.groupdict()) if found is not None else None


def first_match(rules: Sequence[Rule], clause: str) -> Intent | None:
    """Return the intent of the first rule that matches ``clause``; ``None`` if none does."""
    for one in rules:
        for template in one.templates:
            found = match(template, clause)
            if found is not None:
                intent = one.build(found)
                if intent is not None:
                    return intent
    return None
