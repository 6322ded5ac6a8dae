"""The entries of ``sys.path`` that a notebook adds, apart from those of its interpreter.

The standard library and the installed packages of one interpreter break another: a missing package
is then found in the other's, of the wrong version, or compiled for it.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from typing import Any


def capture() -> dict[str, Any]:
    """What `apply` needs, as plain data."""
    installed = _installed()
    added: list[str] = []
    own: list[str] = []
    for entry in map(str, sys.path):
        (own if _is_own(entry, installed) else added).append(entry)
    return {"added": added, "own": own, "interpreter": _interpreter()}


def apply(saved: dict[str, Any]) -> None:
    """Append what is missing. What lies among an interpreter's packages is for that one only."""
    installed = {_plain(place) for place in _installed()}
    entries = list(saved["added"])
    if saved["interpreter"] == _interpreter():
        entries += saved["own"]
    for entry in entries:
        # What the interpreter has by itself and this process has not was left out on purpose.
        if entry not in sys.path and _plain(entry) not in installed:
            sys.path.append(entry)


def _interpreter() -> list[str]:
    return [sys.version, sys.prefix, sys.base_prefix]


def _installed() -> set[str]:
    """Directories of the standard library and of packages, of this interpreter and its user."""
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
    # On Windows the prefix itself is an entry; beside packages it holds whatever one likes.
    return plain in map(_plain, (sys.prefix, sys.base_prefix)) or any(
        (plain + os.sep).startswith(_plain(place) + os.sep) for place in installed
    )


def _plain(entry: str) -> str:
    return os.path.normcase(os.path.normpath(entry)) if entry else ""
