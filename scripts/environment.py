"""A virtual environment of the clone."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from . import node
from .machine import ImpossibleError, install_package, run, say
from .stamp import Stamp, fingerprint

NO_NETWORK = (
    "Python packages could not be installed. The lines above say why; the usual reason is that the "
    "package index cannot be reached (behind a proxy: set HTTPS_PROXY, or PIP_INDEX_URL for a "
    "mirror)."
)


class Environment:
    """A virtual environment: made on first use, completed when what it should hold changes."""

    def __init__(self, root: Path, folder: Path, **variables: str) -> None:
        self.root = root
        self._variables = variables
        self.folder = folder
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self._stamp = Stamp(folder / ".installed")

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables under which the environment's programs run."""
        inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        return {**inherited, "PATH": path, "VIRTUAL_ENV": str(self.folder), **self._variables}

    def with_variables(self, **variables: str) -> Environment:
        return Environment(self.root, self.folder, **self._variables, **variables)

    def run(self, *command: str | Path, otherwise: str) -> None:
        run(command, cwd=self.root, env=self.variables, otherwise=otherwise)

    def hold(
        self,
        *requirements: str,
        what: str,
        sources: list[str],
        prepare: Callable[[], None] = lambda: None,
        **variables: str,
    ) -> None:
        """Install the requirements, unless that was done and the sources are still the same.

        `what` names them to the person. `prepare` is called before an installation, which runs
        under the `variables`.
        """
        self._create()
        wanted = fingerprint(self.root, sources, sys.version, *requirements)
        if self._stamp.matches(wanted):
            return
        self._stamp.clear()
        prepare()
        # pip is quiet: it would print a line for each of a hundred packages.
        say(
            f"Installing {what} into {self.folder.name}. "
            "The first time this takes a few minutes, without further output …"
        )
        self.install("--upgrade", "pip")
        self.install(*requirements, **variables)
        self._stamp.write(wanted)

    def install(self, *arguments: str, **variables: str) -> None:
        run(
            [
                self.python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *arguments,
            ],
            cwd=self.root,
            env={**self.variables, **variables},
            otherwise=NO_NETWORK,
        )

    def have_node(self) -> None:
        """See to it that the environment's programs find a `node` that is new enough."""
        if not node.is_usable(self.variables["PATH"]):
            oldest = ".".join(map(str, node.OLDEST))
            say(f"No Node {oldest} or newer on this machine: taking it from PyPI …")
            self.install(node.PACKAGE)

    def _create(self) -> None:
        if self._runs():
            return
        say(f"Creating the virtual environment {self.folder.name} …")
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not _has_ensurepip() and not (install_package(package) and _has_ensurepip()):
            raise ImpossibleError(
                "This Python cannot make virtual environments: its `ensurepip` is missing. On "
                f"Debian and Ubuntu: sudo apt-get install {package}"
            )
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=True).create(self.folder)

    def _runs(self) -> bool:
        # After an upgrade of the machine's Python, an environment may be left without one.
        if not self.python.exists():
            return False
        check = "import pip, sys; sys.exit(sys.version_info < (3, 10))"
        done = subprocess.run([self.python, "-c", check], capture_output=True, check=False)
        return done.returncode == 0


def _has_ensurepip() -> bool:
    check = [sys.executable, "-c", "import ensurepip"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0
