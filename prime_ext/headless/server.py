"""A Jupyter server inside this process: its managers and the extension, without a port."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any

import zmq
from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from traitlets import default
from traitlets.config import Config

from prime_ext.app import PrimeExtension
from prime_ext.cli.place import CONFIG_FILES
from prime_ext.errors import PrimeError
from prime_ext.headless.traits import BAD_TRAIT, refuse_bad, refuse_unknown

if TYPE_CHECKING:
    from prime_ext.agent.service import AgentService
    from prime_ext.notebook.notebook_locks import NotebookLocks
    from prime_ext.session.store import SessionStore


STDERR = 2
"""File descriptor of the process's error stream."""


class HeadlessServer(ServerApp):
    """A server with the configured managers of contents, kernels and sessions.

    It binds no port and writes no runtime file, so other programs cannot find it. It loads only
    this extension and those named in ``ServerApp.jpserver_extensions``.
    """

    # Listed here so that the command-line parser knows which of their traits are lists.
    classes = [*ServerApp.classes, PrimeExtension, *PrimeExtension.classes]  # noqa: RUF012

    root_if_unset: str = ""
    """Root folder, if the configuration names none."""

    @classmethod
    def begin(cls, notebook: Path, traits: Sequence[str]) -> HeadlessServer:
        """Start a server that can open ``notebook``. An event loop must be running.

        Parameters
        ----------
        traits:
            Configuration as on the command line: ``--Class.trait=value``.

        Raises
        ------
        PrimeError
            ``bad_trait``: a trait is unknown or has an invalid value.
        """
        refuse_bad(traits, [cls, *cls.classes])
        server = cls(
            config=_encrypted_kernels(),
            jpserver_extensions={"prime_ext": True},
            reraise_server_extension_failures=True,
            shutdown_no_activity_timeout=0,
        )
        here, folder = Path.cwd(), _absolute(notebook).parent
        server.root_if_unset = str(here if folder.is_relative_to(here) else folder)
        server.log.addFilter(_is_news)
        server.initialize(argv=list(traits), find_extensions=False, new_httpserver=False)
        server.locks.url = lambda: None
        refuse_unknown(traits)
        # Keep output of the kernel's process out of the agent's answer on standard output.
        server._start_kernels(stdout=STDERR)
        for apps in server.extension_manager.extension_apps.values():
            for app in apps:
                app.log.setLevel(server.log_level)
        return server

    @property
    def agents(self) -> AgentService:
        service: AgentService = self.web_app.settings["prime_agent"]
        return service

    @property
    def store(self) -> SessionStore:
        store: SessionStore = self.web_app.settings["prime_sessions"]
        return store

    @property
    def locks(self) -> NotebookLocks:
        locks: NotebookLocks = self.web_app.settings["prime_locks"]
        return locks

    @property
    def chooses_offline(self) -> bool:
        """Whether the offline agent was configured, instead of being the fallback without a key."""
        return bool(self.config.ModelConfig.get("provider") == "offline")

    def path_of(self, notebook: Path) -> str:
        """Return the path of ``notebook`` relative to the root, for the contents manager.

        Raises
        ------
        PrimeError
            ``notebook_outside_root``.
        """
        root = Path(self.root_dir)
        for file, folder in (
            (_absolute(notebook), _absolute(root)),
            (notebook.resolve(), root.resolve()),
        ):
            if file.is_relative_to(folder):
                return file.relative_to(folder).as_posix()
        raise PrimeError(
            f"{notebook} is outside of the server's root, {root}.",
            code="notebook_outside_root",
            hint="Add --ServerApp.root_dir=FOLDER with a folder above the notebook.",
        )

    def leave_kernels(self) -> None:
        """Start kernels such that they survive the end of this process."""
        # A program that reads this process's output to its end would wait for the kernel otherwise.
        self._start_kernels(independent=True, stdout=DEVNULL, stderr=DEVNULL)

    def _start_kernels(self, **options: Any) -> None:
        manager: Any = self.kernel_manager
        manager.start_kernel = partial(manager.start_kernel, **options)

    def connection_files(self) -> list[str]:
        """Connection files of the running kernels, for ``jupyter console --existing``."""
        manager: Any = self.kernel_manager
        return [
            str(getattr(manager.get_kernel(kernel_id), "connection_file", kernel_id))
            for kernel_id in manager.list_kernel_ids()
        ]

    async def end(self, *, keep_kernels: bool, at_once: bool = False) -> None:
        """Save the kernels' variables, close the sessions, and shut the kernels down.

        Parameters
        ----------
        at_once:
            Kill the kernels first, without saving their variables.
        """
        if at_once and not keep_kernels:
            await self._kill_kernels()
        try:
            await self.cleanup_extensions()
        except asyncio.CancelledError:
            if not keep_kernels:
                await self._kill_kernels()  # otherwise the cleanup below would wait for them
            raise
        finally:
            if not keep_kernels:
                await self.cleanup_kernels()
            self.session_manager.close()

    async def _kill_kernels(self) -> None:
        await ensure_async(self.kernel_manager.shutdown_all(now=True))

    def load_config_file(self, suppress_errors: bool = True) -> None:  # type: ignore[override]
        """Read the configuration files that a server with the extension would read."""
        for name in CONFIG_FILES:
            self.config_file_name = name
            super().load_config_file(suppress_errors)

    def exit(self, exit_status: int | str | None = 0) -> None:
        """Raise `PrimeError` for an invalid configuration instead of ending the process."""
        error = sys.exc_info()[1]
        if error is None:
            super().exit(exit_status)
        raise PrimeError(f"The configuration is wrong: {error}", code=BAD_TRAIT) from error

    def init_signal(self) -> None:
        """Install no signal handlers; the caller does."""

    @default("root_dir")
    def _default_root_dir(self) -> str:
        return self.root_if_unset or str(Path.cwd())

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.WARNING


def _encrypted_kernels() -> Config:
    """Return the default configuration of kernels: encrypted connections, where that is possible.

    Without encryption ipykernel prints a warning among what the agent does.
    """
    # Older versions of jupyter_client do not have the trait.
    known = "transport_encryption" in ServerKernelManager.class_trait_names()
    if not known or not zmq.has("curve"):
        return Config()
    return Config(KernelManager={"transport_encryption": "auto"})


def _is_news(record: logging.LogRecord) -> bool:
    # Each save logs that the notebook is not trusted, which is always so if nobody has opened it
    # here. A bad configuration is reported as an error anyway.
    said = record.getMessage()
    return not ("is not trusted" in said or said.startswith("Bad config encountered"))


def _absolute(path: Path) -> Path:
    """Make ``path`` absolute without resolving links: the root may contain a link to it."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `absolute()` keeps `..`
