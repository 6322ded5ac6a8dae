"""Forking this process: when it is safe, and how to try something out in a child."""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

try:
    resource: Any = importlib.import_module("resource")
except ImportError:  # a system without fork
    resource = None

_LEAST_FREE_BYTES = 256 * 1024 * 1024
_MOST_MEMORY_BYTES = 4 * 1024 * 1024 * 1024
_SUSPICIOUS_BYTES = 128 * 1024 * 1024
_TOO_LARGE = "pickling it needs too much memory"
_OUT_OF_MEMORY = 40
_SURVIVED = b"."


def is_safe() -> bool:
    """Return whether a forked child of this process can be expected to finish its work."""
    if sys.platform != "linux" or not hasattr(os, "fork"):
        return False
    return not _cuda_in_use() and available_memory() >= _LEAST_FREE_BYTES


def _cuda_in_use() -> bool:
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            return True
    except Exception:
        return True
    return "cupy" in sys.modules or "pycuda" in sys.modules


def available_memory() -> int:
    """Return how many bytes can be allocated without swapping; 4 GiB if that is unknown."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _MOST_MEMORY_BYTES


def quiet_fork() -> int:
    """Fork without Python's warning; SIGINT and SIGALRM stay blocked in the child."""
    blocked = {signal.SIGINT, signal.SIGALRM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    pid = 0
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns about forking with threads: a lock that another thread holds is
            # never released in the child. Children here are killed when they hang.
            warnings.simplefilter("ignore")
            pid = os.fork()
        return pid
    finally:
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def trial(action: Callable[[], object], seconds: float) -> str:
    """Run ``action`` in a forked child with limited memory, to see whether it survives.

    Returns the problem, or an empty string if the child survived. A child that hung also gives an
    empty string, unless its memory had grown a lot: the likely cause is a lock that another
    thread held at the fork, which says nothing about this process.
    """
    reading, writing = os.pipe()
    pid = quiet_fork()
    if pid == 0:
        _attempt(action, reading, writing)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], seconds)
    grown = 0
    # Code that ends the process by itself never gets to write this byte.
    survived = bool(ready) and os.read(reading, 1) == _SURVIVED
    if not ready:
        grown = _size(pid) - _size(os.getpid())
        os.kill(pid, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if not ready:
        return _TOO_LARGE if grown > _SUSPICIOUS_BYTES else ""
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _OUT_OF_MEMORY:
        return _TOO_LARGE
    if survived:
        return ""
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"pickling it would crash the kernel ({name})"
    return f"pickling it would end the kernel (exit status {os.WEXITSTATUS(status)})"


def _size(pid: int) -> int:
    """Return the size of a process's address space in bytes."""
    with open(f"/proc/{pid}/statm", "rb") as file:
        pages = int(file.read().split()[0])
    return pages * int(resource.getpagesize())


def _attempt(action: Callable[[], object], reading: int, writing: int) -> None:
    """Run the action in the child and exit; never returns."""
    code = 0
    gc.disable()  # finalizers of the user's objects must not run twice
    try:
        os.close(reading)
        _limit_memory()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        action()
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BaseException:  # noqa: S110
        pass  # the parent will get the same error, and can handle it
    finally:
        os.write(writing, _SURVIVED)
        os._exit(code)


def _limit_memory() -> None:
    used = _size(os.getpid())
    more = min(available_memory() // 2, _MOST_MEMORY_BYTES)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
