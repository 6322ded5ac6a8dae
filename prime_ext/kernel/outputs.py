"""Convert IOPub messages to notebook outputs (nbformat 4), as a front end would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from prime_ext.kernel.stream_text import MAX_STREAM_CHARS, StreamText

Output = dict[str, Any]

MAX_DISPLAY_BYTES = 64 * 1024 * 1024
"""Bytes of rich outputs kept for one run. Beyond it, a line of text replaces each output."""

MAX_DISPLAYS = 10_000
"""Display ids remembered for one run; beyond it, the oldest are forgotten."""

MAX_OPEN_LINE = 10_000
"""Longest unfinished line that text after the end of a run may still overwrite, in characters."""

_FULL = (
    f"\n[… what is printed from here on is left out: {MAX_STREAM_CHARS:,} characters have come "
    "behind the end of this run …]\n"
)
DISPLAYS = frozenset({"display_data", "execute_result", "update_display_data"})
"""Message types that may carry a display id."""


@dataclass(frozen=True)
class OutputChange:
    """Changes to the outputs of a run since they were last taken.

    Parameters
    ----------
    base:
        Number of outputs taken before.
    clear:
        Whether those are to be removed.
    updates:
        Position of an earlier output → ``{data, metadata}``: displays with new content.
    ending:
        The text at the end of the last earlier output, a stream, that the text of ``outputs[0]``
        replaces. ``None`` if ``outputs[0]`` is a separate output.
    outputs:
        New outputs.
    """

    base: int
    clear: bool
    updates: dict[int, Output]
    ending: str | None
    outputs: list[Output]


@dataclass(frozen=True)
class _OpenStream:
    """The unfinished line of the last output taken, if that is a stream that may continue."""

    name: str
    line: str
    column: int


class OutputCollector:
    """Builds the outputs of one run from its IOPub messages, in order.

    Outputs that were taken (see `take`) are no longer held; later messages are then collected as
    changes to them.
    """

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._streams: dict[int, StreamText] = {}
        self._displays: dict[str, list[int]] = {}
        """Display id → positions, counted from the first output of the run."""
        self._sizes: dict[str, int] = {}
        self._clear_first = False
        self._bytes = 0
        self._taken = 0
        self._was_cleared = False
        self._updates: dict[int, Output] = {}
        self._open: _OpenStream | None = None
        self._ending: str | None = None
        self._chars_left: int | None = None
        """Characters of stream text still accepted; ``None`` until outputs are first taken."""
        self._is_full = False
        self._new_from: int | None = None
        """Position of the first new output of the last change, until `settle` is called."""

    def add(self, msg_type: str, content: dict[str, Any]) -> bool:
        """Process one IOPub message; return whether the outputs changed."""
        if msg_type == "clear_output":
            if content.get("wait"):
                self._clear_first = True
                return False
            self._clear()
            return True
        # As in JupyterLab, any display with a known id also updates the earlier ones.
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
        """Add the pages in an execute reply's payload, made by ``?`` and ``??``, as outputs."""
        pages = [p for p in payload if p.get("source") == "page" and p.get("data")]
        for page in pages:
            self._add_display("display_data", {"data": page["data"], "metadata": {}})
        return bool(pages)

    @property
    def outputs(self) -> list[Output]:
        """The outputs so far (nbformat 4), or since they were last taken.

        The list is new on each call; its unchanged members are shared.
        """
        return [
            {**output, "text": str(self._streams[id(output)])}
            if output["output_type"] == "stream"
            else output
            for output in self._outputs
        ]

    @property
    def left_out(self) -> int:
        """Number of characters of stream text that were discarded for want of space."""
        return sum(stream.left_out for stream in self._streams.values())

    def take(self) -> OutputChange | None:
        """Return the changes since the last call; ``None`` if there are none.

        After the first call, at most `MAX_STREAM_CHARS` more characters of stream text are
        accepted.
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
        """Report how many outputs the notebook shows after the last change was applied.

        There are fewer than expected if somebody has cleared outputs meanwhile; positions are
        adjusted accordingly.
        """
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
                # Outputs returned earlier are shared, so replace the member instead of changing it.
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
        # An update only counts with the difference to the content that it replaces.
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
