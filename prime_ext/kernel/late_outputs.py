"""Outputs after the end of a run, from threads, tasks and callbacks that it started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prime_ext.kernel.outputs import OutputChange, OutputCollector


class LateOutputs:
    """Outputs that arrive for a run after its end, and updates of its displays by later runs.

    Parameters
    ----------
    collector:
        The run's collector. Its outputs up to now have been delivered and are discarded here.
    stop:
        Stops the delivery of messages.
    """

    def __init__(self, collector: OutputCollector, stop: Callable[[], None]) -> None:
        self.on_news: Callable[[], None] = lambda: None
        """Called when `take` has something to return, and once when the process is gone."""
        self.is_over = False
        """Whether the kernel's process is gone, so that nothing more will arrive."""
        self.stop = stop
        self._collector = collector
        self._collector.take()

    def hear(self, msg_type: str, content: dict[str, Any]) -> None:
        """Process one IOPub message."""
        if self._collector.add(msg_type, content):
            self.on_news()

    def end(self) -> None:
        """Note that the process is gone."""
        self.is_over = True
        self.on_news()

    def take(self) -> OutputChange | None:
        """Return the changes since the last call; ``None`` if there are none."""
        return self._collector.take()

    def settle(self, count: int) -> None:
        """Report how many outputs the notebook shows after the last change was applied."""
        self._collector.settle(count)
