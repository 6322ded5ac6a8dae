"""Tier 2: dill, for what the first tier cannot pickle.

dill takes some types more, but its streams do not always load. So its result is used only for
kinds of objects of which another process has read an example back (see `dill_judge`); the
verdict holds for the life of this process.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .pickling import Loss, Reducing

VERDICTS: dict[frozenset[str], bool] = {}
"""Types that the first tier lost → whether dill's version of such a component was read back."""


def kinds_lost(losses: list[Loss]) -> frozenset[str]:
    """The types of the objects for which another tier may do better."""
    return frozenset(loss.what for loss in losses if not loss.final)


@functools.lru_cache(maxsize=1)
def pickler_class() -> Any:
    """A pickler with our reducers on top of dill's; None where dill is not installed.

    Ours come first: dill would give a function a private copy of its globals, and its way with
    open files truncates them when they are loaded.
    """
    try:
        dill: Any = importlib.import_module("dill")
    except ImportError:
        return None

    class DillPickler(Reducing, dill.Pickler):  # type: ignore[misc]
        pass

    return DillPickler
