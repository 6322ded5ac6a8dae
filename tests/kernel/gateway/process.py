"""A real jupyter-kernel-gateway on this machine, whose kernels do not see the server's files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

TOKEN = "token-of-the-gateway"
START_SECONDS = 60.0

HIDE = """
import os, sys

def _hide(event, arguments, hidden={hidden!r}, text=(str, bytes)):
    if event == "open" and isinstance(arguments[0], text):
        if os.path.realpath(os.fsdecode(arguments[0])).startswith(hidden):
            raise FileNotFoundError(2, "No such file or directory", arguments[0])

sys.addaudithook(_hide)
"""


def make_environment(folder: Path, packages: list[str], hidden: Path) -> str:
    """A virtual environment with ``packages`` and what they need, and nothing else.

    Its Pythons find no file below ``hidden``. The packages are linked, which takes no network and
    no time. Returns the path of its Python.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    for name in _closure(packages):
        for file in metadata.distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
    (site / "sitecustomize.py").write_text(HIDE.format(hidden=str(hidden.resolve())))
    return str(folder / "bin" / "python")


def _closure(packages: list[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


class Gateway:
    """The gateway's process."""

    def __init__(self, home: Path, pythons: dict[str, str], *options: str) -> None:
        self.home = home
        for name, python in pythons.items():
            spec = home / "share" / "kernels" / name
            spec.mkdir(parents=True)
            argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            (spec / "kernel.json").write_text(
                json.dumps({"argv": argv, "display_name": name, "language": "python"})
            )
        self.work = home / "work"
        self.work.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.log = (home / "log").open("w")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kernel_gateway",
                "--KernelGatewayApp.ip=127.0.0.1",
                f"--KernelGatewayApp.port={self.port}",
                "--KernelGatewayApp.port_retries=0",
                f"--KernelGatewayApp.auth_token={TOKEN}",
                "--JupyterWebsocketPersonality.list_kernels=True",
                "--KernelRestarter.time_to_dead=0.3",
                *options,
            ],
            cwd=self.work,
            env={
                **os.environ,
                "JUPYTER_PATH": str(home / "share"),
                "JUPYTER_CONFIG_DIR": str(home / "config"),
                "JUPYTER_RUNTIME_DIR": str(home / "run"),
                "IPYTHONDIR": str(home / "ipython"),
            },
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        request = urllib.request.Request(
            f"{self.url}/api/kernelspecs", headers={"Authorization": f"token {TOKEN}"}
        )
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5):
                return
            assert self._process.poll() is None, (self.home / "log").read_text()
            assert time.monotonic() < deadline, (self.home / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self.log.close()


@contextlib.contextmanager
def running_gateway(home: Path, pythons: dict[str, str], *options: str) -> Iterator[Gateway]:
    gateway = Gateway(home, pythons, *options)
    try:
        gateway.wait_until_ready()
        yield gateway
    finally:
        gateway.stop()


class Door:
    """A TCP proxy in front of the gateway, whose connections can be cut."""

    def __init__(self, gateway: Gateway) -> None:
        self._target = gateway.port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = True
        """While false, nobody gets in."""
        self.passed = 0
        """Bytes that went through, both ways."""
        self.on_passed: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if self.is_open:
                there, back = await asyncio.open_connection("127.0.0.1", self._target)
                self._writers.add(back)
                await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                self.passed += len(data)
                sink.write(data)
                await sink.drain()
                self.on_passed()
        sink.close()

    def cut(self) -> None:
        """End every connection without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self.cut()
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
