"""The commands of the Makefile: `python -m scripts.develop COMMAND [ARGUMENTS …]`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from . import frontend
from .browser import find_browser
from .environment import Environment
from .machine import ImpossibleError, free_ports, say
from .runner import JEST, PLAYWRIGHT, PYTEST, Outcome, Runner, judge, run
from .suite import close, each_of, run_all, run_one

ROOT = Path(__file__).resolve().parent.parent

# What an installation depends on beside the sources of either half.
METADATA = ["pyproject.toml", "package.json", "install.json", "jupyter-config"]

WHEEL = [*METADATA, *frontend.SOURCES, "prime_ext", "README.md", "LICENSE", "scripts"]

CHECKS = [
    Runner("ruff", ["ruff", "check", "."]),
    Runner("ruff format", ["ruff", "format", "--check", "."]),
    Runner("eslint", ["jlpm", "eslint:check"]),
    Runner("prettier", ["jlpm", "prettier:check"]),
    Runner("stylelint", ["jlpm", "stylelint:check"]),
]
TYPES = [Runner("mypy", ["mypy"]), Runner("tsc", ["jlpm", "types"])]
PYTHON_TESTS = Runner("pytest", ["python", "-m", "pytest"], PYTEST)
PLUGIN_TESTS = Runner("jest", ["jlpm", "jest"], JEST)
BROWSER_TESTS = Runner("playwright", ["jlpm", "test:ui"], PLAYWRIGHT)

# The same tests in parts, so that the processors always have two of something: those of kernels and
# their state, those of the package, which mostly wait for installers, and the rest. On a busy
# machine one of thousands may run out of time: what fails is tried once more, and named.
_TWICE = [*PYTHON_TESTS.command, "--reruns", "1", "-raR"]
_COMMON = [*_TWICE, "-m", "not package and not soak"]
_KERNEL_FOLDERS = ["tests/kernel", "tests/state"]
KERNEL_TESTS = Runner("kernels", [*_COMMON, *_KERNEL_FOLDERS], PYTEST)
OTHER_TESTS = Runner(
    "pytest", [*_COMMON, *(f"--ignore={folder}" for folder in _KERNEL_FOLDERS)], PYTEST
)
PACKAGE_TESTS = Runner("package", [*_TWICE, "-m", "package", "tests/package"], PYTEST)

# Everything that these commands make. Not the playground: what is in there is the user's.
MADE = [
    ".venv",
    ".venv-lab",
    "node_modules",
    ".yarn",
    ".cache",
    "build",
    "dist",
    "lib",
    "coverage",
    "tsconfig.tsbuildinfo",
    "prime_ext/labextension",
    "prime_ext/_version.py",
    "ui-tests/test-results",
    "ui-tests/playwright-report",
    ".eslintcache",
    ".stylelintcache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
]


def lab(arguments: Sequence[str]) -> int:
    """Install prime_ext into an environment of its own and open JupyterLab on the example."""
    environment = Environment(ROOT, ROOT / ".venv-lab")
    plugin = frontend.Frontend(environment)
    # With a plugin in place, the package's build takes that one, however old.
    environment.hold(
        ".[fast,lab]", what="JupyterLab and prime_ext", sources=WHEEL, prepare=plugin.remove
    )
    folder = frontend.playground(ROOT)
    command = [
        "jupyter",
        "lab",
        f"--ServerApp.root_dir={folder}",
        # Lab's own questions about news and updates are not what one comes to see here.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if (folder / "tour.ipynb").is_file():
        command.append("--LabApp.default_url=/lab/tree/tour.ipynb")
    if os.geteuid() == 0:
        command.append("--ServerApp.allow_root=True")
    say(f"Starting JupyterLab in {folder}. Ctrl-C twice stops it.")
    os.chdir(folder)
    os.execvpe(environment.bin / "jupyter", [*command, *arguments], environment.variables)


def setup(arguments: Sequence[str] = ()) -> int:
    """Make the developer's environment `.venv`: the package in place, and all tools."""
    _developed()
    return 0


