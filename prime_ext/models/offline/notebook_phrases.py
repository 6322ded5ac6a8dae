"""Rules for messages about cells, errors, files and the session's record."""

from __future__ import annotations

import re

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.grammar import DATA_FILE, Found, match, rule
from prime_ext.models.offline.phrases import unquote

_PLACE = (
    "[(at|to|on) the {end:top|start|beginning|end|bottom}|"
    "(after|below|under|behind|following) {place:cell}]"
)
_KIND = "{kind:markdown|text|code}"


def _cell(found: Found, slot: str = "cell") -> str | None:
    """Return the cell reference in a slot: a position, ``In[n]``, ``first``, ``last`` or an id."""
    ordinal, name = found[f"{slot}_ordinal"], found[f"{slot}_name"]
    count, it = found[f"{slot}_count"], found[f"{slot}_it"]
    if count:
        return f"In[{re.sub(r'[^0-9]', '', count)}]"
    if ordinal:
        return _ORDINALS.get(ordinal.lower(), re.sub(r"[a-z]+$", "", ordinal.lower()))
    if name:
        return _NUMBERS.get(name.lower(), name)
    return "last" if it else None


_ORDINALS = {"first": "first", "top": "first", "last": "last", "previous": "last", "next": "last"}
_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}


def _after(found: Found) -> str | None:
    if found["end"]:
        return "top" if found.text("end").lower() in ("top", "start", "beginning") else None
    return _cell(found, "place")


def _cell_type(found: Found) -> str:
    return "markdown" if found.text("kind").lower() in ("markdown", "text") else "code"


_EDIT = (
    "(edit|change|replace|update|overwrite|set|rewrite) [the (source|code|contents?) of] "
    "{cell:cell} [to|with|by|so that it (reads|says|is)|as|into] [this|the following]",
    "(put|write|paste) [this|it|the code] (in|into) {cell:cell}",
)
_NEW_CELL = f"(insert|add|create|make|put|append) [a|an|the] [new] [{_KIND}] (cell|note) {_PLACE}"
_WITH = "(with|containing|saying|reading|that (says|reads|contains)) [the (code|text|source)]"
_INSERT = (
    "(insert|add|create|make|put|append|write|new) [a|an|another|the|this|it] [as|in|into] [a] "
    f"[new] [{_KIND}] (cell|note) {_PLACE} *"
)


def cell_with_source(prose: str, code: str, *, markdown: bool) -> i.Intent | None:
    """Return the intent of a message about a cell with ``code`` in a fence, if it is about one."""
    for template in _EDIT:
        found = match(template, prose)
        if found is not None:
            return i.EditCell(_cell(found) or "last", code)
    found = match(_INSERT, prose)
    if found is None:
        return None
    kind = "markdown" if markdown else _cell_type(found)
    run = kind == "code" and re.search(r"\b(?:run|execute)\b", prose, re.I) is not None
    return i.InsertCell(code, kind, after=_after(found), run=run)


def _insert(found: Found) -> i.Intent:
    source, kind = found.text("source").strip(), _cell_type(found)
    if not found["kind"] and source.startswith("# "):
        kind = "markdown"
    if len(source) > 1 and source[0] == source[-1] and source[0] in "`\"'":
        source = source[1:-1]
    return i.InsertCell(source, kind, after=_after(found), run=found["run"] is not None)


def _heading(found: Found) -> i.Intent:
    return i.InsertCell(f"## {unquote(found['title'])}", "markdown", after=_after(found))


def _show_cell(found: Found) -> i.Intent | None:
    return None if found["cell_it"] else i.ReadNotebook(_cell(found))


def _replace(found: Found) -> i.Intent:
    return i.ReplaceInCell(_cell(found) or "last", found.text("old"), found.text("new"))


def _read_file(found: Found) -> i.Intent | None:
    path = unquote(found["path"])
    if re.search(rf"\.{DATA_FILE}$", path, re.I) and not found["raw"]:
        return None  # data files are loaded instead
    return i.ReadFile(path)


