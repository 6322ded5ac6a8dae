"""What must hold for the repository itself."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from .conftest import ROOT


def test_the_lock_file_names_no_host() -> None:
    # Resolved through one registry, it would be bound to it: behind a mirror nothing would install.
    assert "://" not in (ROOT / "yarn.lock").read_text()


def test_the_lock_file_covers_every_npm_dependency() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    lock = (ROOT / "yarn.lock").read_text()

    wanted = {**package["dependencies"], **package["devDependencies"]}
    missing = [
        f"{name}@npm:{spec}" for name, spec in wanted.items() if f"{name}@npm:{spec}" not in lock
    ]

    assert missing == []


def test_the_plugin_and_the_server_extension_carry_one_name() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    install = json.loads((ROOT / "install.json").read_text())
    project = (ROOT / "pyproject.toml").read_text()

    assert (
        package["name"]
        == install["packageName"]
        == package["jupyterlab"]["discovery"]["server"]["base"]["name"]
    )
    assert f'name = "{package["name"]}"' in project


def test_the_reason_for_every_dependency_is_written_down() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    package = json.loads((ROOT / "package.json").read_text())
    reasons = (ROOT / "docs" / "dependencies.md").read_text()

    requirements = re.findall(r'"([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?[<>=~]=?[^"]*"', project)
    names = {*requirements, *package["dependencies"], *package["devDependencies"]}
    unexplained = [
        name
        for name in sorted(names)
        if f"`{name}`" not in reasons and not name.startswith("@lumino/")
    ]

    assert unexplained == []


def test_no_file_is_tracked_that_is_generated() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("Not a git clone.")

    assert listed.stdout == ""
