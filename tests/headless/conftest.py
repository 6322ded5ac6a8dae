"""``jupyter prime run`` against the strict test API.

Where signals, a terminal or the end of the process matter it runs in a process of its own, which
takes seconds to import a server and the SDK; everywhere else in this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import nbformat
import pytest

from prime_ext.cli.main import main
from tests.messages_api.server import MessagesAPI

PATIENCE = 90.0
Start = Callable[..., "Process"]
CarryOut = Callable[..., "Ended"]


@dataclass(frozen=True)
class Ended:
    """What a run left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.out)
        return values


@dataclass
class Process:
    """One run. ``terminal`` is our side of its terminal, if it has one."""

    popen: subprocess.Popen[str]
    terminal: int | None = None
    _err: list[str] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)
    _out: list[str] = field(default_factory=list)
    _grown: threading.Condition = field(default_factory=threading.Condition)

    def follow(self) -> None:
        """Begin to read what it prints."""
        if self.terminal is None:
            assert self.popen.stderr is not None
            self._read(self.popen.stderr, self._err)
        else:
            # A terminal ends with EIO where a pipe would with nothing.
            self._read(os.fdopen(os.dup(self.terminal), encoding="utf-8"), self._err)
        assert self.popen.stdout is not None
        self._read(self.popen.stdout, self._out)

    def _read(self, stream: IO[str], into: list[str]) -> None:
        def read() -> None:
            with contextlib.suppress(OSError), stream:
                while character := stream.read(1):
                    with self._grown:
                        into.append(character)
                        self._grown.notify_all()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self._readers.append(reader)

    @property
    def err(self) -> str:
        return "".join(self._err)

    @property
    def out(self) -> str:
        return "".join(self._out)

    def see(self, text: str, *, times: int = 1) -> None:
        """Wait until ``text`` stands on the error stream."""
        with self._grown:
            seen = self._grown.wait_for(lambda: self.err.count(text) >= times, PATIENCE)
        assert seen, self.err

    def type(self, text: str) -> None:
        assert self.terminal is not None
        os.write(self.terminal, text.encode())

    def interrupt(self) -> None:
        self.popen.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Its exit status, once it has ended."""
        status = self.popen.wait(PATIENCE)
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None
        for reader in self._readers:
            reader.join(5)
        return status

    def is_read(self) -> bool:
        """Whether all that it has printed was read to its end; once it has ended."""
        return not any(reader.is_alive() for reader in self._readers)

    @property
    def json(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.out)
        return values


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the shell stands, with the notebook ``work.ipynb``."""
    folder = tmp_path / "work"
    folder.mkdir()
    node = nbformat.v4.new_notebook()
    node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    node.cells = [nbformat.v4.new_markdown_cell("# Notes"), nbformat.v4.new_code_cell("x = 1")]
    nbformat.write(node, folder / "work.ipynb")
    return folder


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], messages_api: MessagesAPI, tmp_path: Path
) -> dict[str, Any]:
    """A Jupyter server beside the runs: the same model, its sessions in ``prime``."""
    return {
        **jp_server_config,
        "PrimeExtension": {"data_dir": str(tmp_path / "prime")},
        "ModelConfig": {"base_url": messages_api.url, "api_key": messages_api.key},
    }


@pytest.fixture
def environment(tmp_path: Path, messages_api: MessagesAPI) -> dict[str, str]:
    """Of a machine on which nobody has used Jupyter, with a key for the test API."""
    own = {
        f"JUPYTER_{name}_DIR": str(tmp_path / "jupyter" / name.lower())
        for name in ("CONFIG", "DATA", "RUNTIME")
    }
    return {
        **os.environ,
        **own,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONWARNINGS": "error",
        "PRIME_API_KEY": messages_api.key,
        "ANTHROPIC_BASE_URL": messages_api.url,
    }


@pytest.fixture
def carry_out(
    folder: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CarryOut:
    """``carry_out("work.ipynb", "task", "--yes")`` → what came of it, without a terminal."""
    monkeypatch.chdir(folder)

    def run(*arguments: str | Path, variables: dict[str, str | None] | None = None) -> Ended:
        capsys.readouterr()
        for name, value in {**environment, **(variables or {})}.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        status = main(["run", *map(str, arguments)])
        return Ended(status, *capsys.readouterr())

    return run


@pytest.fixture
def start(folder: Path, environment: dict[str, str]) -> Iterator[Start]:
    """``start("work.ipynb", "task", "--yes", terminal=True)`` → the running process."""
    running: list[Process] = []

    def begin(
        *arguments: str | Path,
        terminal: bool = False,
        stdin: str | None = None,
        variables: dict[str, str | None] | None = None,
    ) -> Process:
        env = {**environment, **(variables or {})}
        ours, theirs = os.openpty() if terminal else (None, None)
        popen = subprocess.Popen(
            [sys.executable, "-m", "prime_ext.cli.main", "run", *map(str, arguments)],
            cwd=folder,
            env={name: value for name, value in env.items() if value is not None},
            stdin=theirs if terminal else subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs if terminal else subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        if theirs is not None:
            os.close(theirs)
        process = Process(popen, ours)
        running.append(process)
        process.follow()
        if stdin and popen.stdin is not None:
            popen.stdin.write(stdin)
            popen.stdin.close()
        return process

    yield begin
    for process in running:
        if process.popen.poll() is None:
            process.popen.kill()
        process.end()


def appears(path: Path) -> None:
    """Wait for a file that the agent's code makes and writes."""
    until = time.monotonic() + PATIENCE
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
