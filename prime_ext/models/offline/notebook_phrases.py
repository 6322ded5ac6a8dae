"""Rules of the parser for cells, files, errors and the session's record."""

from __future__ import annotations

import re

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.phrases import DATA_FILE, Rule, group, unquote

_CELL = (
    r"(?:the\s+)?(?:(?P<{0}a>first|last|previous|next|top|\d+(?:st|nd|rd|th))\s+(?:code\s+)?cell|"
    r"(?:code\s+)?cell\s+(?:number\s+|no\.?\s+|#\s?|id\s+)?[`'\"]?(?P<{0}b>[\w-]+)[`'\"]?|"
    r"(?:cell\s+)?(?P<{0}c>(?:in|out)?\s?\[\d+\])|(?P<{0}d>it|this cell|that cell|the cell))"
)


def _cell_pattern(prefix: str = "") -> str:
    return _CELL.format(prefix)


def _cell(match: re.Match[str], prefix: str = "") -> str | None:
    for part in "abcd":
        found = group(match, prefix + part)
        if found is not None:
            return _reference(found)
    return None


_ORDINALS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}


def _reference(text: str) -> str:
    text = text.strip().lower() if len(text) < 8 else text.strip()
    execution = re.fullmatch(r"(?:in|out)?\s?\[(\d+)\]", text)
    if execution is not None:
        return f"In[{execution[1]}]"
    ordinal = re.fullmatch(r"(\d+)(?:st|nd|rd|th)", text)
    if ordinal is not None:
        return ordinal[1]
    if text in ("it", "this cell", "that cell", "the cell", "last", "previous"):
        return "last"
    return {"top": "first"}.get(text, _ORDINALS.get(text, text))


_PLACE = (
    r"(?:\s+(?:at|to|on)\s+the\s+(?P<end>top|start|beginning|end|bottom)|"
    r"\s+(?P<side>after|below|under|behind|following)\s+" + _cell_pattern("p") + r")?"
)


def _after(match: re.Match[str]) -> str | None:
    end = group(match, "end")
    if end:
        return "top" if end.lower() in ("top", "start", "beginning") else None
    return _cell(match, "p")


_INSERT = re.compile(
    r"(?:insert|add|create|make|put|append|write|new)\b.*?\b(?P<kind>markdown|text|code)?\s*"
    r"(?:cell|note|heading)\b" + _PLACE + r"(?P<rest>.*)",
    re.I | re.S,
)
_EDIT = re.compile(
    r"(?:edit|change|replace|update|overwrite|set|rewrite)\s+(?:the\s+(?:source|code|content)s?\s+"
    r"of\s+)?" + _cell_pattern() + r"(?:\s+(?:to|with|by|so that it (?:reads|says|is)|as|into))?"
    r"(?:\s+(?:this|the following))?",
    re.I,
)
_PUT_IN = re.compile(r"(?:put|write|paste)\s+(?:this|it|the code)?\s*(?:in|into)\s+"
                     + _cell_pattern(), re.I)  # fmt: skip


def cell_with_source(prose: str, code: str, *, markdown: bool) -> i.Intent | None:
    """What to do with the cell whose ``code`` the message fences, if it is about a cell."""
    for pattern in (_EDIT, _PUT_IN):
        edit = pattern.fullmatch(prose)
        if edit is not None:
            return i.EditCell(_cell(edit) or "last", code)
    insert = _INSERT.match(prose)
    if insert is not None:
        kind = (insert["kind"] or "").lower()
        is_markdown = markdown or kind in ("markdown", "text")
        run = not is_markdown and re.search(r"\b(?:run|execute)\b", prose, re.I) is not None
        return i.InsertCell(
            code, "markdown" if is_markdown else "code", after=_after(insert), run=run
        )
    return None


def _insert_inline(match: re.Match[str]) -> i.Intent | None:
    source = match["source"].strip()
    kind = (group(match, "kind") or "").lower()
    markdown = kind in ("markdown", "text") or (source.startswith("# ") and kind != "code")
    if len(source) > 1 and source[0] == source[-1] and source[0] in "`\"'":
        source = source[1:-1]
    return i.InsertCell(
        source,
        "markdown" if markdown else "code",
        after=_after(match),
        run=bool(group(match, "run") or group(match, "run2")),
    )


def _cell_type(kind: str | None) -> str:
    return "markdown" if (kind or "").lower() in ("markdown", "text") else "code"


def _heading(match: re.Match[str]) -> i.Intent:
    return i.InsertCell(f"## {unquote(match['title'])}", "markdown", after=_after(match))


def _recall(match: re.Match[str]) -> i.Intent | None:
    words = [
        word
        for word in re.findall(r"[\w./+-]*\w", match["query"])
        if word.lower() not in _STOP_WORDS
    ]
    return i.Recall(" ".join(words)) if words else None


