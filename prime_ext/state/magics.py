"""``%prime_save``, ``%prime_load`` and ``%prime_state``, after ``%load_ext prime_ext``."""

from __future__ import annotations

import shlex
from typing import Any

from . import inspect, load, save
from .errors import SnapshotError
from .format import Manifest
from .live import CHANGED
from .report import SKIPPED, NameStatus, Report

DEFAULT_DIRECTORY = ".prime-state"

_USAGE = {
    "prime_save": "%prime_save [DIRECTORY] [--verify]",
    "prime_load": "%prime_load [DIRECTORY] [--overwrite] [--previous | --kept] [NAME ...]",
    "prime_state": "%prime_state [DIRECTORY] [--previous | --kept]",
}


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with an IPython shell."""
    for magic in (prime_save, prime_load, prime_state):
        shell.register_magic_function(magic, "line", magic.__name__)


def prime_save(line: str) -> None:
    """Save the notebook's variables: %prime_save [DIRECTORY] [--verify]"""
    arguments = _split("prime_save", line, {"--verify"}, most=1)
    if arguments is None:
        return
    flags, words = arguments
    verify = "wait" if "--verify" in flags else "background"
    _run(lambda: _tell(save(_directory(words), verify=verify)))


def prime_load(line: str) -> None:
    """Bring saved variables back:
    %prime_load [DIRECTORY] [--overwrite] [--previous | --kept] [NAME ...]

    --previous: from the snapshot before the last; --kept: from the one that was set aside.
    """
    arguments = _split("prime_load", line, {"--overwrite", "--previous", "--kept"})
    if arguments is None:
        return
    flags, words = arguments
    overwrite = "--overwrite" in flags
    names = words[1:] or None
    _run(
        lambda: _tell(
            load(_directory(words), names=names, overwrite=overwrite, generation=_generation(flags))
        )
    )


def prime_state(line: str) -> None:
    """Show what a snapshot holds: %prime_state [DIRECTORY] [--previous | --kept]"""
    arguments = _split("prime_state", line, {"--previous", "--kept"}, most=1)
    if arguments is None:
        return
    flags, words = arguments
    _run(lambda: _show(inspect(_directory(words), generation=_generation(flags))))


def _split(
    magic: str, line: str, known: set[str], most: int | None = None
) -> tuple[set[str], list[str]] | None:
    """Options and words of a line; None after a message if there is something wrong with them."""
    try:
        parts = shlex.split(line)
    except ValueError:
        print(f"A quotation mark is not closed. Usage: {_USAGE[magic]}")
        return None
    flags = {part for part in parts if part.startswith("--")}
    words = [part for part in parts if part not in flags]
    problem = ""
    if flags - known:
        problem = f"Unknown option {' '.join(sorted(flags - known))}."
    elif {"--previous", "--kept"} <= flags:
        problem = "There is one snapshot to take: --previous or --kept, not both."
    elif most is not None and len(words) > most:
        given = " ".join(map(shlex.quote, words))
        problem = (
            f"Nothing was done: it takes one directory, not {given}. "
            "Quote a directory with spaces in its name."
        )
    if problem:
        print(f"{problem} Usage: {_USAGE[magic]}")
        return None
    return flags, words


def _directory(words: list[str]) -> str:
    return words[0] if words else DEFAULT_DIRECTORY


def _generation(flags: set[str]) -> str:
    chosen = flags & {"--previous", "--kept"}
    return chosen.pop().removeprefix("--") if chosen else "current"


def _run(action: Any) -> None:
    try:
        action()
    except SnapshotError as error:
        print(error)


def _tell(report: Report) -> None:
    statuses = report.names
    if report.operation == "save":
        kept = [name for name, status in statuses.items() if status.status != SKIPPED]
        written = "nothing had changed" if report.unchanged else f"{report.bytes:,} bytes written"
        print(f"Saved {_variables(len(kept))} in {report.duration_ms:.0f} ms ({written}).")
    else:
        actions = [status.action for status in statuses.values()]
        there = actions.count("kept")
        print(
            f"Loaded {_variables(actions.count('loaded'))} in {report.duration_ms:.0f} ms; "
            f"{there} {'was' if there == 1 else 'were'} there already."
        )
    for name, status in sorted(statuses.items()):
        if status.reason:
            print(f"  {name}: {_fate(status)}: {status.reason}")
    for note in report.notes:
        print(f"  {note}")


def _fate(status: NameStatus) -> str:
    if status.action != "kept":
        return status.status
    # The live object is whole; what the snapshot has of it need not be.
    return "kept" if status.reason == CHANGED else f"kept; {status.status} in the snapshot"


def _variables(count: int) -> str:
    return f"{count} variable" if count == 1 else f"{count} variables"


def _show(manifest: Manifest) -> None:
    print(
        f"Snapshot {manifest.generation} of {manifest.created} (Python {manifest.python}), "
        f"{manifest.total_bytes:,} bytes, signature {manifest.signature}."
    )
    width = max((len(name) for name in manifest.names), default=0)
    for name, entry in sorted(manifest.names.items()):
        reason = f"  {entry['reason']}" if entry["reason"] else ""
        line = f"  {name:<{width}}  {entry['status']:<10}  {entry['size']:>14,}  {entry['type']}"
        print(line + reason)
