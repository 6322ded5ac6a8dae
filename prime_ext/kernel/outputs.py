"""Kernel messages to notebook outputs, as a front end would show them."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Any

Output = dict[str, Any]

MAX_STREAM_CHARS = 16_000_000
"""Characters of one stream output kept, half of them from the head and half from the tail. A
loop that prints without end must not fill the server's memory."""

MAX_DISPLAY_BYTES = 64 * 1024 * 1024
"""Bytes of rich outputs kept for one run; what comes later is replaced by a line of text."""

_CONTROL = re.compile(r"([\n\r\b])")


class StreamText:
    """Text of a stream as a terminal shows it: ``\\r`` and ``\\b`` move back and overwrite."""

    def __init__(self, limit: int = MAX_STREAM_CHARS) -> None:
        self._half = limit // 2
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self.left_out = 0
        """Characters from its middle that are gone."""
        self._line = ""
        self._column = 0

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


class OutputCollector:
    """Builds the outputs of one run from the messages it publishes, in order."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._streams: dict[int, StreamText] = {}
        self._displays: dict[str, list[Output]] = {}
        self._clear_first = False
        self._bytes = 0

    def add(self, msg_type: str, content: dict[str, Any]) -> bool:
        """Take one IOPub message; return whether the outputs changed."""
        if msg_type == "clear_output":
            if content.get("wait"):
                self._clear_first = True
                return False
            self._clear()
            return True
        if msg_type == "update_display_data":
            return self._update_display(content)
        if msg_type not in ("stream", "display_data", "execute_result", "error"):
            return False
        if self._clear_first:
            self._clear()
        if msg_type == "stream":
            self._add_stream(content.get("name", "stdout"), content.get("text", ""))
        elif msg_type == "error":
            self._outputs.append(
                {
                    "output_type": "error",
                    "ename": str(content.get("ename", "")),
                    "evalue": str(content.get("evalue", "")),
                    "traceback": list(content.get("traceback") or []),
                }
            )
        else:
            self._add_display(msg_type, content)
        return True

    def add_payload(self, payload: list[dict[str, Any]]) -> bool:
        """Show what ``?`` and ``??`` send to a pager as an output of the run."""
        pages = [p for p in payload if p.get("source") == "page" and p.get("data")]
        for page in pages:
            self._add_display("display_data", {"data": page["data"], "metadata": {}})
        return bool(pages)

    @property
    def outputs(self) -> list[Output]:
        """The outputs so far (nbformat 4). The list is new, its unchanged members are shared."""
        return [
            {**output, "text": str(self._streams[id(output)])}
            if output["output_type"] == "stream"
            else output
            for output in self._outputs
        ]

    @property
    def left_out(self) -> int:
        """Characters of text that the outputs lack: nothing holds them any more."""
        return sum(stream.left_out for stream in self._streams.values())

    def _clear(self) -> None:
        self._outputs.clear()
        self._streams.clear()
        self._displays.clear()
        self._clear_first = False
        self._bytes = 0

    def _add_stream(self, name: str, text: str) -> None:
        last = self._outputs[-1] if self._outputs else None
        if last is None or last["output_type"] != "stream" or last["name"] != name:
            last = {"output_type": "stream", "name": name, "text": ""}
            self._outputs.append(last)
            self._streams[id(last)] = StreamText()
        self._streams[id(last)].write(text)

    def _add_display(self, output_type: str, content: dict[str, Any]) -> None:
        output: Output = {
            "output_type": output_type,
            "data": self._within_budget(content.get("data") or {}),
            "metadata": content.get("metadata") or {},
        }
        if output_type == "execute_result":
            output["execution_count"] = content.get("execution_count")
        self._outputs.append(output)
        display_id = (content.get("transient") or {}).get("display_id")
        if display_id:
            self._displays.setdefault(display_id, []).append(output)

    def _update_display(self, content: dict[str, Any]) -> bool:
        display_id = (content.get("transient") or {}).get("display_id") or ""
        stale = self._displays.get(display_id, [])
        if not stale:
            return False
        data = self._within_budget(content.get("data") or {})
        metadata = content.get("metadata") or {}
        fresh = [{**output, "data": data, "metadata": metadata} for output in stale]
        for old, new in zip(stale, fresh, strict=True):
            # Members handed out earlier stay as they were, so the old one is not changed.
            index = next(i for i, output in enumerate(self._outputs) if output is old)
            self._outputs[index] = new
        self._displays[display_id] = fresh
        return True

    def _within_budget(self, data: dict[str, Any]) -> dict[str, Any]:
        size = sum(
            len(value) if isinstance(value, str) else len(json.dumps(value, default=str))
            for value in data.values()
        )
        self._bytes += size
        if self._bytes <= MAX_DISPLAY_BYTES:
            return data
        self._bytes -= size
        kinds = ", ".join(data) or "empty"
        return {
            "text/plain": f"[{kinds}, {size:,} bytes, left out: this run has already shown "
            f"{MAX_DISPLAY_BYTES // 1024**2} MiB]"
        }
