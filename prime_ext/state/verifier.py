"""Reading a snapshot back, in a process of its own.

A name counts as verified only when a fresh process has loaded its component and pickled it again
with the same result. That process has a low priority, an empty scratch directory as its working
directory, stand-ins for files and databases, and a guard that refuses to write, connect or start
anything. It ends by ``os._exit``. What crashes or hangs it concerns one component: the rest is
read by a new worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from . import carry, comparison, format, reducers, restorers, verification
from .errors import SnapshotError
from .format import ComponentRecord, Head, Manifest
from .load import Loader
from .pickling import describe
from .segments import SegmentReader

SECONDS_PER_COMPONENT = 30.0
SECONDS_TOTAL = 300.0

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
    """Verify what is not verified yet, in the background; None if that is under way already."""
    if not hasattr(os, "fork"):
        return None  # there is no way to contain what loading may do; names stay unverified
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
        target=_feed, args=(process, json.dumps(spec)), name="prime-state-verify", daemon=True
    ).start()
    return process


def _feed(process: subprocess.Popen[str], spec: str) -> None:
    """The key goes through the pipe: a command line is visible to other users."""
    with contextlib.suppress(OSError):  # it ended early; nothing gets verified
        process.communicate(spec)


def run(directory: Path, key: bytes, timeout: float = SECONDS_TOTAL) -> None:
    """Verify now and wait for it."""
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
    """The supervisor: hands components to workers, collects results, writes the record."""
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
    """Once more if another snapshot was saved meanwhile."""
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
        results = verify(directory, head, wanted, spec["seconds_per_component"], give_up)
        current = {record.fingerprint for record in head.manifest.components}
        kept = {mark: problem for mark, problem in known.items() if mark in current}
        verification.write(directory, key, {**kept, **results})


def verify(
    directory: Path, head: Head, wanted: list[int], seconds: float, give_up: float
) -> dict[str, str]:
    """Component fingerprint → problem, or an empty string."""
    records = head.manifest.components
    results: dict[str, str] = {}
    pending = list(wanted)
    while pending and time.monotonic() < give_up:
        worker = _Worker(directory, head, pending)
        for index, problem in worker.results(seconds):
            results[records[index].fingerprint] = problem
            pending.remove(index)
    return results


class _Worker:
    """A forked child that loads components one by one and reports each through a pipe."""

    def __init__(self, directory: Path, head: Head, pending: list[int]) -> None:
        self._pending = list(pending)
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._reading)
                _work(directory, head, self._pending, writing)
            finally:
                os._exit(0)
        os.close(writing)

    def results(self, seconds: float) -> list[tuple[int, str]]:
        """All results; the component at which the worker crashed or hung is the last one."""
        found: list[tuple[int, str]] = []
        received = b""
        problem = ""
        while True:
            ready, _, _ = select.select([self._reading], [], [], seconds)
            if not ready:
                problem = f"reading it back took longer than {seconds:g} s"
                os.kill(self._pid, signal.SIGKILL)
                break
            chunk = os.read(self._reading, 65536)
            if not chunk:
                break
            received += chunk
            *lines, received = received.split(b"\n")
            found += [tuple(json.loads(line)) for line in lines]
        os.close(self._reading)
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status) and not problem:
            problem = f"reading it back ended the process by signal {os.WTERMSIG(status)}"
        if len(found) < len(self._pending):
            found.append(
                (self._pending[len(found)], problem or "reading it back ended the process")
            )
        return found


def _work(directory: Path, head: Head, pending: list[int], pipe: int) -> None:
    namespace: dict[str, Any] = vars(sys.modules["__main__"])
    reader = SegmentReader(directory / format.DATA_NAME)
    reader.open_all(head.manifest.segments())
    loader = Loader(head, reader, namespace, sys.maxsize, SECONDS_PER_COMPONENT)
    loader.context.sandboxed = True
    guard()
    # Classes first, in one go: nearly every component needs some of them.
    problems = loader.load_classes()
    for index in pending:
        record = head.manifest.components[index]
        try:
            problem = problems.get(index, "")
            if not problem:
                problem = _read_back(loader, record, head.manifest)
        except BaseException as error:
            problem = describe(error)
        os.write(pipe, json.dumps([index, problem]).encode() + b"\n")


def _read_back(loader: Loader, record: ComponentRecord, manifest: Manifest) -> str:
    with restorers.loading(loader.context):
        names = [name for what, name in record.roots if what == "name"]
        _read(loader, record, manifest, set())
        for name in names:
            expected = manifest.names[name]["type"]
            difference = comparison.type_differs(loader.context.namespace[name], expected)
            if difference:
                return difference
        return comparison.differs(loader, record)


def _read(loader: Loader, record: ComponentRecord, manifest: Manifest, asked: set[str]) -> None:
    """Read a component; before it, those that hold the global names its code turns out to read."""
    while True:
        try:
            # A patched module stays as it is here; what belongs there lies under the place's name.
            own = [value for what, value in record.roots if what in ("name", "patch")]
            loader.context.namespace.update(loader.read(record, own))
            return
        except NameError as error:
            needed = _MISSING_NAME.match(str(error))
            name = needed[1] if needed else ""
            component = manifest.names.get(name, {}).get("component")
            if component is None or name in asked:
                raise
            asked.add(name)
            _read(loader, manifest.components[component], manifest, asked)


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
    """From here on this process refuses to reach outside (there is no way back)."""
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
