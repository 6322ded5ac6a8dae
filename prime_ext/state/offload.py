"""Running a writer: in a forked child, in a thread, or in the calling thread.

A forked child has the memory as it was at the fork, so the kernel can continue at once. The child
must not do anything but hashing and system calls, because locks that other threads held at the
fork are never released in it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import forking, writer
from .errors import SnapshotWriteError
from .plain_json import dumps, loads
from .writer import Job, Written

STALL_SECONDS = 30.0
"""A forked writer is killed after this long without progress; in an fsync, which cannot report
progress, after ten times as long."""

_SLOW = b"s"


class WriterLost(SnapshotWriteError):
    """The child was killed or hung, so that another attempt to write may succeed."""


class ForkedWriter:
    """A writer in a forked child process.

    The child has a process session of its own, so it does not receive the kernel's interrupts, and
    closes all file descriptors except its pipe and the directory's lock. It survives the kernel.
    """

    def __init__(self, job: Job) -> None:
        reading, writing = os.pipe()
        lock = job.directory / "kernel-state.d" / "lock"
        # Duplicates of the lock's descriptor for the child: filelock closes its own in every fork.
        copies = [os.dup(descriptor) for descriptor in _descriptors_of(lock)]
        try:
            self.pid = forking.quiet_fork()
            if self.pid == 0:
                _run_child(job, writing, lock)
        finally:
            for descriptor in (writing, *copies):
                os.close(descriptor)
        self._reading = reading

    def wait(self) -> Written:
        """Wait for the child and return its result.

        Raises `SnapshotWriteError`, or `WriterLost` if the child was killed or hung.
        """
        received = bytearray()
        try:
            while True:
                patience = STALL_SECONDS * (10 if received.endswith(_SLOW) else 1)
                ready, _, _ = select.select([self._reading], [], [], patience)
                if not ready:
                    os.kill(self.pid, signal.SIGKILL)
                    raise WriterLost(f"Writing the snapshot made no progress for {patience:g} s.")
                chunk = os.read(self._reading, 65536)
                if not chunk:
                    break
                received += chunk
        finally:
            os.close(self._reading)
        outcome = bytes(received).lstrip(b"." + _SLOW)
        if not outcome:
            raise WriterLost("The process that wrote the snapshot was killed.")
        message = loads(outcome)
        if "error" in message:
            raise SnapshotWriteError(message["error"])
        return Written(**message)

    def reap(self) -> None:
        """Wait for the child process to end.

        Freeing its memory takes a moment, so this is called after the result has been delivered.
        """
        with suppress(ChildProcessError):  # the user's program may have waited for all children
            os.waitpid(self.pid, 0)


def _run_child(job: Job, pipe: int, lock: Path) -> None:
    """Write in the child and exit. Never returns, or the child would go on as a second kernel."""
    gc.disable()  # finalizers of the user's objects must not run twice
    try:
        os.setsid()
        _close_inherited(pipe, lock)

        def progress(slow: bool) -> None:
            _write_all(pipe, _SLOW if slow else b".")

        try:
            message: dict[str, Any] = vars(writer.write(job, progress))
        except BaseException as error:
            message = {"error": str(error) or type(error).__name__}
        _write_all(pipe, dumps(message).encode())
        os.close(pipe)
    finally:
        os._exit(0)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError:
            return  # the kernel has ended; the child finishes the snapshot nevertheless


def _close_inherited(pipe: int, lock: Path) -> None:
    kept = {pipe, *_descriptors_of(lock)}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def _descriptors_of(path: Path) -> list[int]:
    """Return this process's descriptors of a file."""
    found = []
    with suppress(OSError):
        wanted = os.stat(path)
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.path.samestat(os.fstat(int(name)), wanted):
                    found.append(int(name))
    return found


class Writing:
    """One write of a snapshot.

    Parameters
    ----------
    job: what to write.
    fork: write in a child, which is forked here and starts at once. Otherwise, or if the fork
        fails, writing begins with `start`.
    wait: `start` returns only when the write has ended.
    done: called with the result or exception, and with ``fork``, ``thread`` or ``inline``, in the
        thread that waited for it.
    """

    def __init__(
        self,
        job: Job,
        *,
        fork: bool,
        wait: bool,
        done: Callable[[Written | BaseException, str], None],
    ) -> None:
        self._job: Job | None = job
        self._done = done
        self._forked: ForkedWriter | None = None
        self.kind = "fork" if fork else ("inline" if wait else "thread")
        if fork:
            try:
                self._forked = ForkedWriter(job)
            except OSError:
                self.kind = "inline" if wait else "thread"
        self._waits = wait
        if self.kind == "thread":
            job.hold_moment()
        if self._forked is not None and not wait:
            # The child has all it needs. The job must not keep the user's objects alive, nor
            # prevent arrays from being resized. The rest is freed when the child has ended: until
            # then, that would copy the memory pages that they share.
            job.release()

    def start(self) -> None:
        """Write unless a child does, and wait for the result, here or in a thread."""
        if self._waits:
            self._run()
        else:
            threading.Thread(target=self._run, name="prime-state-writer", daemon=True).start()

    def _run(self) -> None:
        outcome: Written | BaseException
        try:
            outcome = self._forked.wait() if self._forked is not None else self._write_here()
        except SnapshotWriteError as error:
            outcome = error
            if self._forked is not None and self._waits and isinstance(error, WriterLost):
                # The caller has been blocked, so the objects have not changed: write them here.
                self.kind = "inline"
                try:
                    outcome = self._write_here()
                except BaseException as second:
                    outcome = second
        except BaseException as error:
            outcome = error
        self._done(outcome, self.kind)
        if self._forked is not None:
            threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        assert self._forked is not None
        self._forked.reap()
        self._job = None

    def _write_here(self) -> Written:
        assert self._job is not None
        return writer.write(self._job, lambda _slow: None)


def monotonic_ms(since: float) -> float:
    """Return the milliseconds since a `time.perf_counter` value."""
    return round((time.perf_counter() - since) * 1000, 3)
