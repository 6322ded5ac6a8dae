"""Saving and restoring the entries that a notebook adds to ``sys.path``.

Entries of the interpreter itself, for its standard library and installed packages, are kept apart.
They would break another interpreter: it would find missing packages among those of the first, of
the wrong version or compiled for it.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from typing import Any


def capture() -> dict[str, Any]:
    """Return what `apply` needs, as plain data."""
    installed = _installed()
    added: list[str] = []
    own: list[str] = []
    first = 0
    for entry in map(str, sys.path):
        (own if _is_own(entry, installed) else added).append(entry)
        if not own:
            first += 1
    return {"added": added, "first": first, "own": own, "interpreter": _interpreter()}


def apply(saved: dict[str, Any]) -> None:
    """Add missing entries, but directories of another interpreter are left out.

    In the same interpreter, entries that came before its own do so again: their modules hide
    installed ones.
    """
    installed = {_plain(place) for place in _installed()}
    is_same = saved["interpreter"] == _interpreter()
    first = saved.get("first", 0) if is_same else 0
    position = 0
    for entry in saved["added"][:first]:
        if entry in sys.path:
            position = max(position, sys.path.index(entry) + 1)
        elif _plain(entry) not in installed:
            sys.path.insert(position, entry)
            position += 1
    entries = list(saved["added"][first:])
    if is_same:
        entries += saved["own"]
    for entry in entries:
        # A directory of this interpreter that is not in its sys.path was left out on purpose.
        if entry not in sys.path and _plain(entry) not in installed:
            sys.path.append(entry)


def _interpreter() -> list[str]:
    return [sys.version, sys.prefix, sys.base_prefix]


def _installed() -> set[str]:
    """Return this interpreter's directories of the standard library and installed packages."""
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    prefixes = list(dict.fromkeys([sys.prefix, sys.exec_prefix, sys.base_prefix]))
    found.update(site.getsitepackages(prefixes))
    found.add(site.getusersitepackages())
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    for library in (paths["stdlib"], paths["platstdlib"]):
        found.add(os.path.join(library, "lib-dynload"))
        found.add(os.path.join(os.path.dirname(library), zipped))
    if os.name == "nt":
        for prefix in (sys.prefix, sys.base_prefix):
            found.update(os.path.join(prefix, name) for name in (zipped, "DLLs"))
    return found


def _is_own(entry: str, installed: set[str]) -> bool:
    plain = _plain(entry)
    # On Windows the prefix itself is an entry. It may hold other directories of the user's, so
    # only an exact match counts as the interpreter's own.
    return plain in map(_plain, (sys.prefix, sys.base_prefix)) or any(
        (plain + os.sep).startswith(_plain(place) + os.sep) for place in installed
    )


def _plain(entry: str) -> str:
    return os.path.normcase(os.path.normpath(entry)) if entry else ""
