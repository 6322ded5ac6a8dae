"""What a run puts out behind its end, from threads, tasks and callbacks it has left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prime_ext.kernel.outputs import OutputChange, OutputCollector


class LateOutputs:
    """What comes for a run that has ended, and what later runs make of its displays.

    Parameters
    ----------
    collector:
        Of the run, whose outputs up to here have been handed on.
    stop:
        Has nothing more delivered.
    """

    def __init__(self, collector: OutputCollector, stop: Callable[[], None]) -> None:
        self.on_news: Callable[[], None] = lambda: None
        """Called when there is something to take, and at the end."""
        self.is_over = False
        """Nothing more will come: the kernel's process is gone."""
        self.stop = stop
        self._collector = collector
        self._collector.take()

    def hear(self, msg_type: str, content: dict[str, Any]) -> None:
        """Take one IOPub message."""
        if self._collector.add(msg_type, content):
            self.on_news()

    def end(self) -> None:
        """The process is gone."""
        self.is_over = True
        self.on_news()

    def take(self) -> OutputChange | None:
        """What has come since this was called last; ``None``: nothing."""
        return self._collector.take()

    def settle(self, count: int) -> None:
        """The notebook shows so many outputs after the change that was taken last."""
        self._collector.settle(count)
