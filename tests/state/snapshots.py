"""Saving and loading in this process, and what tests do to a snapshot's files."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from prime_ext import state
from prime_ext.state import format as files

from .kernels import ROOT


def save(directory: Path, namespace: dict[str, Any], key: bytes, **options: Any) -> state.Report:
    return state.save(directory, namespace, key=key, **{"verify": "off", **options})


def load(directory: Path, key: bytes, **options: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    defaults = {"restore_process_state": False, "verify": "off", "mode": "cold"}
    state.load(directory, namespace, key=key, **{**defaults, **options})
    return namespace


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def segments_of(directory: Path) -> list[Path]:
    return sorted((directory / files.DATA_NAME).glob("seg-*.bin"))


class Marks:
    """Leaves a mark when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)
