"""Reading a snapshot back, in a process of its own.

A name counts as verified only when a fresh process has loaded its component and pickled it again
with the same result. That process has a low priority, an empty scratch directory as its working
directory, stubs for files and databases, and an audit hook that refuses to write outside that
directory, to connect, or to start a process. It ends by ``os._exit``. A component that crashes or
hangs the worker does not affect the others: a new worker reads the rest.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from . import carry, comparison, format, reducers, restorers, verification
from .errors import SnapshotError
from .format import Head, Manifest
from .loader import Loader
from .pickling import describe
from .plain_json import dumps, loads
from .segments import SegmentReader

SECONDS_PER_COMPONENT = 30.0
SECONDS_TOTAL = 300.0

_BEGINNING = "getting ready to read it back"
_READING = "reading it back"
_COMPARING = "comparing it with what was saved"

_running: dict[str, subprocess.Popen[str]] = {}

_BOOT = """
import json, sys
spec = json.loads(sys.stdin.read())
sys.dont_write_bytecode = True
sys.path[:] = spec["path"]
exec(spec["code"], {"__name__": "_prime_state_loader"})
sys.modules["_prime_state"].verifier.main(spec)
"""


def start(directory: Path, key: bytes) -> subprocess.Popen[str] | None:
    """Start verifying, in the background, the components that are not verified yet.

    Returns None if a verifier of this directory is already running, or where there is no fork.
    """
    if not hasattr(os, "fork"):
        return None  # code that runs while loading cannot be contained; names stay unverified
    running = _running.get(str(directory))
    if running is not None and running.poll() is None:
        return None
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONHASHSEED": "0", "MPLBACKEND": "agg"},
    )
    _running[str(directory)] = process
    spec = {
        "code": carry.code(),
        "path": list(map(str, sys.path)),
        "directory": str(directory),
        "key": key.hex(),
        "seconds_per_component": SECONDS_PER_COMPONENT,
        "seconds_total": SECONDS_TOTAL,
    }
    threading.Thread(
        target=_feed, args=(process, dumps(spec)), name="prime-state-verify", daemon=True
    ).start()
    return process


def _feed(process: subprocess.Popen[str], spec: str) -> None:
    """Send the spec through a pipe: it contains the key, and command lines are visible to all."""
    with contextlib.suppress(OSError):  # the process ended early; nothing gets verified
        process.communicate(spec)


def run(directory: Path, key: bytes, timeout: float = SECONDS_TOTAL) -> None:
    """Verify and wait until that is done, up to ``timeout`` seconds.

    A verifier that was already running may have missed the newest snapshot, so another one is run
    after it.
    """
    deadline = time.monotonic() + timeout
    while True:
        process = start(directory, key)
        waited = process or _running.get(str(directory))
        if waited is None:
            return
        try:
            waited.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return
        if process is not None:
            return


def main(spec: dict[str, Any]) -> None:
    """Run the supervisor, which hands components to workers and records their results."""
    directory, key = Path(spec["directory"]), bytes.fromhex(spec["key"])
    _lower_priority()
    reducers.load()
    restorers.publish()
    try:
        with tempfile.TemporaryDirectory(prefix="prime-state-") as scratch:
            os.chdir(scratch)
            _verify_until_current(directory, key, spec)
            os.chdir("/")
    finally:
        os._exit(0)


def _lower_priority() -> None:
    if hasattr(os, "nice"):
        os.nice(19)


def _verify_until_current(directory: Path, key: bytes, spec: dict[str, Any]) -> None:
    """Verify the current snapshot, and again if another one was saved in the meantime."""
    give_up = time.monotonic() + spec["seconds_total"]
    seen = -1
    while time.monotonic() < give_up:
        try:
            head = format.read_head(directory, key)
        except SnapshotError:
            return
        if head.manifest.generation == seen:
            return
        seen = head.manifest.generation
        known = verification.read(directory, key)
        wanted = [
            index
            for index, record in enumerate(head.manifest.components)
            if not record.verified and record.fingerprint not in known
        ]
        current = {record.fingerprint for record in head.manifest.components}
        results = {mark: problem for mark, problem in known.items() if mark in current}
        verification.write(directory, key, results)
        for found in verify(directory, head, wanted, results, spec["seconds_per_component"]):
            # Written after each worker: a restore may come any time, and leaves out what hung.
            results.update(found)
            verification.write(directory, key, results)
            if time.monotonic() > give_up:
                break


def verify(
    directory: Path, head: Head, wanted: list[int], known: dict[str, str], seconds: float
) -> Iterator[dict[str, str]]:
    """Yield the results of one worker after the other, until all ``wanted`` components are read.

    A result maps component fingerprints to a problem, or to an empty string. ``seconds`` is the
    time limit for a small component; large ones get more.
    """
    records = head.manifest.components
    pending = list(wanted)
    dangers = verification.dangers(head.manifest, known)
    while pending:
        found = _Worker(directory, head, pending, dangers).results(seconds)
        results = {records[index].fingerprint: problem for index, problem in found.items()}
        dangers.update(verification.dangers(head.manifest, results))
        pending = [index for index in pending if index not in found]
        yield results


class _Worker:
    """A forked child that loads components one by one and reports each through a pipe."""

    def __init__(
        self, directory: Path, head: Head, pending: list[int], dangers: dict[int, str]
    ) -> None:
        self._pending = list(pending)
        self._records = head.manifest.components
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._reading)
                _work(directory, head, self._pending, dangers, writing)
            finally:
                os._exit(0)
        os.close(writing)

    def results(self, seconds: float) -> dict[int, str]:
        """Return component index → problem, including the one that crashed or hung the worker."""
        found: dict[int, str] = {}
        received = b""
        problem = ""
        index, step = self._pending[0], _BEGINNING
        while True:
            allowed = verification.seconds_for(self._records[index], seconds)
            ready, _, _ = select.select([self._reading], [], [], allowed)
            if not ready:
                problem = f"{step} took longer than {allowed:.0f} s"
                os.kill(self._pid, signal.SIGKILL)
                break
            chunk = os.read(self._reading, 65536)
            if not chunk:
                break
            received += chunk
            *lines, received = received.split(b"\n")
            for line in lines:
                index, step, done = loads(line)
                if done is not None:
                    found[index] = done
                    step = _BEGINNING
        os.close(self._reading)
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status) and not problem:
            problem = f"{step} ended the process by signal {os.WTERMSIG(status)}"
        left = [one for one in self._pending if one not in found]
        if left:
            # If the last one reported is finished, the worker was about to read the next one.
            index = left[0] if index in found else index
            found[index] = problem or f"{step} ended the process"
        return found


def _work(
    directory: Path, head: Head, pending: list[int], dangers: dict[int, str], pipe: int
) -> None:
    def tell(index: int, step: str, problem: str | None = None) -> None:
        os.write(pipe, dumps([index, step, problem]).encode() + b"\n")

    namespace: dict[str, Any] = vars(sys.modules["__main__"])
    reader = SegmentReader(directory / format.DATA_NAME)
    reader.open_all(head.manifest.segments())
    loader = Loader(head, reader, namespace, sys.maxsize, SECONDS_PER_COMPONENT)
    loader.context.sandboxed = True
    guard()
    # All classes first: nearly every component needs some of them.
    problems = loader.load_classes(dangers, lambda index: tell(index, _READING))
    for index in pending:
        try:
            problem = problems.get(index, "")
            if not problem:
                problem = _read_back(loader, index, head.manifest, dangers, tell)
        except BaseException as error:
            problem = describe(error)
        tell(index, _READING, problem)


def _read_back(
    loader: Loader,
    index: int,
    manifest: Manifest,
    dangers: dict[int, str],
    tell: Callable[[int, str], None],
) -> str:
    record = manifest.components[index]
    asked = set(dangers)

    def compare() -> str:
        tell(index, _COMPARING)
        return comparison.differs(loader, record)

    with restorers.loading(loader.context):
        names = [name for what, name in record.roots if what == "name"]
        _read(loader, index, manifest, asked, tell)
        for name in names:
            expected = manifest.names[name]["type"]
            difference = comparison.type_differs(loader.context.namespace[name], expected)
            if difference:
                return difference
        return _with_globals(compare, loader, manifest, asked, tell)


def _read(
    loader: Loader,
    index: int,
    manifest: Manifest,
    asked: set[int],
    tell: Callable[[int, str], None],
) -> None:
    """Load a component into the namespace."""
    record = manifest.components[index]

    def read() -> None:
        tell(index, _READING)
        # Modules are not patched here: the value of a patch is stored under its place's name.
        own = [value for what, value in record.roots if what in ("name", "patch")]
        loader.context.namespace.update(loader.read(record, own))

    _with_globals(read, loader, manifest, asked, tell)


_Result = TypeVar("_Result")


def _with_globals(
    action: Callable[[], _Result],
    loader: Loader,
    manifest: Manifest,
    asked: set[int],
    tell: Callable[[int, str], None],
) -> _Result:
    """Do something that runs code of the notebook.

    If this code reads a global name that is not loaded yet, load the component of that name and
    try again.
    """
    while True:
        try:
            return action()
        except Exception as error:  # a library may raise an error of its own, with this text
            needed = _MISSING_NAME.search(str(error))
            name = needed[1] if needed else ""
            component = manifest.names.get(name, {}).get("component")
            if component is None or component in asked:
                raise
            asked.add(component)
            _read(loader, component, manifest, asked, tell)


_MISSING_NAME = re.compile("name '(.+?)' is not defined")

_FORBIDDEN = frozenset(
    {
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.fork",
        "os.forkpty",
        "os.kill",
        "os.killpg",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.truncate",
        "os.mkdir",
        "os.link",
        "os.symlink",
        "os.chmod",
        "os.chown",
        "shutil.rmtree",
        "shutil.move",
        "shutil.copyfile",
        "socket.connect",
        "socket.bind",
        "socket.sendto",
        "subprocess.Popen",
        "webbrowser.open",
        "smtplib.connect",
        "ftplib.connect",
        "urllib.Request",
    }
)


def guard() -> None:
    """Install an audit hook that refuses effects outside this process; it cannot be removed."""
    scratch = os.getcwd()

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FORBIDDEN:
            raise PermissionError(f"{event} is not allowed while a snapshot is verified")
        if event == "open":
            path, _, flags = (*arguments, None, None, None)[:3]
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and isinstance(path, (str, bytes)):
                inside = os.path.abspath(os.fsdecode(path)).startswith(scratch)
                if not inside and os.fsdecode(path) != os.devnull:
                    raise PermissionError(f"writing {path!r} while a snapshot is verified")

    sys.addaudithook(refuse)
