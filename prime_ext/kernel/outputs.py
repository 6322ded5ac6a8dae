"""Kernel messages to notebook outputs, as a front end would show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from prime_ext.kernel.stream_text import MAX_STREAM_CHARS, StreamText

Output = dict[str, Any]

MAX_DISPLAY_BYTES = 64 * 1024 * 1024
"""Bytes of rich outputs kept for one run; what comes later is replaced by a line of text."""

MAX_DISPLAYS = 10_000
"""Displays of one run that are known by their ids: those that were shown last."""

MAX_OPEN_LINE = 10_000
"""Characters of a line that what comes behind the end of its run may still rewrite."""

_FULL = (
    f"\n[… what is printed from here on is left out: {MAX_STREAM_CHARS:,} characters have come "
    "behind the end of this run …]\n"
)
DISPLAYS = frozenset({"display_data", "execute_result", "update_display_data"})
"""Types of the messages that may show something under an id."""


@dataclass(frozen=True)
class OutputChange:
    """What has become of the outputs of a run since they were taken last.

    Parameters
    ----------
    base:
        How many outputs were taken before.
    clear:
        They are to go.
    updates:
        Position among them to ``{data, metadata}``: displays that show something else now.
    ending:
        What the last of them, a stream, ends with: the text of ``outputs[0]`` takes the place of
        that. ``None``: ``outputs[0]`` is an output of its own.
    outputs:
        What is new.
    """

    base: int
    clear: bool
    updates: dict[int, Output]
    ending: str | None
    outputs: list[Output]


@dataclass(frozen=True)
class _OpenStream:
    """The stream that was the last of the outputs taken, as far as it may go on."""

    name: str
    line: str
    column: int


class OutputCollector:
    """Builds the outputs of one run from the messages it publishes, in order.

    Outputs that were taken (`take`) are held no longer. What comes then is a change of them.
    """

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._streams: dict[int, StreamText] = {}
        self._displays: dict[str, list[int]] = {}
        """Positions by display id, counted from the first output of all."""
        self._sizes: dict[str, int] = {}
        self._clear_first = False
        self._bytes = 0
        self._taken = 0
        self._was_cleared = False
        self._updates: dict[int, Output] = {}
        self._open: _OpenStream | None = None
        self._ending: str | None = None
        self._chars_left: int | None = None
        """Characters of text that may still come; ``None`` until outputs were taken."""
        self._is_full = False
        self._new_from: int | None = None
        """Position of the first output that the last change brought, while they may have moved."""

    def add(self, msg_type: str, content: dict[str, Any]) -> bool:
        """Take one IOPub message; return whether the outputs changed."""
        if msg_type == "clear_output":
            if content.get("wait"):
                self._clear_first = True
                return False
            self._clear()
            return True
        # As in JupyterLab: what is shown under an id that is there already replaces that, too.
        changed = msg_type in DISPLAYS and self._update_display(content)
        if msg_type not in ("stream", "display_data", "execute_result", "error"):
            return changed
        if self._clear_first:
            self._clear()
        if msg_type == "stream":
            return self._add_stream(content.get("name", "stdout"), content.get("text", ""))
        if msg_type == "error":
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
        """The outputs so far (nbformat 4), or since they were taken. The list is new, its
        unchanged members are shared."""
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

    def take(self) -> OutputChange | None:
        """What has changed since this was called last; ``None``: nothing.

        After the first call as much text is kept as one stream may hold.
        """
        if not (self._outputs or self._updates or self._was_cleared):
            return None
        outputs = self.outputs
        change = OutputChange(self._taken, self._was_cleared, self._updates, self._ending, outputs)
        chars = sum(len(o["text"]) for o in outputs if o["output_type"] == "stream")
        if self._chars_left is None:
            self._chars_left = MAX_STREAM_CHARS
        else:
            self._chars_left -= max(0, chars - len(self._ending or ""))
        if self._outputs:
            self._open = self._open_stream(self._outputs[-1])
        self._new_from = self._first_held
        self._taken = self._new_from + len(outputs)
        self._outputs, self._streams, self._updates = [], {}, {}
        self._was_cleared, self._ending = False, None
        return change

    def settle(self, count: int) -> None:
        """The notebook shows so many outputs after the change that was taken last: fewer than
        there should be, if somebody has cleared them meanwhile."""
        new_from, self._new_from = self._new_from, None
        shift = count - self._taken
        if new_from is None or shift == 0:
            return

        def moved(position: int) -> int | None:
            if position >= new_from:
                return position + shift
            return position if position < new_from + shift else None

        self._taken = count
        self._displays = {
            display_id: there
            for display_id, positions in self._displays.items()
            if (there := [m for p in positions if (m := moved(p)) is not None])
        }
        self._updates = {
            position: bundle
            for before, bundle in self._updates.items()
            if (position := moved(before)) is not None
        }

    @property
    def _first_held(self) -> int:
        """Position of the first output that is held."""
        return self._taken if self._ending is None else self._taken - 1

    def _open_stream(self, last: Output) -> _OpenStream | None:
        if last["output_type"] != "stream":
            return None
        line, column = self._streams[id(last)].open_line
        if len(line) > MAX_OPEN_LINE:
            line, column = "", 0
        return _OpenStream(last["name"], line, column)

    def _clear(self) -> None:
        self._was_cleared = self._was_cleared or self._taken > 0
        self._outputs.clear()
        self._streams.clear()
        self._displays.clear()
        self._sizes.clear()
        self._updates = {}
        self._clear_first = False
        self._bytes = 0
        self._taken = 0
        self._open = self._ending = self._new_from = None
        if self._chars_left is not None:
            self._chars_left, self._is_full = MAX_STREAM_CHARS, False

    def _add_stream(self, name: str, text: str) -> bool:
        last = self._outputs[-1] if self._outputs else None
        if last is None or last["output_type"] != "stream" or last["name"] != name:
            limit = MAX_STREAM_CHARS if self._chars_left is None else self._chars_left
            if limit <= 0:
                if self._is_full:
                    return False
                self._is_full = True
                text, limit = _FULL, len(_FULL) * 2
            last = {"output_type": "stream", "name": name, "text": ""}
            stream = StreamText(limit)
            if not self._outputs and self._open is not None and self._open.name == name:
                self._ending = self._open.line
                stream = StreamText(limit, line=self._open.line, column=self._open.column)
            self._outputs.append(last)
            self._streams[id(last)] = stream
        self._streams[id(last)].write(text)
        return True

    def _add_display(self, output_type: str, content: dict[str, Any]) -> None:
        display_id = (content.get("transient") or {}).get("display_id")
        output: Output = {
            "output_type": output_type,
            "data": self._within_budget(content.get("data") or {}, display_id),
            "metadata": content.get("metadata") or {},
        }
        if output_type == "execute_result":
            output["execution_count"] = content.get("execution_count")
        self._outputs.append(output)
        if display_id:
            position = self._first_held + len(self._outputs) - 1
            self._displays.setdefault(display_id, []).append(position)
            if len(self._displays) > MAX_DISPLAYS:
                oldest = next(iter(self._displays))
                del self._displays[oldest]
                self._sizes.pop(oldest, None)

    def _update_display(self, content: dict[str, Any]) -> bool:
        display_id = (content.get("transient") or {}).get("display_id") or ""
        positions = self._displays.get(display_id, [])
        if not positions:
            return False
        data = self._within_budget(content.get("data") or {}, display_id)
        metadata = content.get("metadata") or {}
        for position in positions:
            index = position - self._first_held
            if index < 0:
                self._updates[position] = {"data": data, "metadata": metadata}
            else:
                # Members handed out earlier stay as they were, so the old one is not changed.
                self._outputs[index] = {
                    **self._outputs[index],
                    "data": data,
                    "metadata": metadata,
                }
        return True

    def _within_budget(self, data: dict[str, Any], display_id: str | None) -> dict[str, Any]:
        size = sum(
            len(value) if isinstance(value, str) else len(json.dumps(value, default=str))
            for value in data.values()
        )
        # What is shown in the place of something else takes no more than its own.
        before = self._sizes.get(display_id, 0) if display_id else 0
        if self._bytes - before + size <= MAX_DISPLAY_BYTES:
            self._bytes += size - before
            if display_id:
                self._sizes[display_id] = size
            return data
        kinds = ", ".join(data) or "empty"
        return {
            "text/plain": f"[{kinds}, {size:,} bytes, left out: this run has already shown "
            f"{MAX_DISPLAY_BYTES // 1024**2} MiB]"
        }
