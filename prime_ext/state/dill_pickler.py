"""Tier 2: dill, for objects that the first tier cannot pickle.

dill supports more types, but its streams cannot always be loaded. So its result is used only for
combinations of types of which another process has read an example back (`dill_judge`). The verdict
holds for the life of this process.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .pickling import Loss, Reducing

VERDICTS: dict[frozenset[str], bool] = {}
"""Types that the first tier lost → whether dill's version of such a component could be loaded."""


def kinds_lost(losses: list[Loss]) -> frozenset[str]:
    """Return the names of the types of lost objects that another tier may be able to pickle."""
    return frozenset(loss.what for loss in losses if not loss.final)


@functools.lru_cache(maxsize=1)
def pickler_class() -> Any:
    """Return a pickler class with our reducers on top of dill's; None if dill is not installed.

    Our reducers come first: dill would give a function a private copy of its globals, and would
    truncate open files when they are loaded.
    """
    try:
        dill: Any = importlib.import_module("dill")
    except ImportError:
        return None

    class DillPickler(Reducing, dill.Pickler):  # type: ignore[misc]
        pass

    return DillPickler
