"""What must hold for the repository itself."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import pytest

from .conftest import ROOT

# Used where it is present: an extra, a part of ipykernel, or what the user's own kernel has loaded.
OPTIONAL = {
    *("IPython", "PIL", "blake3", "h5py", "jax", "lxml", "matplotlib", "matplotlib_inline"),
    *("numpy", "pandas", "pyarrow", "fsspec", "pint", "polars", "pycrdt", "pydantic", "sklearn"),
    *("sqlalchemy", "torch", "typing_extensions", "xarray", "xgboost", "xxhash"),
}
DISTRIBUTIONS = {"zmq": "pyzmq"}
"""Packages whose name on PyPI is another one."""


def imports(source: str) -> set[str]:
    """The packages that a module imports by name, itself and the standard library left out."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "importlib.import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value))
    return {name.split(".")[0] for name in names} - {"prime_ext", *sys.stdlib_module_names}


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


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    listed = project[project.index("dependencies = [") : project.index("dynamic = [")]
    declared = set(re.findall(r'^    "([A-Za-z0-9_.-]+)', listed, flags=re.MULTILINE))
    imported = {
        DISTRIBUTIONS.get(name, name)
        for path in (ROOT / "prime_ext").rglob("*.py")
        for name in imports(path.read_text())
    }

    # Without a kernel there is nothing to work in; its code runs in the kernel's process.
    assert imported - OPTIONAL | {"ipykernel"} == declared


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
