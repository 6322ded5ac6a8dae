"""How much memory something takes on top of what is there: this process and its children (Linux).

The kernel's own record of the peak tells about this process. Children share its pages; what they
have for themselves is looked at every few milliseconds.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_EVERY_SECONDS = 0.003


def resident() -> int:
    """Bytes of this process that are in memory."""
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


@dataclass
class Peak:
    """Bytes beyond what was in use before, of this process and its children together."""

    total: int = 0


@contextlib.contextmanager
def peak() -> Iterator[Peak]:
    """Measures the block; the result is complete after it."""
    found = Peak()
    over = threading.Event()
    own_children = _children()

    def watch() -> None:
        while not over.wait(_EVERY_SECONDS):
            children = sum(map(_private, _children() - own_children))
            if children:
                found.total = max(found.total, resident() - before + children)

    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
        found.total = max(found.total, _status("VmHWM") - before)


def _children() -> set[str]:
    pids: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            pids.update((task / "children").read_text().split())
    return pids


def _private(pid: str) -> int:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) * 1024
    return 0
