"""What a user finds after `pip install`, in an environment that holds nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from .conftest import Installation, Machine

pytestmark = [pytest.mark.package, pytest.mark.timeout(600)]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def plugin_state(installation: Installation) -> str:
    """The line about the plugin in `jupyter labextension list`; empty if there is none."""
    listed = plain(installation.run("jupyter", "labextension", "list"))
    return next((line for line in listed.splitlines() if "prime_ext v" in line), "")


def test_the_server_extension_is_listed_and_valid(installation: Installation) -> None:
    listed = plain(installation.run("jupyter", "server", "extension", "list"))

    assert re.search(r"prime_ext\s+enabled", listed), listed
    assert re.search(r"prime_ext \S+ OK", listed), listed


def test_the_lab_plugin_is_listed_with_its_python_package(installation: Installation) -> None:
    assert re.search(r"enabled OK \(python, prime_ext\)", plugin_state(installation))


def test_every_module_imports_with_the_declared_dependencies_alone(
    installation: Installation,
) -> None:
    installation.run(
        "python",
        "-W",
        "error",
        "-c",
        "import importlib, pkgutil, prime_ext\n"
        "for module in pkgutil.walk_packages(prime_ext.__path__, 'prime_ext.'):\n"
        "    importlib.import_module(module.name)",
    )


def test_jupyterlab_starts_with_it_and_logs_no_error(installation: Installation) -> None:
    installation.run(
        "python", "-m", "jupyterlab.browser_check", "--no-browser-test", "--allow-root"
    )


def test_the_lab_plugin_can_be_disabled_enabled_and_uninstalled(
    installation: Installation, wheel: Path
) -> None:
    installation.run("jupyter", "labextension", "disable", "prime_ext")
    assert "disabled" in plugin_state(installation)

    installation.run("jupyter", "labextension", "enable", "prime_ext")
    assert "enabled OK" in plugin_state(installation)

    installation.run("python", "-m", "pip", "uninstall", "--yes", "prime_ext")
    assert plugin_state(installation) == ""
    assert not list((installation.folder / "share/jupyter/labextensions").glob("prime_ext*"))
    assert "prime_ext" not in installation.run("jupyter", "server", "extension", "list")

    installation.run("python", "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    assert "enabled OK" in plugin_state(installation)


def test_labextension_uninstall_tells_how_to_uninstall(installation: Installation) -> None:
    if shutil.which("node") is None:
        pytest.skip("JupyterLab's own command needs Node before it says anything.")
    with_node = Machine({**installation.machine.variables, "PATH": os.environ["PATH"]})

    told = plain(
        Installation(installation.folder, with_node).run(
            "jupyter", "labextension", "uninstall", "prime_ext"
        )
    )

    assert "uninstall the package prime_ext" in told
    assert "enabled OK" in plugin_state(installation)


def test_the_package_is_typed_and_tells_its_version(installation: Installation) -> None:
    told = installation.run(
        "python",
        "-c",
        "import json, prime_ext, importlib.metadata as m, importlib.resources as r;"
        "print(json.dumps([prime_ext.__version__, m.version('prime_ext'),"
        "r.files('prime_ext').joinpath('py.typed').is_file()]))",
    )

    imported, installed, typed = json.loads(told)
    assert imported == installed
    assert typed


def test_jupyter_prime_is_a_command(installation: Installation) -> None:
    told = installation.run("jupyter", "prime", "--help")

    assert "import" in told
    assert "sessions" in told