_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about again all an and any are as at be before by can did do does earlier exact exactly
        for from had has have how i in is it last me my of on or our said say session so that the
        then there this to told us use used using was we were what when where which who why with
        you your conversation history chat record records first time
        """,
    )
)


def _read_file(match: re.Match[str]) -> i.Intent | None:
    path = unquote(match["path"])
    raw = re.search(r"text|contents?|raw|plain", match["plain"], re.I)
    if re.search(rf"\.{DATA_FILE}$", path, re.I) and not raw:
        return None
    return i.ReadFile(path)


_FILE = r"[`'\"]?(?P<path>[\w./~+-][\w ./~+-]*\.[A-Za-z]\w{0,9})[`'\"]?"

RULES: list[Rule] = [
    # errors
    (r"(?:explain|describe|understand|show|what(?:'s| is| was| does| about)?|diagnose|debug|why)?"
     r"(?:\s+me)?(?:\s+(?:is|was|does|did))?\s*(?:the|this|that|my|last|an)?\s*(?:last|latest|"
     r"previous|recent)?\s*(?:error|exception|traceback|failure|stack ?trace)s?"
     r"(?:\s+(?:mean|means|about|happen(?:ed)?|message|please|is|was|in .+))?",
     lambda m: i.ExplainError()),
    (r"(?:why|how come) (?:did|does|do|is|was) (?:it|that|this|the (?:cell|code|plot|run|"
     r"last cell))"
     r" (?:fail|failed|failing|crash|break|broken|not work(?:ing)?|raise|throw|go wrong).*",
     lambda m: i.ExplainError()),
    (r"what (?:went|is|has gone|did go) wrong.*|what happened|what(?:'s| is) broken|"
     r"why (?:do|did|am) i (?:get|getting|got) (?:an?|this|that|the) (?:error|exception).*|"
     r"(?:it|that|this) (?:failed|doesn't work|does not work|broke|didn't work)",
     lambda m: i.ExplainError()),
    # cells
    (r"(?:insert|add|create|make|put|append)\s+(?:a|an|the)?\s*(?:new\s+)?(?P<kind>markdown|text|"
     r"code)?"
     r"\s*(?:cell|note)" + _PLACE +
     r"(?P<run>\s+and (?:run|execute) it)?\s*(?:(?:with|containing|that (?:says|reads|contains)|"
     r"saying|reading)(?:\s+the\s+(?:code|text|source))?\s*:?|:)\s+(?P<source>.+?)"
     r"(?P<run2>\s+and\s+(?:run|execute)\s+it)?",
     lambda m: _insert_inline(m)),
    (r"(?:insert|add|create|make)\s+(?:a|an|another)\s+(?:new\s+|empty\s+)*(?P<kind>markdown|text|"
     r"code)?\s*cell" + _PLACE,
     lambda m: i.InsertCell("", _cell_type(m["kind"]), _after(m))),
    (r"(?:insert|add|create|put)\s+(?:a\s+|the\s+)?(?:section\s+)?(?:heading|title|"
     r"header)" + _PLACE +
     r"\s*:?\s+(?P<title>.+)", _heading),
    (r"(?:re-?)?(?:run|execute)\s+(?:all(?:\s+(?:the\s+)?cells)?|(?:the\s+)?(?:whole|entire|full)"
     r"?\s*"
     r"notebook|everything|every cell)(?:\s+again)?", lambda m: i.RunCell("all")),
    (r"(?:re-?)?(?:run|execute|evaluate)\s+" + _cell_pattern(),
     lambda m: i.RunCell(_cell(m) or "last")),
    (r"(?:delete|remove|drop)\s+" + _cell_pattern(), lambda m: i.DeleteCell(_cell(m) or "last")),
    (r"move\s+" + _cell_pattern() + r"\s+(?:to\s+the\s+(?P<end>top|start|beginning|end|bottom)|"
     r"(?:to\s+)?(?:after|below|behind|under)\s+" + _cell_pattern("p") + ")",
     lambda m: i.MoveCell(_cell(m) or "last", _after(m) or "end")),
    (r"(?:in|within)\s+" + _cell_pattern() + r",?\s+(?:replace|change|rename)\s+"
     r"(?P<q1>[`'\"])(?P<old>.+?)(?P=q1)\s+(?:with|by|to|into)\s+(?P<q2>[`'\"])(?P<new>.*?)(?P=q2)",
     lambda m: i.ReplaceInCell(_cell(m) or "last", m["old"], m["new"])),
    (r"(?:replace|change|rename)\s+(?P<q1>[`'\"])(?P<old>.+?)(?P=q1)\s+(?:with|by|to|into)\s+"
     r"(?P<q2>[`'\"])(?P<new>.*?)(?P=q2)\s+in\s+" + _cell_pattern(),
     lambda m: i.ReplaceInCell(_cell(m) or "last", m["old"], m["new"])),
    (r"(?:edit|change|set|replace)\s+" + _cell_pattern() +
     r"\s+(?:to|with|by)\s*:?\s+(?P<q>[`'\"])(?P<source>.+)(?P=q)",
     lambda m: i.EditCell(_cell(m) or "last", m["source"])),
    (r"(?:read|show|print|display|what(?:'s| is) in)\s+(?:me\s+)?" + _cell_pattern(),
     lambda m: None if _cell(m) is None or m["d"] else i.ReadNotebook(_cell(m))),
    (r"(?:read|show|outline|summari[sz]e|describe|explain|look at|go through|list|open)"
     r"\s+(?:me\s+)?"
     r"(?:the\s+|this\s+|my\s+|what is in the\s+)?(?:cells(?: of the notebook)?|notebook|"
     r"(?:the\s+)?notebook's cells|outline)(?:\s+(?:do(?:es)?|for me))?",
     lambda m: i.ReadNotebook()),
    (r"what(?:'s| is| does| are)?\s+(?:in\s+)?(?:the|this|my)\s+(?:notebook|cells)(?:\s+(?:do|"
     r"about|"
     r"contain|doing))?|what(?:'s| is) in here", lambda m: i.ReadNotebook()),
    # files
    (r"(?:list|show|ls|dir|what(?:'s| are| is)?|which|see|are there(?: any)?)\s*(?:me\s+)"
     r"?(?:all\s+)?"
     r"(?:the\s+|my\s+)?(?:available\s+)?(?:data\s+|csv\s+)?(?:files?|data ?sets|folder|directory)"
     r"(?:\s+(?:are|is|do i have|can i (?:load|use)|exist)?\s*(?:there|here|available|in (?:here|"
     r"this (?:folder|directory)|the (?:folder|directory))|do i have)?)?"
     r"(?:\s+(?:in|of|under)\s+(?:the\s+)?(?:folder\s+|directory\s+)?[`'\"]?(?P<path>[\w./-]+)"
     r"[`'\"]?(?:\s+(?:folder|directory))?)?|ls(?:\s+(?P<path2>[\w./-]+))?|what(?:'s| is)"
     r" in (?:this|the|here|my) (?:folder|directory)",
     lambda m: i.ListFiles(m["path"] or m["path2"])),
    (r"(?:search|grep|look)\s+(?:through\s+|in\s+)?(?:the\s+|all\s+|my\s+)?files?\s+for\s+"
     r"(?P<what>.+)", lambda m: i.SearchFiles(unquote(m["what"]))),
    (r"(?:find|search(?: for)?|grep)\s+(?:for\s+)?(?P<what>.+?)\s+in\s+(?:the\s+|all\s+|my\s+)"
     r"?files?",
     lambda m: i.SearchFiles(unquote(m["what"]))),
    (r"grep\s+(?:for\s+)?(?P<what>.+)", lambda m: i.SearchFiles(unquote(m["what"]))),
    (r"(?:read|open|print|cat|view|display|(?:show\s+(?:me\s+)?)?what(?:'s| is) in|show)"
     r"\s+(?:me\s+)?(?:the\s+)?"
     r"(?P<plain>(?:text of\s+|(?:raw\s+)?contents? of\s+|raw\s+|plain\s+)?(?:the\s+)?(?:file\s+)"
     r"?)" + _FILE,
     _read_file),
    # the session's record
    (r"(?:search|look)\s+(?:through\s+|in\s+|up\s+in\s+)?(?:the\s+|this\s+|our\s+|my\s+)"
     r"?(?:session|"
     r"conversation|history|record|records|chat|log)\s+(?:for|about)\s+(?P<query>.+)", _recall),
    (r"(?:find|search(?: for)?|look up)\s+(?P<query>.+?)\s+in\s+(?:the\s+|this\s+|our\s+)"
     r"?(?:session|"
     r"conversation|history|record|records|chat|log)", _recall),
    (r"what\s+(?:was|were)\s+(?:the\s+|that\s+|my\s+|our\s+)?(?:exact\s+)?(?P<query>.+)", _recall),
    (r"what\s+(?:exact\s+)?(?P<query>\w+(?:\s+\w+)?\s+did\s+(?:i|we|you)\s+.+)", _recall),
    (r"(?:what|when|where|why|how|which .+?)\s+did\s+(?:i|we|you)\s+(?P<query>.+)", _recall),
    (r"(?:remind me(?: of| about| what)?|recall|do you remember|remember)"
     r"\s+(?P<query>.+)", _recall),
    (r"(?P<query>.+?)\s+(?:that\s+)?(?:i|we|you)\s+(?:used|ran|said|mentioned|decided|tried|had)\s+"
     r"(?:earlier|before|last time|yesterday)", _recall),
]  # fmt: skip
