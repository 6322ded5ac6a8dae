"""One wheel, built as a newcomer's machine would, and one environment with it installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Machine:
    """A search path without Node, and folders of Jupyter's that nobody uses."""

    variables: dict[str, str]

    def run(self, *command: str | Path, cwd: Path, ok: bool = True) -> str:
        """Run a command; return what it printed on either stream."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        assert (done.returncode == 0) is ok, done.stdout
        return done.stdout


@dataclass(frozen=True)
class Installation:
    """An environment that holds the wheel and JupyterLab."""

    folder: Path
    machine: Machine

    def run(self, program: str, *arguments: str | Path, ok: bool = True) -> str:
        return self.machine.run(self.folder / "bin" / program, *arguments, cwd=self.folder, ok=ok)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    programs = tmp_path_factory.mktemp("programs")
    for folder in os.get_exec_path():
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            hidden = program.name.startswith(("node", "npm", "npx", "jupyter", "jlpm", "yarn"))
            here = programs / program.name
            if not hidden and not here.exists():
                here.symlink_to(program)
    assert shutil.which("node", path=str(programs)) is None

    folders = {
        f"JUPYTER_{name}_DIR": str(tmp_path_factory.mktemp(name.lower()))
        for name in ("CONFIG", "DATA", "RUNTIME")
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NODE_OPTIONS")
    }
    return Machine({**kept, **folders, "PATH": str(programs), "JUPYTER_NO_CONFIG": ""})


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone would hold: nothing built, nothing generated."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("Not a git clone: what belongs to the sources is not known.")
    folder = tmp_path_factory.mktemp("sources")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def wheel(sources: Path, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built in isolation where there is no Node."""
    folder = tmp_path_factory.mktemp("wheel")
    machine.run(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ".", cwd=sources
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installation(
    wheel: Path, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation") / "venv"
    machine.run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    made = Installation(folder, machine)
    made.run("python", "-m", "pip", "install", "--quiet", wheel, "jupyterlab>=4.6,<5")
    yield made
    shutil.rmtree(folder)
