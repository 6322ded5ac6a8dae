"""The executions of one kernel process whose outputs are still followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prime_ext.kernel.late_outputs import LateOutputs
from prime_ext.kernel.outputs import DISPLAYS, OutputCollector


class FollowedRuns:
    """Dispatches IOPub messages to the runs whose outputs they change.

    Those are the run that published the message and, for a message with a display id, every run
    that shows a display with this id: any code may update a display, no matter which client ran it.
    """

    def __init__(self) -> None:
        self._going: dict[str, Callable[[str, dict[str, Any]], object]] = {}
        self._ended: dict[str, LateOutputs] = {}

    def begin(self, msg_id: str, hear: Callable[[str, dict[str, Any]], object]) -> None:
        """Add a run that was sent. ``hear`` receives updates of its displays by other runs."""
        self._going[msg_id] = hear

    def leave(self, msg_id: str) -> None:
        """Stop following a run."""
        self._going.pop(msg_id, None)
        self._ended.pop(msg_id, None)

    def end(self, msg_id: str, collector: OutputCollector) -> LateOutputs:
        """Mark a run as ended and continue to follow it, through the returned `LateOutputs`."""
        self._going.pop(msg_id, None)
        late = LateOutputs(collector, lambda: self.leave(msg_id))
        self._ended[msg_id] = late
        return late

    def hear(self, msg_id: str, msg_type: str, content: dict[str, Any]) -> bool:
        """Dispatch a message of the run ``msg_id``; return whether that run had ended before."""
        if msg_type in DISPLAYS and (content.get("transient") or {}).get("display_id"):
            for other, hear in list(self._going.items()):
                if other != msg_id:
                    hear("update_display_data", content)
            for other, late in list(self._ended.items()):
                if other != msg_id:
                    late.hear("update_display_data", content)
        ended = self._ended.get(msg_id)
        if ended is None:
            return False
        ended.hear(msg_type, content)
        return True

    def lose(self) -> None:
        """End all runs: the process is gone and can publish nothing more."""
        self._going.clear()
        ended, self._ended = self._ended, {}
        for late in ended.values():
            late.end()
