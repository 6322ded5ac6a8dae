"""The time budget for pickling a namespace."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from .deadline import DeadlineExceeded


class TotalExceeded(DeadlineExceeded):
    """The time for all variables was used up before this one."""


@dataclass
class Budget:
    """Seconds that pickling may take: for one variable, and for all of them."""

    per_root: float = 5.0
    total: float = 30.0
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        return self.total - (time.monotonic() - self.started)
