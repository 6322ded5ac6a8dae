"""The machine: running commands on it, and installing Debian packages where that is allowed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class ImpossibleError(Exception):
    """A step cannot be done on this machine. The message says what the person can do."""


def say(text: str) -> None:
    print(
        f"\033[1m[prime_ext]\033[0m {text}" if os.isatty(1) else f"[prime_ext] {text}", flush=True
    )


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    otherwise: str,
) -> None:
    """Run a command, its output shown; if it fails, raise with what that means for the person."""
    done = subprocess.run(command, cwd=cwd, env=env, check=False)
    if done.returncode != 0:
        shown = " ".join(map(str, command))
        raise ImpossibleError(f"{otherwise}\n(`{shown}` exited with {done.returncode})")


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports of the loopback interface that nobody uses."""
    for first in random.sample(range(20_000, 30_000), 1_000):
        with contextlib.ExitStack() as taken:
            try:
                for port in range(first, first + count):
                    taken.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise ImpossibleError("No free ports were found on this machine.")


def can_install_packages() -> bool:
    """Whether Debian packages can be installed. Only as root: `make` never asks for a password."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_package(name: str) -> bool:
    """Install a Debian package; False if that cannot be done."""
    if not can_install_packages():
        return False
    say(f"Installing Debian's {name} with apt-get …")
    # The update's own outcome is no matter: one source of many may be out of reach.
    _apt_get("update")
    return _apt_get("install", "--yes", "--no-install-recommends", name)


def _apt_get(*arguments: str) -> bool:
    done = subprocess.run(
        ["apt-get", "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0
