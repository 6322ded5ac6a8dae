"""Parsers for pieces of a message: polite phrases, names of columns and frames, lists."""

from __future__ import annotations

import re

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
_FRAME_NOUN = r"(?:data ?frames?|frames?|data ?sets?|table|data|df)"
PRONOUN = r"(?:it|that|this|them|these|those)"

_IN_FRAME = re.compile(
    rf"\s+(?:in|from|within|using|on|inside)\s+(?:the\s+|my\s+|our\s+)?"
    rf"(?P<frame>[`'\"]?[A-Za-z_]\w*[`'\"]?)(?:\s+{_FRAME_NOUN})?$",
    re.I,
)
_ELEMENT = re.compile(
    r"^(?P<frame>[A-Za-z_]\w*)\s*(?:\[\s*['\"](?P<item>[^'\"]+)['\"]\s*\]|\.(?P<attribute>\w+))$"
)


def clean(text: str) -> str:
    """Remove polite phrases, repeated spaces and final punctuation from ``text``."""
    text = " ".join(text.replace("’", "'").replace("“", '"').replace("”", '"').split())
    text = _LEAD.sub("", text)
    return _TAIL.sub("", text).strip()


def unquote(text: str | None) -> str:
    """Remove quotes, articles and the word "column" from a name."""
    text = (text or "").strip().strip(",:").strip()
    text = re.sub(r"^(?:the|a|an|my|our|each|every|all(?: the)?)\s+", "", text, flags=re.I)
    text = re.sub(r"^(?:column|variable|feature|field)s?\s+(?=\S)", "", text, flags=re.I)
    text = re.sub(r"(?<=\S)\s+(?:column|variable|feature|field)s?$", "", text, flags=re.I)
    return text.strip().strip("`'\"").strip()


def column_and_frame(text: str | None) -> tuple[str, str | None]:
    """Split ``"mass in penguins"``, ``"penguins['mass']"`` or ``"penguins.mass"``."""
    text = (text or "").strip()
    # Before `unquote`, which would remove the "a" of "a in df" as an article.
    inside = _IN_FRAME.search(text)
    if inside is not None:
        return unquote(text[: inside.start()]), frame_name(inside["frame"])
    text = unquote(text)
    element = _ELEMENT.match(text)
    if element is not None:
        return element["item"] or element["attribute"], element["frame"]
    return text, None


def frame_name(text: str | None) -> str | None:
    """Return the name of a frame, or ``None`` for "it", "the data" and the like."""
    name = unquote(text)
    name = re.sub(rf"\s+{_FRAME_NOUN}$", "", name, flags=re.I).strip("`'\" ")
    name = re.sub(rf"^{_FRAME_NOUN}\s+(?=\w)", "", name, flags=re.I).strip("`'\" ")
    nameless = rf"{PRONOUN}|(?:that |this |the )?(?:data ?frame|frame|data ?set|table|data)s?"
    return None if not name or re.fullmatch(nameless, name, re.I) else name


def names(text: str | None) -> tuple[str, ...]:
    """Split ``"a, b and c"`` into a tuple."""
    parts = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*|\s+then\s+by\s+", (text or "").strip())
    return tuple(name for name in (unquote(part) for part in parts) if name)


def columns_and_frame(text: str | None) -> tuple[tuple[str, ...], str | None]:
    """Split a list of columns, and the frame that contains them if it is named."""
    rest, frame = column_and_frame(text)
    found: list[str] = []
    for name in names(rest):
        column, inner = column_and_frame(name)
        frame = frame or inner
        found.append(column)
    return tuple(found), frame
