"""The verifier's record of the components that were read back.

The record is stored beside the snapshot and signed with the same key. The verifier itself runs in a
process of its own (`verifier`).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from . import format, signing
from .errors import SnapshotError
from .format import ComponentRecord, Manifest
from .plain_json import dumps, loads

_PROBLEM = "could not be read back: "

HUNG = "reading it back took longer than"
ENDED = "reading it back ended the process"

BY_NAME = "ask for it by name to load it anyway"
"""Added to the reason of a name that is left out because loading it may hang or crash."""

LEFT_OUT = {HUNG: "hung", ENDED: "ended"}
"""Prefix of a problem → value of `NameStatus.left_out`."""

SLOW = "slow"

_STREAM_BYTES_A_SECOND = 5_000_000
_BUFFER_BYTES_A_SECOND = 200_000_000
"""Far slower than a busy machine loads: a component that is slower still must be hanging."""


def path(directory: Path) -> Path:
    """Return the path of the record."""
    return directory / format.DATA_NAME / format.VERIFIED_NAME


def read(directory: Path, key: bytes) -> dict[str, str]:
    """Return component fingerprint → problem, or ``""`` for a component that was read back.

    Empty if the record is missing, damaged, or not signed with ``key``.
    """
    try:
        record = loads(format.read_private(path(directory)))
        body = dumps(record["results"], sort_keys=True).encode()
        if not signing.verify(key, body, bytes.fromhex(record["signature"])):
            return {}
        results: dict[str, str] = record["results"]
        return results
    except (SnapshotError, OSError, ValueError, KeyError, TypeError):
        return {}


def write(directory: Path, key: bytes, results: dict[str, str]) -> None:
    """Sign and replace the record."""
    body = dumps(results, sort_keys=True).encode()
    record = {"results": results, "signature": signing.sign(key, body).hex()}
    target = path(directory)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(dumps(record))
    os.replace(draft, target)


def verified_fingerprints(directory: Path, key: bytes, last: Manifest | None) -> set[str]:
    """Return the fingerprints of components that need not be read back again."""
    found = {fingerprint for fingerprint, problem in read(directory, key).items() if not problem}
    if last is not None:
        found.update(c.fingerprint for c in last.components if c.verified)
    return found


def merge(manifest: Manifest, results: dict[str, str]) -> None:
    """Update the statuses in a manifest with the results of the verifier."""
    for entry in manifest.names.values():
        index = entry["component"]
        if index is None:
            continue
        record = manifest.components[index]
        problem = results.get(record.fingerprint)
        if problem is None:
            continue
        if not problem:
            record.verified = True
            if entry["status"] == "unverified":
                entry["status"] = "verified"
        elif entry["status"] == "unverified":
            entry["reason"] = join(entry["reason"], f"{_PROBLEM}{problem}")


def seconds_for(record: ComponentRecord, least: float) -> float:
    """Return how many seconds loading a component may take: ``least`` plus time for its size."""
    buffers = sum(extent.length for extent in record.buffers)
    return least + record.stream.length / _STREAM_BYTES_A_SECOND + buffers / _BUFFER_BYTES_A_SECOND


def dangers(manifest: Manifest, results: dict[str, str]) -> dict[int, str]:
    """Return component index → problem for those that hung or ended the verifier's worker."""
    found = {
        index: results.get(record.fingerprint, "")
        for index, record in enumerate(manifest.components)
    }
    return {index: problem for index, problem in found.items() if kind_of(problem)}


def kind_of(problem: str) -> str:
    """Return ``hung`` or ``ended``, or an empty string for any other problem."""
    return next((kind for told, kind in LEFT_OUT.items() if problem.startswith(told)), "")


def after_load(reason: str) -> tuple[bool, str]:
    """Return whether a name loaded in this process is as it was saved, and its new reason.

    A name that could not be loaded in the verifier, with its restrictions, has been loaded now, so
    that problem is gone. A name that came back different there is different here too.
    """
    told, _, problem = reason.partition(_PROBLEM)
    told = told.removesuffix("; ")
    if " came back " not in problem:
        return True, told
    return False, join(told, f"loaded, but when it was read back, {problem}")


def join(*reasons: str) -> str:
    """Join reasons into one line, each once, without empty ones."""
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))
