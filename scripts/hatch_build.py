"""Build hook: brings Node into the isolated build where the machine has none."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NodeRequirement(BuildHookInterface[Any]):
    """Adds the PyPI package that carries Node to the build requirements, if it is needed.

    A static requirement would download Node for everyone; this is asked at build time.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Have a plugin built anew that is older than its sources, as after a ``git pull``.

        In a source distribution all files have one date, and the plugin comes built.
        """
        built = Path(self.root, "prime_ext", "labextension", "static", "style.js")
        if version != "editable" and built.exists() and _is_stale(Path(self.root), built):
            built.unlink()

    def dependencies(self) -> list[str]:
        built = Path(self.root, "prime_ext", "labextension", "static", "style.js")
        fresh = built.exists() and not _is_stale(Path(self.root), built)
        if fresh or os.environ.get("SKIP_JUPYTER_BUILDER"):
            return []
        # By path: the build's front end does not put the project on the import path.
        node = runpy.run_path(str(Path(self.root, "scripts", "node.py")))
        return [] if node["is_usable"]() else [node["PACKAGE"]]


def _is_stale(root: Path, built: Path) -> bool:
    """Whether a source of the Lab plugin is newer than what was built of it."""
    made = built.stat().st_mtime
    sources = [root / "package.json", root / "yarn.lock"]
    for folder in ("src", "style", "schema"):
        sources += (root / folder).rglob("*")
    return any(source.stat().st_mtime > made for source in sources if source.is_file())
