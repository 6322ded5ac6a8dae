"""`sys.path` in a process of another interpreter, and of the same."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import venv
from pathlib import Path
from typing import Any

import pytest

from .kernels import ROOT

SAVE = """
    import sys
    from prime_ext import state
    sys.path.append({added!r})
    sys.path.append({inside!r})
    state.save({snapshot!r}, {{"x": 1}}, key=b"k" * 32, verify="off")
"""
LOAD = """
    import json, sys
    from prime_ext import state
    before = list(sys.path)
    namespace = {{}}
    state.load({snapshot!r}, namespace, key=b"k" * 32)
    assert namespace == {{"x": 1}}
    print(json.dumps([entry for entry in sys.path if entry not in before]))
"""


class Environment:
    """A virtual environment with a package of its own, and a folder among its packages."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, with_pip=False, symlinks=os.name != "nt")
        self._python = directory / ("Scripts" if os.name == "nt" else "bin") / "python"
        [self.packages] = directory.glob("[Ll]ib/**/site-packages")
        self.inside = self.packages / "plugins"
        self.inside.mkdir()

    def run(self, code: str, *flags: str) -> Any:
        done = subprocess.run(
            [str(self._python), *flags, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None


@pytest.fixture
def first(tmp_path: Path) -> Environment:
    """The environment in which there is a snapshot, of a notebook that added two entries."""
    environment = Environment(tmp_path / "first")
    names = {"added": str(tmp_path / "added"), "inside": str(environment.inside)}
    environment.run(SAVE.format(snapshot=str(tmp_path / "s"), **names))
    return environment


def test_packages_of_another_environment_are_not_added(first: Environment, tmp_path: Path) -> None:
    second = Environment(tmp_path / "second")
    assert second.run(LOAD.format(snapshot=str(tmp_path / "s"))) == [str(tmp_path / "added")]


def test_a_folder_among_its_own_packages_is_added(first: Environment, tmp_path: Path) -> None:
    added = first.run(LOAD.format(snapshot=str(tmp_path / "s")))
    assert added == [str(tmp_path / "added"), str(first.inside)]


def test_packages_that_a_process_was_started_without(first: Environment, tmp_path: Path) -> None:
    added = first.run(
        LOAD.replace(
            "import json, sys", f"import json, sys; sys.path.remove({str(first.packages)!r})"
        ).format(snapshot=str(tmp_path / "s"))
    )
    assert str(first.packages) not in added


def test_a_folder_that_hides_installed_packages_does_so_again(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    (environment.packages / "chosen.py").write_text("PLACE = 'installed'")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "chosen.py").write_text("PLACE = 'mine'")
    names = {"added": str(tmp_path / "added"), "inside": str(environment.inside)}
    mine, snapshot = str(tmp_path / "mine"), str(tmp_path / "s")
    code = SAVE.replace("import sys", f"import sys; sys.path.insert(0, {mine!r})")
    environment.run(code.format(snapshot=snapshot, **names))
    code = LOAD + "    import chosen; assert chosen.PLACE == 'mine', sys.path"
    assert environment.run(code.format(snapshot=snapshot))[0] == mine
    other = Environment(tmp_path / "other")
    assert other.run(LOAD.format(snapshot=snapshot)) == [mine, str(tmp_path / "added")]
    (other.packages / "chosen.py").write_text("PLACE = 'installed'")
    other.run(code.replace("'mine', sys", "'installed', sys").format(snapshot=snapshot))
