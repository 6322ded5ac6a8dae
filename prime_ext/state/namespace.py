"""The user's namespace, and the names in it that are the user's own."""

from __future__ import annotations

import re
import sys
from typing import Any

_HISTORY = re.compile(r"_i?\d+|_{1,3}|_i{1,3}|_ih|_oh|_dh|In|Out")
_MODULE_NAMES = frozenset(
    {
        "__name__",
        "__doc__",
        "__package__",
        "__loader__",
        "__spec__",
        "__annotations__",
        "__builtins__",
        "__builtin__",
        "__file__",
        "__cached__",
        "__session__",
        "__conditional_annotations__",
        "__warningregistry__",
    }
)


def shell() -> Any:
    """Return the IPython shell of this process, or None, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def current_namespace() -> dict[str, Any]:
    """Return the user namespace in IPython, otherwise that of ``__main__``."""
    found = shell()
    if found is not None:
        namespace: dict[str, Any] = found.user_ns
        return namespace
    return vars(sys.modules["__main__"])


def user_names(namespace: dict[Any, Any]) -> list[str]:
    """Return the names that the user has set, in the order of the namespace.

    IPython's own names are left out unless the user has rebound them. So are names of its history,
    such as ``_`` and ``Out``, and the standard attributes of a module.
    """
    found = shell()
    hidden = found.user_ns_hidden if found is not None and found.user_ns is namespace else {}
    missing = object()
    return [
        name
        for name, value in list(namespace.items())
        if isinstance(name, str)
        and name not in _MODULE_NAMES
        and not (found is not None and _HISTORY.fullmatch(name) and name in hidden)
        and not (found is not None and _is_numbered_history(name))
        and hidden.get(name, missing) is not value
    ]


def stray_keys(namespace: dict[Any, Any]) -> str:
    """Describe the keys that are not strings, as after ``globals()[1] = 2``; empty if none."""
    strays = [key for key in list(namespace) if not isinstance(key, str)]
    plain = (int, float, bool, bytes, type(None))
    shown = (repr(key) if type(key) in plain else f"a {type(key).__name__}" for key in strays)
    return ", ".join(shown)


def _is_numbered_history(name: str) -> bool:
    return re.fullmatch(r"_i?\d+", name) is not None
