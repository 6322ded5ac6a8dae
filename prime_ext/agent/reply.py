"""A reply while it streams: published as it arrives, and kept in case it is cut off."""

from __future__ import annotations

import uuid
from typing import Any

from prime_ext.models.model import (
    BlockStart,
    ModelEvent,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)
from prime_ext.session.session import Session


class StreamedReply:
    """Publish the events of one request as frames, and collect the text that has arrived.

    Parameters
    ----------
    session:
        Session to whose subscribers the frames are published.
    turn:
        Id of the turn.
    """

    def __init__(self, session: Session, turn: str) -> None:
        self._session = session
        self._turn = turn
        self.message = uuid.uuid4().hex
        self._blocks: dict[int, dict[str, Any]] = {}

    def feed(self, event: ModelEvent) -> None:
        """Process one event of the stream."""
        if isinstance(event, BlockStart):
            self._blocks[event.index] = dict(event.block)
            self._delta(event.index, "start", start=event.block)
        elif isinstance(event, TextDelta):
            self._extend(event.index, "text", event.text)
            self._delta(event.index, "text", text=event.text)
        elif isinstance(event, ThinkingDelta):
            self._delta(event.index, "thinking", text=event.text)
        elif isinstance(event, ToolInputDelta):
            self._delta(event.index, "input", text=event.partial_json)
        elif isinstance(event, Retry):
            self._blocks.clear()
            self._session.publish(
                {"type": "delta_reset", "turn": self._turn, "message": self.message}
            )
            self._session.publish(
                {
                    "type": "progress",
                    "what": "retry",
                    "turn": self._turn,
                    "message": event.reason,
                    "attempt": event.attempt,
                    "max_attempts": event.max_attempts,
                    "delay_s": event.delay_s,
                }
            )

    def arrived(self) -> list[dict[str, Any]]:
        """Return the text blocks that have arrived so far.

        Thinking without its signature and tool calls with incomplete input are left out, because
        they cannot be sent back to the API.
        """
        return [
            {"type": "text", "text": block["text"]}
            for _, block in sorted(self._blocks.items())
            if block["type"] == "text" and block["text"].strip()
        ]

    def discard(self) -> None:
        """Tell subscribers to discard what was streamed."""
        self._session.publish({"type": "delta_reset", "turn": self._turn, "message": self.message})

    def _extend(self, index: int, key: str, text: str) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        block[key] = block.get(key, "") + text

    def _delta(self, index: int, block: str, **more: Any) -> None:
        self._session.publish(
            {
                "type": "delta",
                "turn": self._turn,
                "message": self.message,
                "index": index,
                "block": block,
                **more,
            }
        )
