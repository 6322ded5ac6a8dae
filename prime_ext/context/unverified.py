"""Detection of exact values in a summary that occur nowhere in its sources.

A model that summarises sometimes invents a path, rounds a number or alters a name. The summary is
compared with everything that the model had read, and values that do not occur there are listed at
its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prime_ext.session.records import Block

OPEN = "<unverified>"
CLOSE = "</unverified>"

MAX_LISTED = 200
"""Maximum number of listed values. If there are more, the list says so."""

_BLOCK = re.compile(r"\n*<unverified>.*?(?:</unverified>|\Z)", re.S)
# A word with one slash counts as a path only if it also has a digit, "_" or ".": not "and/or".
_PATH = re.compile(
    r"(?<![\w/.~-])(?:(?:~|\.{1,2})?/(?:[\w.@+-]+/)*[\w.@+-]*\w"
    r"|(?=[\w.@+/-]*(?:[\d_.]|/[^/\s]+/))(?:[\w.@+-]+/)+[\w.@+-]*\w)"
)
_FILE = re.compile(r"(?<![\w/.-])[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{1,8}(?![\w/(])")
_NUMBER = re.compile(
    r"(?<![\w.])(?:\d+(?:[-:/.]\d+){2,}|\d(?:[\d,_]*\d)?(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)"
)
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBERED = re.compile(r"(?<![\w.-])[A-Za-z]+[_-]?\d+[A-Za-z]?(?![\w-]|\.\w)")
_TERM = re.compile(
    r"(?:u?int|float|complex|bf|fp|utf|ascii|cp|sha|base|md|x|py|python|ipv|mp|h|http|sqlite|q|p|top|"
    r"step|part|s|ec|co|l|f|r)-?\d+",
    re.I,
)
"""Common terms that end with a number and need no source: types, encodings, quantiles, quarters."""
_CODE = re.compile(r"```.*?(?:```|\Z)|`([^`\n]+)`", re.S)


def unverified(text: str, sources: Sequence[str]) -> list[str]:
    """Return the paths, numbers and identifiers in ``text`` that occur in no source, each once.

    Single digits and the numbers of numbered lists are ignored. Numbers are compared by value:
    ``1,234`` and ``1234.0`` are the same.

    Parameters
    ----------
    text:
        Text that a model wrote.
    sources:
        All texts that the model had read.
    """
    known = "\n".join(sources)
    numbers = {_value(number) for number in _NUMBER.findall(known)}
    words = set(_WORD.findall(known))
    found: dict[str, None] = {}
    for path in [*_PATH.findall(text), *_FILE.findall(text)]:
        if not _stands_in(path, known):
            found[path] = None
    told = _without(text, found)
    for name in _identifiers(told):
        if name not in words:
            found[name] = None
    lower = known.lower()
    for name in _numbered(told):
        if name not in words and not _is_part_of(name.lower(), lower):
            found[name] = None
    for number in _NUMBER.findall(_without_list_marks(told)):
        if len(number) > 1 and _value(number) not in numbers:
            found[number] = None
    return list(found)


def source_texts(contents: Iterable[Sequence[Block]]) -> Iterator[str]:
    """Yield all texts in the contents of messages; of earlier summaries only the trusted parts."""
    made_by_server: list[str] = []
    distrusted: list[str] = []
    for content in contents:
        for block in content:
            if block["type"] == "text":
                text = str(block["text"])
                yield trusted(text) if OPEN in text else text
                distrusted += _flagged_values(text) if OPEN in text else []
            elif block["type"] == "compaction":
                made_by_server.append(str(block["content"]))
            elif block["type"] == "tool_use":
                yield from _strings(block["input"])
            elif block["type"] == "tool_result":
                yield from source_texts([block["content"]])
    # The unverified values of a block are listed in a later message, in the part that code adds.
    for text in made_by_server:
        yield _without(text, distrusted)


def _stands_in(path: str, known: str) -> bool:
    """Return whether a path occurs in ``known`` by itself or as the end of a longer path."""
    return re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w/]|[.-]\w)", known) is not None


def flagged(text: str, values: Sequence[str]) -> str:
    """Return ``text`` followed by a list of its unverified ``values``, if there are any."""
    if not values:
        return text
    listed = ", ".join(f"`{value}`" for value in values[:MAX_LISTED])
    more = ", and other values in it as well" if len(values) > MAX_LISTED else ""
    return (
        f"{text}\n\n{OPEN}\nThese values are in none of the summarised records; confirm them "
        f"with session_search or at their source before you rely on them: {listed}{more}\n{CLOSE}"
    )


def trusted(summary: str) -> str:
    """Return an earlier summary without its flagged values, for use as a source of the next."""
    return _without(_BLOCK.sub("", summary), _flagged_values(summary))


def _flagged_values(summary: str) -> list[str]:
    return re.findall(r"`([^`]+)`", "".join(_BLOCK.findall(summary)))


def still_flagged(text: str, contents: Sequence[Sequence[Block]]) -> list[str]:
    """Return the values in ``text`` that an earlier summary was flagged for, if still unverified.

    The earlier summary is one of the message ``contents``. A flagged value is verified once it
    occurs in any other of the contents.
    """
    texts = [str(block["text"]) for content in contents for block in content if _has_flags(block)]
    values = {value for summary in texts for value in _flagged_values(summary)}
    if not values:
        return []
    return [value for value in unverified(text, list(source_texts(contents))) if value in values]


def flags(text: str) -> str:
    """Return only the list that ``flagged`` added to ``text``; empty if there is none."""
    return "\n\n".join(part.strip() for part in _BLOCK.findall(text))


def without_flags(text: str) -> str:
    """Return ``text`` without the list that ``flagged`` added."""
    return _BLOCK.sub("", text).rstrip()


def _has_flags(block: Block) -> bool:
    return block["type"] == "text" and OPEN in str(block["text"])


def _identifiers(text: str) -> list[str]:
    """Return identifiers: every word in code, and words in snake_case or camelCase in prose."""
    inside = " ".join(_spans(text))
    names = _WORD.findall(inside)
    outside = _CODE.sub(" ", text)
    names += [word for word in _WORD.findall(outside) if "_" in word or _is_camel(word)]
    return [name for name in names if len(name) > 2]


def _numbered(text: str) -> list[str]:
    """Return names in prose that end with a number, except for common terms (``_TERM``)."""
    return [name for name in _NUMBERED.findall(_CODE.sub(" ", text)) if not _TERM.fullmatch(name)]


def _is_part_of(name: str, known: str) -> bool:
    """Return whether ``name`` is a part of a longer name in ``known``, as in ``model_v2.bin``."""
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", known) is not None


def _spans(text: str) -> Iterator[str]:
    """Yield the contents of code spans and code blocks, without fences and language names."""
    for match in _CODE.finditer(text):
        yield match[1] or match[0].strip("`").partition("\n")[2]


def _is_camel(word: str) -> bool:
    return re.search(r"[a-z][A-Z]", word) is not None


def _value(number: str) -> str:
    plain = number.replace(",", "").replace("_", "")
    if "." in plain and "e" not in plain.lower():
        plain = plain.rstrip("0").rstrip(".")
    return plain.lstrip("0") or "0"


def _without(text: str, values: Iterable[str]) -> str:
    for value in sorted(values, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", " ", text)
    return text


def _without_list_marks(text: str) -> str:
    return re.sub(r"(?m)^\s*\d+[.)]\s", " ", text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif value is not None:
        yield str(value)
