"""What restored components look like when they are pickled again, in the process they came to.

A class lists its attributes in another order after it was made anew, a set of strings has another
order in each process, equal strings are no longer one string. So the streams differ from the saved
ones though nothing has changed. Here the difference is learnt once, right after a restore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import digests, packing
from .component import Component, combine
from .components import pickle_all
from .format import ComponentRecord, Manifest
from .time_budget import Budget

_LARGEST_STREAM = 256 * 1024
_LARGEST_SUM = 8 * 1024 * 1024
"""Bytes of streams: pickling that much again is not felt. Larger ones are plain data for the most
part, which pickle alike everywhere."""

_saved_as: dict[str, str] = {}


def learn(namespace: dict[str, Any], manifest: Manifest) -> None:
    """Pickle what has just been restored; to be called before any other code runs."""
    _saved_as.clear()
    records: dict[Any, ComponentRecord] = {}
    total = 0
    for record in sorted(manifest.components, key=lambda record: record.stream.length):
        total += record.stream.length
        if record.stream.length > _LARGEST_STREAM or total > _LARGEST_SUM:
            break
        records[_roots(record.roots)] = record
    names = [name for roots in records for what, name in roots if what == "name"]
    for component in pickle_all(namespace, names, Budget(1.0, 2.0)).components:
        known = records.get(_roots(component.roots))
        if known is not None:
            _saved_as[_fingerprint(component, known)] = known.fingerprint


def saved_as(fingerprint: str) -> str:
    """The fingerprint in the snapshot of a component that is as it was restored."""
    return _saved_as.get(fingerprint, fingerprint)


def _roots(roots: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((what, name) for what, name in roots)


def _fingerprint(component: Component, record: ComponentRecord) -> str:
    """As `Component.fingerprint`, without reading large buffers: they are the ones just mapped."""
    if len(component.buffers) != len(record.buffers):
        return component.fingerprint()
    fast = [digests.fast(component.stream)]
    for buffer, extent in zip(component.buffers, record.buffers):  # noqa: B905 - Python 3.9
        is_same = packing.size(buffer) == extent.length
        fast.append(extent.fast if is_same else packing.fast(buffer))
    return combine(component.roots, fast)
