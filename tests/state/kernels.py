"""Real kernels for the tests of kernel state, and cases that run in them."""

from __future__ import annotations

import os
import re
import signal
import textwrap
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager
from jupyter_client.session import Session

ROOT = Path(__file__).parents[2]
SECONDS = 60
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class KernelError(AssertionError):
    """Code in the kernel raised; the message is its traceback."""


class Kernel:
    """An ipykernel process."""

    def __init__(self, directory: Path, env: dict[str, str] | None = None) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(
            cwd=str(directory), env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        )
        self.client = self._manager.client(session=Session(key=self._manager.session.key))
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def run(self, code: str) -> str:
        """Run a cell; returns what it printed, raises `KernelError` if it raised."""
        message_id = self.client.execute(textwrap.dedent(code))
        printed: list[str] = []
        problem = ""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=SECONDS)
            except Empty:
                raise KernelError("the kernel did not answer") from None
            if message["parent_header"].get("msg_id") != message_id:
                continue
            content: dict[str, Any] = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] == "error":
                problem = _ANSI.sub("", "\n".join(content["traceback"]))
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        if problem:
            raise KernelError(problem)
        return "".join(printed)

    @property
    def pid(self) -> int:
        """Process id of the kernel."""
        pid: int = self._manager.provisioner.pid  # type: ignore[union-attr]
        return pid

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it and free its sockets."""
        self.client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()


@dataclass(frozen=True)
class Case:
    """Something people do in notebooks.

    ``setup`` is a cell that defines names of its own; ``check`` asserts how they behave after a
    restore; ``names`` are those to restore (they are deleted before a hot restore). Each must
    have been read back by the process that verifies, unless it holds a placeholder.
    """

    id: str
    names: str
    setup: str
    check: str


class CasesInKernels:
    """Runs many cases in one kernel, saves once, and restores both ways.

    All cases share a namespace, as things do in a notebook. `hot` is the saving kernel, in which
    the names were deleted and restored; `cold` a fresh one.
    """

    def __init__(self, cases: list[Case], directory: Path, key: bytes) -> None:
        self.directory = directory
        work = directory / "work"
        work.mkdir()
        self.snapshot = str(directory / "snapshot")
        self.hot = Kernel(work)
        try:
            for case in cases:
                self.hot.run(case.setup)
            self.hot.run(
                f"""
                from prime_ext import state as _state
                _key = {key!r}
                _saved = _state.save({self.snapshot!r}, key=_key, verify='wait')
                """
            )
            names = [name for case in cases for name in case.names.split()]
            self.hot.run(
                f"""
                del {", ".join(names)}
                _loaded = _state.load({self.snapshot!r}, key=_key, mode='hot')
                """
            )
            self.cold = Kernel(work)
        except BaseException:
            self.hot.stop()
            raise
        self.cold.run(
            f"""
            from prime_ext import state as _state
            _key = {key!r}
            _loaded = _state.load({self.snapshot!r}, key=_key, mode='cold')
            """
        )

    def check(self, case: Case, where: str) -> None:
        """Assert that the case's names behave as before."""
        kernel = self.hot if where == "hot" else self.cold
        if where == "hot":
            kernel.run(
                f"""
                for _name in {case.names.split()!r}:
                    assert _saved.names[_name].status in ("verified", "degraded"), (
                        _name, _saved.names[_name])
                """
            )
        kernel.run(
            f"""
            for _name in {case.names.split()!r}:
                assert _name in globals(), (_name, _loaded.names.get(_name))
            """
        )
        kernel.run(case.check)

    def stop(self) -> None:
        """End both kernels."""
        self.hot.stop()
        self.cold.stop()
