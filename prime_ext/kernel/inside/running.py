"""Repairs to the running cell after a request on a subshell. Sent like ``bootstrap``.

ipykernel shares too much state between a subshell and the main shell. A request on a subshell
becomes the parent of output from the cell's threads, decides whether ``input()`` may ask, takes the
pager payload of the cell, clears the display hook's reference to the cell's result, and is followed
by an idle status although the cell still runs. `give_back` restores all of that.
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
"""Delay before the cell is checked again: if it ended meanwhile, its idle status may have been
published before our busy status."""


def give_back(kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Make the request that runs on the main shell the current one again: ``{running}``.

    If it has ended meanwhile, output of its threads still belongs to it. ``payload`` is the pager
    payload that the subshell's reply took from the cell.
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
    """Return sender and message of the request on the main shell; ``None`` if that is idle."""
    for frame in _frames(kernel):
        if frame.f_code.co_name == "dispatch_shell":
            names = frame.f_locals
            if isinstance(names.get("msg"), dict):
                return names.get("idents"), names["msg"]
    return None


def _result(kernel: Any) -> Any:
    """Return the ``ExecutionResult`` that IPython fills in for the running cell."""
    for frame in _frames(kernel):
        if frame.f_code.co_name == "run_cell_async":
            return frame.f_locals.get("result")
    return None


def _frames(kernel: Any) -> Iterator[Any]:
    """Yield the frames on the main thread's stack and of the tasks in its event loop."""
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
