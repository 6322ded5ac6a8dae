"""Parser for tracebacks: type, message, location, and the name that the error is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prime_ext.clean_text import without_escapes

_LAST_LINE = re.compile(
    r"^\s*(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|"
    r"NotFound|Fault|Timeout|Break)|[A-Z]\w*Error)\s*(?::\s?(?P<message>.*))?$"
)
_CELL = re.compile(r"Cell In ?\[(?P<count>\d+)\],? ?line (?P<line>\d+)")
_FILE = re.compile(r"^\s*File [\"']?(?P<path>.+?)[\"']?(?::|, line )(?P<line>\d+)", re.M)
_ARROW = re.compile(r"^-+>\s*(?P<line>\d+)\s?(?P<code>.*)$")


@dataclass(frozen=True)
class Traceback:
    """The contents of a traceback."""

    type: str
    message: str
    cell: int | None = None
    """Execution count of the cell, ``In[n]``."""
    line: int | None = None
    """Line number in that cell, from 1."""
    code: str = ""
    """Source of that line, if the traceback shows it."""
    raised_in: str = ""
    """File and line where the error was raised, if outside of the cell."""

    @property
    def subject(self) -> str:
        """The name, key, attribute, module or path that the error is about; empty if none."""
        patterns = {
            "NameError": r"name '([^']+)' is not defined",
            "UnboundLocalError": r"variable '([^']+)'",
            "AttributeError": r"has no attribute '([^']+)'",
            "ModuleNotFoundError": r"No module named '([^']+)'",
            "ImportError": r"cannot import name '([^']+)'",
            "FileNotFoundError": r"'([^']+)'\s*$",
        }
        name = self.type.rsplit(".", 1)[-1]
        if name == "KeyError":
            return self.message.strip().strip("'\"")
        if name not in patterns:
            return ""
        found = re.search(patterns[name], self.message)
        return found[1] if found else ""

    @property
    def owner(self) -> str:
        """Type or module that lacks the attribute, in an ``AttributeError``."""
        found = re.search(r"(?:'([\w.]+)' object|module '([\w.]+)') has no attribute", self.message)
        return (found[1] or found[2]) if found else ""


def parse(text: str) -> Traceback | None:
    """Parse the last traceback in ``text``, IPython's or Python's; ``None`` without one."""
    lines = without_escapes(text).splitlines()
    end = next(
        (n for n in range(len(lines) - 1, -1, -1) if _LAST_LINE.match(lines[n])
         and not re.search(r"Traceback \(most recent call last\)\s*$", lines[n])),
        None,
    )  # fmt: skip
    if end is None:
        return None
    last = _LAST_LINE.match(lines[end])
    assert last is not None
    # The text may contain several tracebacks; the last one counts.
    begin = 0
    for n in range(end - 1, -1, -1):
        if "Traceback (most recent call last)" in lines[n]:
            begin = n
            break
    body = lines[begin:end]
    message = [last["message"] or ""]
    message += [line for line in lines[end + 1 : end + 4] if line.strip() and ":" not in line[:2]]
    cell, line, code = _place(body)
    return Traceback(
        last["type"],
        message[0].strip() or (message[1].strip() if len(message) > 1 else ""),
        cell,
        line,
        code or _syntax_code(body),
        _raised_in(body),
    )


def _place(body: list[str]) -> tuple[int | None, int | None, str]:
    """Return execution count, line and code of the innermost frame that is in a cell."""
    for start in range(len(body) - 1, -1, -1):
        cell = _CELL.search(body[start])
        if cell is None:
            continue
        number = int(cell["line"])
        for row in body[start + 1 :]:
            arrow = _ARROW.match(row)
            if arrow is not None and int(arrow["line"]) == number:
                return int(cell["count"]), number, arrow["code"].strip()
            if _FILE.match(row) or _CELL.search(row):
                break
        return int(cell["count"]), number, ""
    for start in range(len(body) - 1, -1, -1):
        file = _FILE.match(body[start])
        if file is not None and file["path"] in ("<stdin>", "<string>"):
            return None, int(file["line"]), ""
    return None, None, ""


def _syntax_code(body: list[str]) -> str:
    """Return the line above the caret of a ``SyntaxError``."""
    for n in range(len(body) - 1, 0, -1):
        if re.fullmatch(r"\s*\^+\s*", body[n]):
            return body[n - 1].strip()
    return ""


def _raised_in(body: list[str]) -> str:
    for row in reversed(body):
        if _CELL.search(row):
            return ""
        file = _FILE.match(row)
        if file is not None and not file["path"].startswith("<"):
            return f"{file['path']}:{file['line']}"
    return ""
