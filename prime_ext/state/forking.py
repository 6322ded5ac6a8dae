"""Whether this process may be forked, and trying something out in a fork."""

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
    """Whether a fork of this process can be expected to reach its end."""
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
    """Bytes that can still be had without swapping, as far as the system tells."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _MOST_MEMORY_BYTES


def quiet_fork() -> int:
    """`os.fork` with interrupts held back, which the child keeps, and without Python's warning."""
    blocked = {signal.SIGINT, signal.SIGALRM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    pid = 0
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns of forking with threads; the children here run none of their code.
            warnings.simplefilter("ignore")
            pid = os.fork()
        return pid
    finally:
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def trial(action: Callable[[], object], seconds: float) -> str:
    """Do something in a forked child with limited memory, to see whether it survives.

    Returns an empty string if it did, or if the child hung (a lock that another thread held at
    the fork does that, and says nothing about this process); else what happened to it.
    """
    reading, writing = os.pipe()
    pid = quiet_fork()
    if pid == 0:
        _attempt(action, reading, writing)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], seconds)
    grown = 0
    # What ends the process by itself, from wherever, leaves no time to say so.
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
    """Bytes of address space of a process."""
    with open(f"/proc/{pid}/statm", "rb") as file:
        pages = int(file.read().split()[0])
    return pages * int(resource.getpagesize())


def _attempt(action: Callable[[], object], reading: int, writing: int) -> None:
    """In the child; never returns."""
    code = 0
    gc.disable()  # finalizers of the user's objects are not to run twice
    try:
        os.close(reading)
        _limit_memory()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        action()
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BaseException:  # noqa: S110
        pass  # the parent will meet the same error, and can deal with it
    finally:
        os.write(writing, _SURVIVED)
        os._exit(code)


def _limit_memory() -> None:
    used = _size(os.getpid())
    more = min(available_memory() // 2, _MOST_MEMORY_BYTES)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
