"""State of one notebook that the documents of all sessions share."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prime_ext.notebook.operation_log import Recorder
from prime_ext.notebook.seen import SeenCells

if TYPE_CHECKING:
    from prime_ext.notebook.late_mirror import LateMirror


@dataclass
class SharedNotebook:
    """Shared state of all documents with the same path. ``path`` follows renames."""

    path: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    seen: weakref.WeakKeyDictionary[Recorder, SeenCells] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    ran_in: dict[str, str | None] = field(default_factory=dict)
    """Cell id → turn that ran it last. The outputs from before that turn are already kept."""
    running: dict[str, SeenCells] = field(default_factory=dict)
    """Cell id → cells seen by the session that is running it."""
    late: dict[str, LateMirror] = field(default_factory=dict)
    """Cell id → mirror of the late outputs of its last run, if the agent made that run."""
    _runs: weakref.WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=weakref.WeakValueDictionary
    )

    def run_lock(self, cell_id: str) -> asyncio.Lock:
        """Return the lock that is held during a run of the cell, which shows one run at a time."""
        return self._runs.setdefault(cell_id, asyncio.Lock())

    def is_running(self, cell_id: str) -> bool:
        """Whether a session is running the cell or about to."""
        return self.run_lock(cell_id).locked()

    def supersede(self, cell_id: str) -> None:
        """Stop late outputs of the cell's last run, because the cell no longer shows that run."""
        late = self.late.get(cell_id)
        if late is not None:
            late.stop()
