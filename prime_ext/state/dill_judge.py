"""Deciding whether dill's version of a component is used: if another process can load it."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from . import format, verification, verifier, writer
from .component import Component
from .components import Pickled
from .dill_pickler import VERDICTS, kinds_lost
from .format import Manifest
from .recipes import type_name


def judge(pickled: Pickled, seconds: float = 30.0) -> None:
    """Read dill's versions of components back, and use those that can be loaded."""
    undecided = [c for c in pickled.components if c.alternative is not None]
    if not undecided:
        return
    good = _read_back(pickled, [c.alternative for c in undecided if c.alternative], seconds)
    for component in undecided:
        alternative, component.alternative = component.alternative, None
        assert alternative is not None
        accepted = alternative.fingerprint() in good
        VERDICTS[kinds_lost(component.losses)] = accepted
        if accepted:
            pickled.components[pickled.components.index(component)] = alternative


def _read_back(pickled: Pickled, candidates: list[Component], seconds: float) -> set[str]:
    """Return the fingerprints of candidates that another process loaded with the right types."""
    with tempfile.TemporaryDirectory(prefix="prime-state-dill-") as name:
        directory, key = Path(name) / "state", secrets.token_bytes(32)
        writer.make_directories(directory)
        classes = [c for c in pickled.components if any(what == "class" for what, _ in c.roots)]
        components = [*(c for c in classes if c.alternative is None), *candidates]
        namespace = pickled.context.namespace
        names = {
            name: {
                "status": "unverified",
                "reason": "",
                "recipe": None,
                "type": type_name(namespace[name]),
                "size": 0,
                "component": index,
            }
            for index, component in enumerate(components)
            for what, name in component.roots
            if what == "name"
        }
        manifest = Manifest(
            names=names,
            skeleton_keys=pickled.skeleton_keys,
            modules=dict(pickled.context.modules),
        )
        placed = writer.place_small(components)
        job = writer.Job(directory, key, placed, pickled.skeletons, b"", manifest)
        writer.write(job, lambda _slow: None)
        verifier.run(directory, key, seconds)
        results = verification.read(directory, key)
        head = format.read_head(directory, key)
    return {
        record.fingerprint
        for record in head.manifest.components
        if results.get(record.fingerprint, "unread") == ""
    }
