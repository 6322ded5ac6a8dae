"""Saving and restoring the namespace inside the kernel. Sent like ``bootstrap``.

The snapshot library does the work. Capture and restore run on the main shell, so that no user code
runs meanwhile; a thread waits for the writing and reading back that follow a capture. The key is
sent as a binary buffer, since kernels that log messages do not log buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.kernel.inside import bootstrap, files, library

_savings: dict[str, Any] = {}


def save(kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Capture the namespace. Writing continues in the background; see ``saved``."""
    found = library.library(params)
    folder = files.directory(params)
    if params.get("after"):
        library.call(found.replica.reserve, folder, params["after"])
    saving = library.call(
        found.begin, folder, kernel.shell.user_ns, key=bytes(buffers[0]), **params["options"]
    )
    _savings.clear()  # One at a time: the last is durable or has failed.
    _savings[params["saving"]] = saving
    return {"report": saving.report.to_dict()}


def saved(_kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Wait until a capture is durable; with ``verify``, then read it back in the background.

    ``report`` is None if the capture is not durable within ``seconds``.
    """
    try:
        report = library.call(_saving(params).wait, params["seconds"])
    except TimeoutError:
        return {"report": None}
    if params["verify"] and not report.unchanged:
        _read_back(params, buffers, report, wait=False)
    return {"report": report.to_dict()}


def verify(_kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Read a durable capture back to verify it, and wait for the end of that."""
    _read_back(params, buffers, _saving(params).report, wait=True)
    return {}


def _saving(params: dict[str, Any]) -> Any:
    found = _savings.get(params["saving"])
    if found is None:
        raise bootstrap.Refusal("snapshot_write_error", "The capture is no longer known.")
    return found


def _read_back(params: dict[str, Any], buffers: Any, report: Any, wait: bool) -> None:
    found = library.library(params)
    library.call(found.verify_saved, files.directory(params), bytes(buffers[0]), report, wait)


def load(kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Restore the namespace."""
    try:
        report = library.call(
            library.library(params).load,
            files.directory(params),
            kernel.shell.user_ns,
            key=bytes(buffers[0]),
            **params["options"],
        )
    except KeyboardInterrupt:
        raise bootstrap.Refusal("restore_interrupted", "Loading was interrupted.") from None
    return {"report": report.to_dict()}


def is_current(kernel: Any, params: dict[str, Any], buffers: Any) -> dict[str, Any]:
    """Whether a capture now would give the same snapshot as the last one."""
    current = library.call(
        library.library(params).is_current,
        files.directory(params),
        kernel.shell.user_ns,
        key=bytes(buffers[0]),
    )
    return {"current": bool(current)}
