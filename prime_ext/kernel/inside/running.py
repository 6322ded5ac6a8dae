"""The cell that runs while a request of ours was served on a subshell. Sent like ``bootstrap``.

A subshell shares more with the main shell than it should: its requests become the parent of what
the cell's threads put out, decide whether ``input()`` may ask, take along what the cell has for the
front end's pager, make IPython forget where the cell's result goes, and are followed by a status
that tells everyone that the kernel is idle. None of that is meant for the running cell.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prime_ext.kernel.inside import bootstrap

_OVERTAKEN_SECONDS = 0.05
"""In which a cell that was found running may have said that it has ended."""


def give_back(kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Make the request that the main shell works on the current one again: ``{running}``.

    If it has ended meanwhile, what its threads put out is still its own. ``payload`` is what the
    reply of the subshell has taken along.
    """
    handler = kernel.shell_handlers[bootstrap.REQUEST].__self__
    found = request(kernel)
    if found is None:
        if handler.last_cell is not None:
            kernel.set_parent(*handler.last_cell, "shell")
        return {"running": False}
    handler.last_cell = ident, parent = found
    kernel.set_parent(ident, parent, "shell")
    kernel._allow_stdin = parent["content"].get("allow_stdin", False)
    for payload in params.get("payload", ()):
        kernel.shell.payload_manager.write_payload(payload)
    if kernel.shell.displayhook.exec_result is None:
        kernel.shell.displayhook.exec_result = _result(kernel)
    kernel._publish_status("busy", "shell", parent=parent)
    time.sleep(_OVERTAKEN_SECONDS)
    if request(kernel) is None:
        kernel._publish_status("idle", "shell", parent=parent)
    return {"running": True}


def request(kernel: Any) -> tuple[Any, dict[str, Any]] | None:
    """Who sent the request that the main shell works on, and the request; ``None``: it is idle."""
    for frame in _frames(kernel):
        if frame.f_code.co_name == "dispatch_shell":
            names = frame.f_locals
            if isinstance(names.get("msg"), dict):
                return names.get("idents"), names["msg"]
    return None


def _result(kernel: Any) -> Any:
    """What IPython fills in for the cell, ``ExecutionResult``: ``post_run_cell`` gets it."""
    for frame in _frames(kernel):
        if frame.f_code.co_name == "run_cell_async":
            return frame.f_locals.get("result")
    return None


def _frames(kernel: Any) -> Iterator[Any]:
    """What the main shell is in the middle of: on its stack, or waiting in its event loop."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back
    for task in asyncio.all_tasks(kernel.io_loop.asyncio_loop):
        step: Any = task.get_coro()
        while step is not None:
            if getattr(step, "cr_frame", None) is not None:
                yield step.cr_frame
            step = getattr(step, "cr_await", None)
