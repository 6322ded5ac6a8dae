"""The runs of one kernel process whose outputs are shown somewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prime_ext.kernel.late_outputs import LateOutputs
from prime_ext.kernel.outputs import DISPLAYS, OutputCollector


class FollowedRuns:
    """Hands what is published to the runs that it changes.

    That is the run that it came from and, for a display, every run that shows one of the same id:
    any code may update it, whoever runs it.
    """

    def __init__(self) -> None:
        self._going: dict[str, Callable[[str, dict[str, Any]], object]] = {}
        self._ended: dict[str, LateOutputs] = {}

    def begin(self, msg_id: str, hear: Callable[[str, dict[str, Any]], object]) -> None:
        """A run is on its way; ``hear`` is given what others make of its displays."""
        self._going[msg_id] = hear

    def leave(self, msg_id: str) -> None:
        """Nobody wants to know any more what comes for this run."""
        self._going.pop(msg_id, None)
        self._ended.pop(msg_id, None)

    def end(self, msg_id: str, collector: OutputCollector) -> LateOutputs:
        """The run has ended, and is followed further."""
        self._going.pop(msg_id, None)
        late = LateOutputs(collector, lambda: self.leave(msg_id))
        self._ended[msg_id] = late
        return late

    def hear(self, msg_id: str, msg_type: str, content: dict[str, Any]) -> bool:
        """Hand on what the run ``msg_id`` has published; return whether it goes to an ended run."""
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
        """The process is gone, and with it all that could still put something out."""
        self._going.clear()
        ended, self._ended = self._ended, {}
        for late in ended.values():
            late.end()
