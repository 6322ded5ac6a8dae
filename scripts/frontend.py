"""The Lab plugin: its npm packages, its build, and its link into an environment."""

from __future__ import annotations

import shutil
from pathlib import Path

from .environment import Environment
from .machine import say
from .stamp import Stamp, fingerprint

PACKAGES = ["package.json", "yarn.lock", ".yarnrc.yml"]
SOURCES = [*PACKAGES, "tsconfig.json", "src", "style", "schema"]


class Frontend:
    """Compiles `src/` into `prime_ext/labextension/` with the tools of an environment."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._root = environment.root
        self.built = self._root / "prime_ext" / "labextension"
        self._linked = environment.folder / "share" / "jupyter" / "labextensions" / "prime_ext"

    def install_packages(self) -> None:
        stamp = Stamp(self._root / "node_modules" / ".installed")
        wanted = fingerprint(self._root, PACKAGES)
        if stamp.matches(wanted):
            return
        self._environment.have_node()
        say("Installing npm packages …")
        self._environment.run(
            "jlpm",
            "install",
            otherwise="npm packages could not be installed. If the registry cannot be reached, "
            "name a mirror in the environment variable YARN_NPM_REGISTRY_SERVER.",
        )
        stamp.write(wanted)

    def build(self) -> None:
        self.install_packages()
        stamp = Stamp(self._root / "build" / "labextension.stamp")
        wanted = fingerprint(self._root, SOURCES)
        if stamp.matches(wanted) and (self.built / "package.json").is_file():
            return
        stamp.clear()
        self._environment.have_node()
        say("Building the Lab plugin …")
        for script in ("build:lib", "build:labextension"):
            self._environment.run("jlpm", script, otherwise="The Lab plugin does not compile.")
        stamp.write(wanted)

    def remove(self) -> None:
        """Remove the build, if there is one."""
        shutil.rmtree(self.built, ignore_errors=True)

    def link(self) -> None:
        """Let the environment's JupyterLab load the build in place, so that a rebuild suffices."""
        if self._linked.is_symlink() and self._linked.resolve() == self.built.resolve():
            return
        self.unlink()
        self._linked.parent.mkdir(parents=True, exist_ok=True)
        self._linked.symlink_to(self.built, target_is_directory=True)

    def unlink(self) -> None:
        """Undo `link`. pip would install through the link, and uninstall the build with it."""
        if self._linked.is_symlink():
            self._linked.unlink()
        elif self._linked.is_dir():
            shutil.rmtree(self._linked)


def playground(root: Path) -> Path:
    """A working copy of the examples: what the user does to it is theirs, and kept."""
    copy = root / "playground"
    for source in sorted((root / "examples").rglob("*")):
        target = copy / source.relative_to(root / "examples")
        if source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return copy
