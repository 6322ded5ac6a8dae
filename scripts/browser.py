"""The browser of the browser tests: found, downloaded or installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .environment import Environment
from .machine import ImpossibleError, can_install_packages, install_package, say

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MACOS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
DOWNLOAD_SECONDS = 300


def find_browser(environment: Environment) -> Path:
    """The path of a Chromium or Chrome that starts."""
    for look in (_on_the_machine, _of_playwright, _installed, _downloaded):
        found = look(environment)
        if found is not None:
            return found
    raise ImpossibleError(
        "The browser tests need Chromium or Chrome. None was found, apt-get could not install one "
        "(that takes root), and Playwright could not download one. Install one (on Debian: sudo "
        "apt-get install chromium), or name one: make test PRIME_TEST_BROWSER=/path/to/chrome"
    )


def _on_the_machine(environment: Environment) -> Path | None:
    named = environment.variables.get("PRIME_TEST_BROWSER")
    if named:
        if not _starts(Path(named)):
            raise ImpossibleError(f"PRIME_TEST_BROWSER={named} is not a browser that starts.")
        return Path(named)
    candidates = [*filter(None, map(shutil.which, NAMES)), *MACOS]
    return next((Path(path) for path in candidates if _starts(Path(path))), None)


def _of_playwright(environment: Environment) -> Path | None:
    asked = subprocess.run(
        ["node", "-p", "require('playwright-core').chromium.executablePath()"],
        cwd=environment.root,
        env=environment.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    path = Path(asked.stdout.strip())
    return path if asked.returncode == 0 and _starts(path) else None


def _installed(environment: Environment) -> Path | None:
    return _on_the_machine(environment) if install_package("chromium") else None


def _downloaded(environment: Environment) -> Path | None:
    say("No Chromium or Chrome on this machine: Playwright downloads one …")
    # The download may lack libraries of the system.
    dependencies = ["--with-deps"] if can_install_packages() else []
    try:
        subprocess.run(
            ["jlpm", "playwright", "install", *dependencies, "--no-shell", "chromium"],
            cwd=environment.root,
            env=environment.variables,
            stdin=subprocess.DEVNULL,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        say(f"The download was given up after {DOWNLOAD_SECONDS} seconds.")
    return _of_playwright(environment)


def _starts(path: Path) -> bool:
    # Some distributions ship a `chromium-browser` that only tells to install another package.
    if not path.is_file():
        return False
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"Chrom" in done.stdout
