"""Fingerprints of restored components, as this process pickles them.

A class lists its attributes in another order after it was made again, a set of strings has another
order in each process, and equal strings are no longer one object. So the streams differ from the
saved ones although nothing has changed. This module pickles the components once, right after a
restore, and remembers which new fingerprint stands for which saved one.
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
"""Bytes of streams that can be pickled again without a noticeable delay. Larger components are
mostly plain data, which pickles the same everywhere."""

_saved_as: dict[str, str] = {}


def learn(namespace: dict[str, Any], manifest: Manifest) -> None:
    """Learn the fingerprints of what has just been restored, before any other code runs."""
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
    """Return the fingerprint that the snapshot has for an unchanged restored component.

    Any other fingerprint is returned as it is.
    """
    return _saved_as.get(fingerprint, fingerprint)


def _roots(roots: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((what, name) for what, name in roots)


def _fingerprint(component: Component, record: ComponentRecord) -> str:
    """Return `Component.fingerprint`, taking the digests of buffers from the snapshot if possible.

    The buffers are the ones just mapped, so they need not be read.
    """
    if len(component.buffers) != len(record.buffers):
        return component.fingerprint()
    fast = [digests.fast(component.stream)]
    for buffer, extent in zip(component.buffers, record.buffers):  # noqa: B905 - Python 3.9
        is_same = packing.size(buffer) == extent.length
        fast.append(extent.fast if is_same else packing.fast(buffer))
    return combine(component.roots, fast, component.attributes)
