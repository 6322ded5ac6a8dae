"""Switching off garbage collection and warnings while objects are pickled."""

from __future__ import annotations

import gc
import warnings
from typing import Any


class Quiet:
    """A context without garbage collection, which only slows pickling down, and warnings."""

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *details: Any) -> None:
        self._warnings.__exit__(*details)
        if self._collecting:
            gc.enable()
