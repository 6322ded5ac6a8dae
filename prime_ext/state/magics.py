"""``%prime_save``, ``%prime_load`` and ``%prime_state``, after ``%load_ext prime_ext``."""

from __future__ import annotations

import shlex
from typing import Any

from . import inspect, load, save
from .errors import SnapshotError
from .report import Report

DEFAULT_DIRECTORY = ".prime-state"

_USAGE = {
    "prime_save": "%prime_save [DIRECTORY] [--verify]",
    "prime_load": "%prime_load [DIRECTORY] [--overwrite] [--previous] [NAME ...]",
    "prime_state": "%prime_state [DIRECTORY]",
}


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with an IPython shell."""
    for magic in (prime_save, prime_load, prime_state):
        shell.register_magic_function(magic, "line", magic.__name__)


def prime_save(line: str) -> None:
    """Save the notebook's variables: %prime_save [DIRECTORY] [--verify]"""
    arguments = _split("prime_save", line, {"--verify"})
    if arguments is None:
        return
    flags, words = arguments
    verify = "wait" if "--verify" in flags else "background"
    _run(lambda: _tell(save(_directory(words), verify=verify)))


def prime_load(line: str) -> None:
    """Bring saved variables back: %prime_load [DIRECTORY] [--overwrite] [--previous] [NAME ...]"""
    arguments = _split("prime_load", line, {"--overwrite", "--previous"})
    if arguments is None:
        return
    flags, words = arguments
    generation = "previous" if "--previous" in flags else "current"
    overwrite = "--overwrite" in flags
    names = words[1:] or None
    _run(
        lambda: _tell(
            load(_directory(words), names=names, overwrite=overwrite, generation=generation)
        )
    )


def prime_state(line: str) -> None:
    """Show what a snapshot holds: %prime_state [DIRECTORY]"""
    arguments = _split("prime_state", line, set())
    if arguments is None:
        return
    _run(lambda: _show(_directory(arguments[1])))


def _split(magic: str, line: str, known: set[str]) -> tuple[set[str], list[str]] | None:
    words = shlex.split(line)
    flags = {word for word in words if word.startswith("--")}
    if flags - known:
        print(f"Unknown option {' '.join(sorted(flags - known))}. Usage: {_USAGE[magic]}")
        return None
    return flags, [word for word in words if word not in flags]


def _directory(words: list[str]) -> str:
    return words[0] if words else DEFAULT_DIRECTORY


def _run(action: Any) -> None:
    try:
        action()
    except SnapshotError as error:
        print(error)


def _tell(report: Report) -> None:
    if report.operation == "save":
        kept = [name for name, status in report.names.items() if status.status != "skipped"]
        written = "nothing had changed" if report.unchanged else f"{report.bytes:,} bytes written"
        print(f"Saved {len(kept)} variables in {report.duration_ms:.0f} ms ({written}).")
    else:
        actions = [status.action for status in report.names.values()]
        print(
            f"Loaded {actions.count('loaded')} variables in {report.duration_ms:.0f} ms; "
            f"{actions.count('kept')} were there already."
        )
    for name, status in sorted(report.names.items()):
        if status.reason:
            print(f"  {name}: {status.status}: {status.reason}")
    for note in report.notes:
        print(f"  {note}")


def _show(directory: str) -> None:
    manifest = inspect(directory)
    print(
        f"Snapshot {manifest.generation} of {manifest.created} (Python {manifest.python}), "
        f"{manifest.total_bytes:,} bytes, signature {manifest.signature}."
    )
    width = max((len(name) for name in manifest.names), default=0)
    for name, entry in sorted(manifest.names.items()):
        reason = f"  {entry['reason']}" if entry["reason"] else ""
        line = f"  {name:<{width}}  {entry['status']:<10}  {entry['size']:>14,}  {entry['type']}"
        print(line + reason)