def lint(arguments: Sequence[str]) -> int:
    """Run ruff, eslint, prettier and stylelint."""
    return close(run_all(each_of(CHECKS, _developed())))


def types(arguments: Sequence[str]) -> int:
    """Run mypy and tsc."""
    return close(run_all(each_of(TYPES, _developed())))


def pytest(arguments: Sequence[str]) -> int:
    """Run the Python tests."""
    return close(run_one(PYTHON_TESTS, arguments, _developed()))


def jest(arguments: Sequence[str]) -> int:
    """Run the tests of the Lab plugin."""
    return close(run_one(PLUGIN_TESTS, arguments, _developed()))


def ui(arguments: Sequence[str]) -> int:
    """Run the tests in a real JupyterLab in a real browser."""
    return close(run_one(BROWSER_TESTS, arguments, _with_browser(_developed())))


def test(arguments: Sequence[str]) -> int:
    """Run everything: lint, types and all tests."""
    environment = _developed()

    def in_browser() -> Outcome:
        try:
            ready = _with_browser(environment)
        except ImpossibleError as problem:
            return judge(BROWSER_TESTS, 1, str(problem), 0.0)
        return run(BROWSER_TESTS, cwd=ready.root, env=ready.variables)

    # The longest first: beside them there is time for the others.
    first, *others = each_of(
        [OTHER_TESTS, KERNEL_TESTS, PACKAGE_TESTS, PLUGIN_TESTS, *TYPES, *CHECKS], environment
    )
    return close(run_all([first, in_browser, *others]))


def soak(arguments: Sequence[str]) -> int:
    """Run the tests that take long on purpose."""
    return close(run_one(PYTHON_TESTS, ["-m", "soak", "--timeout=0", *arguments], _developed()))


def bench(arguments: Sequence[str]) -> int:
    """Run the benchmarks, or those named, and write `bench/results/`."""
    environment = _developed()
    environment.install("--group", "bench")
    found = sorted((ROOT / "bench").glob("*.py"))
    names = arguments or [path.stem for path in found if "__main__" in path.read_text("utf-8")]
    for name in names:
        environment.run("python", "-m", f"bench.{name}", otherwise=f"The benchmark {name} failed.")
    return 0


def clean(arguments: Sequence[str]) -> int:
    """Remove what these commands made, the environments included; the playground stays."""
    for name in MADE:
        path = ROOT / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return 0


COMMANDS = (lab, test, setup, lint, types, pytest, jest, ui, soak, bench, clean)


def _developed() -> Environment:
    environment = Environment(ROOT, ROOT / ".venv")
    plugin = frontend.Frontend(environment)
    # The plugin is built with tools that the installation brings, so its place stays empty first.
    plugin.built.mkdir(parents=True, exist_ok=True)
    environment.hold(
        "--editable",
        ".[dev]",
        what="prime_ext and the tools of its developers",
        sources=METADATA,
        prepare=plugin.unlink,
        SKIP_JUPYTER_BUILDER="1",
    )
    plugin.install_packages()
    plugin.link()
    return environment


def _with_browser(environment: Environment) -> Environment:
    frontend.Frontend(environment).build()
    # Three servers and the test API, beside whatever else the developer has running.
    port = os.environ.get("PRIME_TEST_PORT") or str(free_ports(4))
    return environment.with_variables(
        PRIME_TEST_BROWSER=str(find_browser(environment)), PRIME_TEST_PORT=port
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.develop", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        summary = (command.__doc__ or "").splitlines()[0]
        added = commands.add_parser(command.__name__, help=summary, prefix_chars="\0")
        added.add_argument("arguments", nargs="*")
        added.set_defaults(command=command)
    given = parser.parse_args()
    try:
        return int(given.command(given.arguments))
    except ImpossibleError as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
