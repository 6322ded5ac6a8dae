"""What a run prints: the agent's text on the output, what it does on the error stream."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from prime_ext.errors import sentences
from prime_ext.headless.outcome import Outcome

if TYPE_CHECKING:
    from prime_ext.session.records import Block, RunEnd, ToolResult

DETAIL_LINES = 60


class Report:
    """Prints as things happen.

    On a terminal text appears as it is written. Elsewhere a message is printed when it is whole,
    since what a broken connection has cut off is written again.

    Parameters
    ----------
    reply:
        Print the agent's text.
    """

    def __init__(self, *, reply: bool) -> None:
        self._reply = reply
        self._streams = reply and sys.stdout.isatty()
        self._line_open = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")

    def delta(self, text: str) -> None:
        """A piece of the message that is being written."""
        if self._streams:
            self._write(visible(text))

    def message(self, text: str) -> None:
        """A message is whole."""
        if self._reply and not self._streams and text.strip():
            self._write(text)
        self._end_line()

    def broke_off(self) -> None:
        """What was written of the message is void."""
        if self._line_open:
            self._end_line()
            self.line("  (broken off; it is written again)")

    def started(self, summary: str) -> None:
        """A tool call was begun; said only where somebody waits for it."""
        if sys.stderr.isatty():
            self.line(f"… {_one_line(summary)}")

    def run_end(self, summary: str, end: RunEnd) -> None:
        """What a call ran has ended, which the model had no more to say of."""
        self.tool(summary, end)
        lines = text_of(end.content).splitlines()
        for line in lines[:DETAIL_LINES]:
            self.line(f"  {line}")
        if len(lines) > DETAIL_LINES:
            self.line(f"  (… {len(lines) - DETAIL_LINES} more lines)")

    def tool(self, summary: str, result: ToolResult | RunEnd) -> None:
        """A tool call has ended."""
        mark = "✗" if result.is_error else "✓"
        self.line(f"{mark} {_one_line(summary)} ({(result.duration_ms or 0) / 1000:.1f} s)")
        if result.is_error:
            self.line(f"  {_last_line(text_of(result.content))}")

    def question(self, summary: str, detail: str | None) -> None:
        """What the person is about to decide."""
        self.line(f"? {_one_line(summary)}")
        lines = (detail or "").splitlines()
        for line in lines[:DETAIL_LINES]:
            self.line(f"  {line}")
        if len(lines) > DETAIL_LINES:
            self.line(f"  (… {len(lines) - DETAIL_LINES} more lines)")

    def failure(self, message: str, hint: str) -> None:
        """What went wrong, and what to do."""
        self.line(sentences(message, hint))

    def line(self, text: str) -> None:
        """A line on the error stream."""
        self._end_line()
        sys.stderr.write(f"{visible(text)}\n")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:  # `| head`: its reader has left, the task goes on
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self._line_open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._line_open:
            self._write("\n")


# Controls but tab and line feed, and what turns the direction of text: each can make a terminal
# show something else than what is about to be run.
_DECEIVING = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (
        *(code for code in range(0x20) if chr(code) not in "\t\n"),
        *range(0x7F, 0xA0),
        *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    )
}


def visible(text: str) -> str:
    """``text`` with its control characters written out, so that a terminal does not obey them."""
    return text.translate(_DECEIVING)


def text_of(content: list[Block]) -> str:
    """The text in blocks."""
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def end_of(outcome: Outcome) -> str:
    """The last line: how it ended and what it cost."""
    parts = [outcome.status.name.lower().replace("_", " ")]
    if outcome.requests:
        parts.append(f"{outcome.requests} request{'s' if outcome.requests > 1 else ''}")
    if outcome.cost_usd is not None:
        parts.append(f"about ${outcome.cost_usd:.2f}")
    if outcome.session:
        parts.append(f"session {outcome.session}")
    return ", ".join(parts)


def _last_line(text: str) -> str:
    """Of an error the end says most: a traceback ends with its message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "failed"
    return last if len(last) <= 200 else last[:199] + "…"
