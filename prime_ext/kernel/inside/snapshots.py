"""Saving and restoring the namespace inside the kernel. Sent like ``bootstrap``.

The work is done by the snapshot library, which is sent along too. Capture and restore run on the
main shell, so that no user code runs against half a state; what follows a capture, writing and
reading back, is waited for on a thread. The key comes as a binary buffer: a kernel that logs its
messages does not log those.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.kernel.inside import bootstrap

LIBRARY = "_prime_state"

_installed: dict[str, str] = {}
_savings: dict[str, Any] = {}


def install(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Make the library available in this process, once."""
    try:
        exec(params["code"], {"__name__": "_prime_state_loader"})  # noqa: S102
    except RuntimeError as error:
        raise bootstrap.Refusal("kernel_python", str(error)) from None
    _installed["digest"] = params["digest"]
    return {}


def save(kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Capture the namespace; writing goes on aside. See ``saved``."""
    library = _library(params)
    folder = _folder(params)
    saving = _call(
        library.begin, folder, kernel.shell.user_ns, key=bytes(buffers[0]), **params["options"]
    )
    _savings.clear()  # One at a time: the one before is durable, or its error was reported.
    _savings[params["saving"]] = (saving, folder, bytes(buffers[0]))
    return {"report": saving.report.to_dict()}


def saved(_kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Wait until a capture is durable; reading it back then starts by itself.

    ``report`` is None if it is not durable within ``seconds``.
    """
    found = _savings.get(params["saving"])
    if found is None:
        raise bootstrap.Refusal("snapshot_write_error", "The capture is no longer known.")
    saving, folder, key = found
    try:
        report = _call(saving.wait, params["seconds"])
    except TimeoutError:
        return {"report": None}
    if not report.unchanged:
        _call(sys.modules[LIBRARY].verify_saved, folder, key, report, False)
    return {"report": report.to_dict()}


def load(kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Restore the namespace."""
    library = _library(params)
    report = _call(
        library.load,
        _folder(params),
        kernel.shell.user_ns,
        key=bytes(buffers[0]),
        **params["options"],
    )
    return {"report": report.to_dict()}


def is_current(kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Whether the last snapshot is what a capture would give now."""
    library = _library(params)
    current = _call(
        library.is_current, _folder(params), kernel.shell.user_ns, key=bytes(buffers[0])
    )
    return {"current": bool(current)}


def _library(params: dict[str, Any]) -> Any:
    library = sys.modules.get(LIBRARY)
    if library is None or _installed.get("digest") != params["digest"]:
        raise bootstrap.Refusal("state_missing", "The snapshot library is not in this process.")
    return library


def _folder(params: dict[str, Any]) -> Path:
    folder = Path(params["folder"])
    if not folder.is_dir():
        raise bootstrap.Refusal(
            "kernel_files",
            "The kernel does not see the server's files, so its variables cannot be saved there.",
        )
    return folder


def _call(function: Any, *arguments: Any, **named: Any) -> Any:
    """Call into the library; what it raises on purpose gets a code: ``snapshot_missing``, …"""
    try:
        return function(*arguments, **named)
    except Exception as error:
        if not any(c.__name__ == "SnapshotError" for c in type(error).__mro__):
            raise
        code = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
        raise bootstrap.Refusal(code, str(error)) from None
