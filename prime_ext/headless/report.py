"""Output of a run: the agent's text on standard output, its actions on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from prime_ext.errors import sentences
from prime_ext.headless.outcome import Outcome

if TYPE_CHECKING:
    from prime_ext.session.records import Block, RunEnd, ToolResult

DETAIL_LINES = 60


class Report:
    """Prints the progress of a run.

    On a terminal, text appears as it is streamed. Elsewhere a message is printed once it is
    complete, since a message that a broken connection has cut off is generated again.

    Parameters
    ----------
    reply:
        Whether to print the agent's text.
    """

    def __init__(self, *, reply: bool) -> None:
        self._reply = reply
        self._streams = reply and sys.stdout.isatty()
        self._line_open = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")

    def delta(self, text: str) -> None:
        """Print a piece of the message that is being streamed."""
        if self._streams:
            self._write(visible(text))

    def message(self, text: str) -> None:
        """Print a complete message, unless it was streamed."""
        if self._reply and not self._streams and text.strip():
            self._write(text)
        self._end_line()

    def broke_off(self) -> None:
        """Say that the streamed part of the message is void."""
        if self._line_open:
            self._end_line()
            self.line("  (cut off; the reply starts over)")

    def started(self, summary: str) -> None:
        """Say that a tool call has begun, if standard error is a terminal."""
        if sys.stderr.isatty():
            self.line(f"… {_one_line(summary)}")

    def run_end(self, summary: str, end: RunEnd) -> None:
        """Print the result of code that went on after its tool call had been answered."""
        self.tool(summary, end)
        lines = text_of(end.content).splitlines()
        for line in lines[:DETAIL_LINES]:
            self.line(f"  {line}")
        if len(lines) > DETAIL_LINES:
            self.line(f"  (… {len(lines) - DETAIL_LINES} more lines)")

    def tool(self, summary: str, result: ToolResult | RunEnd) -> None:
        """Say that a tool call has ended."""
        mark = "✗" if result.is_error else "✓"
        self.line(f"{mark} {_one_line(summary)} ({(result.duration_ms or 0) / 1000:.1f} s)")
        if result.is_error:
            self.line(f"  {_last_line(text_of(result.content))}")

    def question(self, summary: str, detail: str | None) -> None:
        """Print what the person has to decide."""
        self.line(f"? {_one_line(summary)}")
        lines = (detail or "").splitlines()
        for line in lines[:DETAIL_LINES]:
            self.line(f"  {line}")
        if len(lines) > DETAIL_LINES:
            self.line(f"  (… {len(lines) - DETAIL_LINES} more lines)")

    def failure(self, message: str, hint: str) -> None:
        """Print an error and its hint."""
        self.line(sentences(message, hint))

    def line(self, text: str) -> None:
        """Print a line on standard error."""
        self._end_line()
        _write_to(sys.stderr, f"{visible(text)}\n")

    def _write(self, text: str) -> None:
        _write_to(sys.stdout, text)
        self._line_open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._line_open:
            self._write("\n")


def _write_to(stream: TextIO, text: str) -> None:
    """Write to a standard stream. If nobody reads it any more, the run goes on without it.

    The reader of a pipe has exited, as in ``| head``, or the terminal was closed.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# Control characters except tab and line feed, line separators and bidirectional controls. Each
# could make a terminal show something else than the code that is about to run.
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
    """Return ``text`` with its control characters escaped, so that a terminal ignores them."""
    return text.translate(_DECEIVING)


def text_of(content: list[Block]) -> str:
    """Return the text of all text blocks."""
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def end_of(outcome: Outcome) -> str:
    """Return the last line of the report: how the run ended and what it cost."""
    parts = [outcome.status.name.lower().replace("_", " ")]
    if outcome.requests:
        parts.append(f"{outcome.requests} request{'s' if outcome.requests > 1 else ''}")
    if outcome.cost_usd is not None:
        parts.append(f"about ${outcome.cost_usd:.2f}")
    if outcome.session:
        parts.append(f"session {outcome.session}")
    return ", ".join(parts)


def _last_line(text: str) -> str:
    """Return the last line of an error; a traceback ends with the message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "failed"
    return last if len(last) <= 200 else last[:199] + "…"