def _recall(found: Found) -> i.Intent | None:
    words = [
        word
        for word in re.findall(r"[\w./+-]*\w", found.text("query"))
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

RULES = [
    rule(
        lambda _: i.ExplainError(),
        "[explain|describe|understand|show|what's|what is|what was|what does|what about|what|"
        "diagnose|debug|fix|solve|why|why is|why was] [me] [the|this|that|my|an] "
        "[last|latest|previous|recent] (errors?|exceptions?|tracebacks?|failures?|stack trace) "
        "[mean|means|about|happened|message|is|was|in *]",
        "(why|how come) (did|does|do|is|was) (it|that|this|the (cell|code|plot|run|last cell)) "
        "(fail|failed|failing|crash|break|broken|not work|not working|raise|throw|go wrong) *",
        "what (went|is|has gone|did go) wrong *",
        "what happened",
        "(what's|what is) broken",
        "why (do|did|am) i (get|getting|got) [an|a|this|that|the] (error|exception) *",
        "(it|that|this) (failed|doesn't work|does not work|broke|didn't work)",
    ),
    rule(
        _insert,
        f"{_NEW_CELL} ({_WITH} [:]|:) {{source}} {{run:and run it|and execute it}}",
        f"{_NEW_CELL} [{{run:and run it|and execute it}}] ({_WITH} [:]|:) {{source}}",
    ),
    rule(
        lambda found: i.InsertCell("", _cell_type(found), _after(found)),
        f"(insert|add|create|make) (a|an|another) [new|empty]* [{_KIND}] cell {_PLACE}",
    ),
    rule(
        _heading,
        f"(insert|add|create|put) [a|the] [section] (heading|title|header) {_PLACE} [:] {{title}}",
    ),
    rule(
        lambda _: i.RunCell("all"),
        "(run|rerun|re-run|execute) (all|all [the] cells|everything|every cell|"
        "[the] [whole|entire|full] notebook) [again]",
    ),
    rule(
        lambda found: i.RunCell(_cell(found) or "last"),
        "(run|rerun|re-run|execute|evaluate) {cell:cell}",
    ),
    rule(
        lambda found: i.DeleteCell(_cell(found) or "last"),
        "(delete|remove|drop) {cell:cell}",
    ),
    rule(
        lambda found: i.MoveCell(_cell(found) or "last", _after(found) or "end"),
        "move {cell:cell} to the {end:top|start|beginning|end|bottom}",
        "move {cell:cell} [to] (after|below|behind|under) {place:cell}",
    ),
    rule(
        _replace,
        "(in|within) {cell:cell}, (replace|change|rename) {old:quoted} (with|by|to|into) "
        "{new:quoted}",
        "(replace|change|rename) {old:quoted} (with|by|to|into) {new:quoted} in {cell:cell}",
    ),
    rule(
        lambda found: i.EditCell(_cell(found) or "last", found.text("source")),
        "(edit|change|set|replace) {cell:cell} (to|with|by) [:] {source:quoted}",
    ),
    rule(_show_cell, "(read|show|print|display|what's in|what is in) [me] {cell:cell}"),
    rule(
        lambda _: i.ReadNotebook(),
        "(read|show|outline|summarize|summarise|describe|explain|look at|go through|list|open) "
        "[me] [the|this|my|what is in the] (notebook|cells|outline|cells of the notebook|"
        "notebook's cells) [do|does]",
        "what (is|does|are|is in) (the|this|my) (notebook|cells) [do|about|contain|doing]",
        "what's (in|in the|in this|in my) (notebook|cells)",
        "(what's|what is) in (here|[the|this|my] notebook)",
    ),
    rule(
        lambda found: i.ListFiles(found["path"]),
        "[list|show|ls|dir|what|what's|what are|what is|which|see|are there|are there any] [me] "
        "[all] [the|my] [available] <files> [are|is|do i have|can i load|can i use|exist] "
        "[there|here|available|in here|in (this|the) (folder|directory)|do i have] "
        "[(in|of|under) [the] [folder|directory] {path:folder} [folder|directory]]",
        "(what's|what is) in (this|the|here|my) (folder|directory)",
        "ls [{path:folder}]",
    ),
    rule(
        lambda found: i.SearchFiles(unquote(found["what"])),
        "(search|grep|look) [through|in] [the|all|my] files? for {what}",
        "(find|search|search for|grep|grep for) {what} in [the|all|my] files?",
        "grep [for] {what}",
    ),
    rule(
        _read_file,
        "(read|open|print|cat|view|display|show me what's in|show what's in|what's in|what is in|"
        "show me|show) [the] [{raw:text of|contents of|content of|raw|plain}] [the] [file] "
        "{path:file}",
    ),
    rule(
        _recall,
        "(search|look) [through|in|up in] [the|this|our|my] <record> (for|about) {query}",
        "(find|search|search for|look up) {query} in [the|this|our] <record>",
        "what (was|were) [the|that|my|our] [exact] {query}",
        "what [exact] {what:words} did (i|we|you) {query}",
        "(what|when|where|why|how|which {what}) did (i|we|you) {query}",
        "(remind me|recall|remember|do you remember) [of|about|what] {query}",
        "{query} [that] (i|we|you) (used|ran|said|mentioned|decided|tried|had) "
        "(earlier|before|last time|yesterday)",
    ),
]
