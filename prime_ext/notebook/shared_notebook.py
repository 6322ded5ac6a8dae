"""What the documents of one notebook share, whichever session they are for."""

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
    """What all documents of one path share. ``path`` follows renames."""

    path: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    seen: weakref.WeakKeyDictionary[Recorder, SeenCells] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    ran_in: dict[str, str | None] = field(default_factory=dict)
    """Cell → turn that ran it last; what it showed before that turn is kept."""
    running: dict[str, SeenCells] = field(default_factory=dict)
    """Cell → what the session that runs it knows of the cells."""
    late: dict[str, LateMirror] = field(default_factory=dict)
    """Cell → what its last run puts out behind its end, if the agent made that run."""
    _runs: weakref.WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=weakref.WeakValueDictionary
    )

    def run_lock(self, cell_id: str) -> asyncio.Lock:
        """Held during a run of the cell: it can show only one at a time."""
        return self._runs.setdefault(cell_id, asyncio.Lock())

    def is_running(self, cell_id: str) -> bool:
        """Whether a session runs the cell, or waits for that."""
        return self.run_lock(cell_id).locked()

    def supersede(self, cell_id: str) -> None:
        """What the cell shows is no longer that of its last run: nothing more of that gets in."""
        late = self.late.get(cell_id)
        if late is not None:
            late.stop()
