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

    def dependencies(self) -> list[str]:
        built = Path(self.root, "prime_ext", "labextension", "static", "style.js")
        if built.exists() or os.environ.get("SKIP_JUPYTER_BUILDER"):
            return []
        # By path: the build's front end does not put the project on the import path.
        node = runpy.run_path(str(Path(self.root, "scripts", "node.py")))
        return [] if node["is_usable"]() else [node["PACKAGE"]]
