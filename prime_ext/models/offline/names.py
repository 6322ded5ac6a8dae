"""Matches the user's words with existing names of columns, variables and files."""

from __future__ import annotations

import builtins
import difflib
import keyword
import re
from collections.abc import Iterable, Sequence


def plain(name: str) -> str:
    """Reduce to lower-case letters and digits: "Body Mass (g)" and ``body_mass_g`` are equal."""
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name.lower()


def words(name: str) -> list[str]:
    """``"bodyMass_g"`` → ``["body", "mass", "g"]``."""
    return re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def matching(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the names in ``known`` that match ``wanted``, using the strictest rule that matches.

    More than one name means that ``wanted`` is ambiguous; an empty list that nothing matches.
    """
    if wanted in known:
        return [wanted]
    for same in (
        [name for name in known if name.lower() == wanted.lower()],
        [name for name in known if plain(name) == plain(wanted)],
        [name for name in known if plain(name) == _singular(plain(wanted))],
        [name for name in known if plain(name).startswith(plain(wanted))],
        _by_words(wanted, known),
        [name for name in known if len(plain(wanted)) > 2 and plain(wanted) in plain(name)],
    ):
        if same:
            return same
    return []


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and len(name) > 3 else name


def _by_words(wanted: str, known: Sequence[str]) -> list[str]:
    asked = {_singular(word) for word in words(wanted)}
    if not asked:
        return []
    return [name for name in known if asked <= {_singular(word) for word in words(name)}]


def near(wanted: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return up to ``n`` names similar to ``wanted``, which may be misspelled."""
    by_plain: dict[str, str] = {}
    for name in known:
        by_plain.setdefault(plain(name), name)
    found = difflib.get_close_matches(plain(wanted), list(by_plain), n=n, cutoff=0.6)
    return [by_plain[name] for name in found]


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Format names as inline code, separated by commas, at most ``limit`` of them."""
    all_names = list(names)
    shown = ", ".join(f"`{name}`" for name in all_names[:limit])
    rest = len(all_names) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def variable_name(file: str) -> str:
    """Return a variable name for a file's data: ``data/Sales 2024-Q1.csv`` → ``sales_2024_q1``."""
    stem = re.split(r"[\\/]", file)[-1].split(".")[0]
    name = re.sub(r"\W+", "_", stem.strip()).strip("_").lower()
    if not name:
        return "df"
    if name[0].isdigit():
        name = f"data_{name}"
    if keyword.iskeyword(name) or name in _TAKEN:
        name = f"{name}_df"
    return name


_TAKEN = frozenset(dir(builtins)) | {"pd", "np", "plt"}
