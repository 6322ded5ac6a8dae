"""The text of a stream as a terminal shows it."""

from __future__ import annotations

import re
from collections import deque

MAX_STREAM_CHARS = 16_000_000
"""Characters kept of one stream output: half from the head and half from the tail. An endless loop
that prints must not fill the server's memory."""

_CONTROL = re.compile(r"([\n\r\b])")


class StreamText:
    """Text of a stream as a terminal shows it: ``\\r`` and ``\\b`` move back and overwrite."""

    def __init__(self, limit: int = MAX_STREAM_CHARS, *, line: str = "", column: int = 0) -> None:
        """Begin with the unfinished ``line`` and the cursor at ``column``."""
        self._half = limit // 2
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self.left_out = 0
        """Number of characters dropped from the middle."""
        self._line = line
        self._column = column

    @property
    def open_line(self) -> tuple[str, int]:
        """The unfinished last line, and the column of the cursor in it."""
        return self._line, self._column

    def write(self, text: str) -> None:
        if self._column == len(self._line) and "\r" not in text and "\b" not in text:
            complete, newline, rest = text.rpartition("\n")
            if newline:
                self._keep(self._line + complete + newline)
                self._line = rest
            else:
                self._line += rest
            self._column = len(self._line)
        else:
            for part in _CONTROL.split(text):
                self._write_part(part)
        if len(self._line) > self._half:
            self._keep(self._line)
            self._line, self._column = "", 0

    def _write_part(self, part: str) -> None:
        if part == "\n":
            self._keep(self._line + "\n")
            self._line, self._column = "", 0
        elif part == "\r":
            self._column = 0
        elif part == "\b":
            self._column = max(0, self._column - 1)
        elif part:
            end = self._column + len(part)
            self._line = self._line[: self._column] + part + self._line[end:]
            self._column = end

    def _keep(self, text: str) -> None:
        room = self._half - self._head_chars
        if room > 0:
            self._head.append(text[:room])
            self._head_chars += len(self._head[-1])
            text = text[room:]
        if not text:
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars > self._half:
            first = self._tail.popleft()
            surplus = self._tail_chars - self._half
            if len(first) > surplus:
                self._tail.appendleft(first[surplus:])
                first = first[:surplus]
            self._tail_chars -= len(first)
            self.left_out += len(first)

    def __str__(self) -> str:
        gap = f"\n[… {self.left_out:,} characters left out …]\n" if self.left_out else ""
        return "".join((*self._head, gap, *self._tail, self._line))
