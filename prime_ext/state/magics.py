"""The magics ``%prime_save``, ``%prime_load`` and ``%prime_state`` of ``%load_ext prime_ext``."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import inspect, load, save
from .errors import SnapshotError, SnapshotMissing
from .format import Manifest, generations, head_path
from .live import CHANGED
from .report import SKIPPED, NameStatus, Report

DEFAULT_DIRECTORY = ".prime-state"

_OLDER = "[--previous | --kept | --kept-N]"
_USAGE = {
    "prime_save": "%prime_save [DIRECTORY] [--verify]",
    "prime_load": f"%prime_load [DIRECTORY] [--overwrite] {_OLDER} [NAME ...]",
    "prime_state": f"%prime_state [DIRECTORY] {_OLDER}",
}
_OPTIONS = {"prime_save": {"--verify"}, "prime_load": {"--overwrite"}, "prime_state": set()}
_GENERATION = re.compile(r"--(previous|kept|kept-[0-9]{1,9})")


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with an IPython shell."""
    for magic in (prime_save, prime_load, prime_state):
        shell.register_magic_function(magic, "line", magic.__name__)
        shell.set_hook("complete_command", _complete, str_key=f"%{magic.__name__}")


def prime_save(line: str) -> None:
    """Save the notebook's variables: %prime_save [DIRECTORY] [--verify]"""
    arguments = _split("prime_save", line, most=1)
    if arguments is None:
        return
    flags, words = arguments
    verify = "wait" if "--verify" in flags else "background"
    _run(lambda: _tell(save(_directory(words), verify=verify)))


def prime_load(line: str) -> None:
    """Restore saved variables:
    %prime_load [DIRECTORY] [--overwrite] [--previous | --kept | --kept-N] [NAME ...]

    --overwrite replaces variables that differ from the snapshot. --previous loads the snapshot
    before the last one, --kept the one that was set aside, --kept-N the last one of an earlier
    process. %prime_state lists the snapshots there are.
    """
    arguments = _split("prime_load", line)
    if arguments is None:
        return
    flags, words = arguments
    directory, generation = _directory(words), _generation(flags)
    names = words[1:] or None
    overwrite = "--overwrite" in flags

    def act() -> None:
        _tell(load(directory, names=names, overwrite=overwrite, generation=generation))

    _run(act, directory, generation)


def prime_state(line: str) -> None:
    """Show what a snapshot holds: %prime_state [DIRECTORY] [--previous | --kept | --kept-N]"""
    arguments = _split("prime_state", line, most=1)
    if arguments is None:
        return
    flags, words = arguments
    directory, generation = _directory(words), _generation(flags)

    def act() -> None:
        _show(inspect(directory, generation=generation))
        _show_others(directory, generation)

    _run(act, directory, generation)


def _split(magic: str, line: str, most: int | None = None) -> tuple[set[str], list[str]] | None:
    """Split a line into options and words; print a message and return None if it is invalid."""
    try:
        parts = shlex.split(line)
    except ValueError:
        print(f"A quotation mark is not closed. Usage: {_USAGE[magic]}")
        return None
    flags = {part for part in parts if part.startswith("--")}
    words = [part for part in parts if part not in flags]
    older = set() if magic == "prime_save" else set(filter(_GENERATION.fullmatch, flags))
    unknown = flags - _OPTIONS[magic] - older
    problem = ""
    if unknown:
        problem = f"Unknown option {' '.join(sorted(unknown))}."
    elif len(older) > 1:
        problem = f"Choose only one snapshot: {' or '.join(sorted(older))}."
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


def _complete(_shell: Any, event: Any) -> list[str]:
    """Complete options and the names in the snapshot; IPython completes directories itself."""
    typed = event.text_until_cursor.split()
    if event.symbol:
        typed.pop()
    magic, given = typed[0].lstrip("%"), typed[1:]
    words = [word for word in given if not word.startswith("--")]
    older = set() if magic == "prime_save" else set(filter(_GENERATION.fullmatch, given))
    found = _OPTIONS[magic] - set(given)
    directory = _directory(words)
    if magic != "prime_save" and not older:
        found |= {f"--{generation}" for generation in _there(directory) if generation != "current"}
    if magic == "prime_load" and words and not event.symbol.startswith("-"):
        with contextlib.suppress(SnapshotError):  # reported when the line is run
            found |= set(inspect(directory, generation=_generation(older)).names) - set(words)
    return sorted(found)


def _there(directory: str) -> list[str]:
    """Return the generations that exist in a directory."""
    place = Path(directory)
    return [found for found in generations(place) if head_path(place, found).exists()]


def _directory(words: list[str]) -> str:
    return words[0] if words else DEFAULT_DIRECTORY


def _generation(flags: set[str]) -> str:
    chosen = [flag for flag in flags if _GENERATION.fullmatch(flag)]
    return chosen[0].removeprefix("--") if chosen else "current"


def _run(action: Callable[[], None], directory: str = "", generation: str = "current") -> None:
    try:
        action()
    except SnapshotMissing as error:
        print(error)
        if generation != "current":
            _show_others(directory, generation)
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
    # The live object is whole, although its copy in the snapshot may be degraded.
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


def _show_others(directory: str, shown: str) -> None:
    """Print the generations that exist beside the one just shown."""
    for generation in _there(directory):
        if generation != shown:
            try:
                created = inspect(directory, generation=generation).created
            except SnapshotError:
                continue
            how = "without an option" if generation == "current" else f"with --{generation}"
            print(f"There is another snapshot, of {created}: select it {how}.")
