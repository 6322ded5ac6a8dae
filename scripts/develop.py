"""The commands of the Makefile: `python -m scripts.develop COMMAND [ARGUMENTS …]`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from . import frontend, runner
from .browser import find_browser
from .environment import Environment
from .machine import ImpossibleError, say
from .runner import JEST, PLAYWRIGHT, PYTEST, Outcome, Runner, Tally

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
    environment.hold(".[fast,lab]", sources=WHEEL, prepare=plugin.remove)
    folder = frontend.playground(ROOT)
    command = ["jupyter", "lab", f"--ServerApp.root_dir={folder}"]
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
    return _close(_run(_developed(), CHECKS))


def types(arguments: Sequence[str]) -> int:
    """Run mypy and tsc."""
    return _close(_run(_developed(), TYPES))


def pytest(arguments: Sequence[str]) -> int:
    """Run the Python tests."""
    return _close(_run(_developed(), [PYTHON_TESTS], arguments))


def jest(arguments: Sequence[str]) -> int:
    """Run the tests of the Lab plugin."""
    return _close(_run(_developed(), [PLUGIN_TESTS], arguments))


def ui(arguments: Sequence[str]) -> int:
    """Run the tests in a real JupyterLab in a real browser."""
    return _close(_run_in_browser(_developed(), arguments))


def test(arguments: Sequence[str]) -> int:
    """Run everything: lint, types and all tests."""
    environment = _developed()
    outcomes = _run(environment, [*CHECKS, *TYPES, PYTHON_TESTS, PLUGIN_TESTS])
    return _close([*outcomes, *_run_in_browser(environment)])


def soak(arguments: Sequence[str]) -> int:
    """Run the tests that take long on purpose."""
    return _close(_run(_developed(), [PYTHON_TESTS], ["-m", "soak", "--timeout=0", *arguments]))


def bench(arguments: Sequence[str]) -> int:
    """Run the benchmarks, or those named, and write `bench/results/`."""
    environment = _developed()
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
        "--editable", ".[dev]", sources=METADATA, prepare=plugin.unlink, SKIP_JUPYTER_BUILDER="1"
    )
    plugin.install_packages()
    plugin.link()
    return environment


def _run(
    environment: Environment, runners: Sequence[Runner], arguments: Sequence[str] = ()
) -> list[Outcome]:
    outcomes = []
    for each in runners:
        say(f"{each.name} …")
        outcomes.append(
            runner.run(each, arguments, cwd=environment.root, env=environment.variables)
        )
    return outcomes


def _run_in_browser(environment: Environment, arguments: Sequence[str] = ()) -> list[Outcome]:
    try:
        frontend.Frontend(environment).build()
        chosen = find_browser(environment)
    except ImpossibleError as problem:
        say(str(problem))
        return [runner.judge(BROWSER_TESTS, 1, "", 0.0)]
    environment = environment.with_variables(PRIME_TEST_BROWSER=str(chosen))
    return _run(environment, [BROWSER_TESTS], arguments)


def _close(outcomes: Sequence[Outcome]) -> int:
    """Sum up: who took how long, the runners' closing lines, and the total."""
    print()
    for outcome in outcomes:
        state = "ok" if outcome.ok else "FAILED"
        print(f"{outcome.runner.name:<12} {state:<7} {outcome.seconds:6.1f} s")
    for outcome in outcomes:
        print(*outcome.lines, sep="\n", end="\n" if outcome.lines else "")
    print(sum((outcome.tally for outcome in outcomes), Tally()))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


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
