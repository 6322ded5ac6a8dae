"""Installation of the snapshot library in this process. Sent like ``bootstrap``."""

from __future__ import annotations

import re
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.kernel.inside import bootstrap

NAME = "_prime_state"

_installed: dict[str, str] = {}
_installing = threading.Lock()
"""Several sessions about one notebook may install the library at once, each on a thread."""


def install(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Install the library in this process, unless this version of it is installed."""
    with _installing:
        if NAME in sys.modules and _installed.get("digest") == params["digest"]:
            return {}
        try:
            exec(params["code"], {"__name__": "_prime_state_loader"})  # noqa: S102
        except RuntimeError as error:
            raise bootstrap.Refusal("kernel_python", str(error)) from None
        _installed["digest"] = params["digest"]
    return {}


def library(params: dict[str, Any]) -> Any:
    """Return the library, if it is the version that the server has."""
    found = sys.modules.get(NAME)
    if found is None or _installed.get("digest") != params["digest"]:
        raise bootstrap.Refusal("state_missing", "The snapshot library is not in this process.")
    return found


def call(function: Any, *arguments: Any, **named: Any) -> Any:
    """Call the library; its own errors are raised with a code: ``snapshot_missing``, …"""
    try:
        return function(*arguments, **named)
    except Exception as error:
        if not any(c.__name__ == "SnapshotError" for c in type(error).__mro__):
            raise
        code = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
        raise bootstrap.Refusal(code, str(error)) from None
