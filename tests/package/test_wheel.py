"""What is in the distributions."""

from __future__ import annotations

import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from .conftest import Machine

pytestmark = [pytest.mark.package, pytest.mark.timeout(600)]

SHARED = "prime_ext-{version}.data/data/"


@pytest.fixture(scope="module")
def version(sources: Path) -> str:
    return str(json.loads((sources / "package.json").read_text())["version"])


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_fits_every_python_and_platform(wheel: Path, version: str) -> None:
    assert wheel.name == f"prime_ext-{version}-py3-none-any.whl"


def test_the_wheel_holds_the_whole_python_package(names: set[str], sources: Path) -> None:
    expected = {
        path.relative_to(sources).as_posix()
        for path in (sources / "prime_ext").rglob("*")
        if path.is_file()
        and not {"labextension", "__pycache__"}.intersection(path.relative_to(sources).parts)
    }
    packaged = {name for name in names if name.startswith("prime_ext/")}

    assert packaged == expected
    assert "prime_ext/_version.py" in packaged


def test_the_wheel_holds_the_lab_plugin(names: set[str], version: str) -> None:
    plugin = SHARED.format(version=version) + "share/jupyter/labextensions/prime_ext/"

    assert {
        plugin + "package.json",
        plugin + "install.json",
        plugin + "static/style.js",
        plugin + "schemas/prime_ext/plugin.json",
    } <= names
    assert any(name.startswith(plugin + "static/remoteEntry.") for name in names)


def test_the_wheel_switches_the_server_extension_on(wheel: Path, version: str) -> None:
    config = SHARED.format(version=version) + "etc/jupyter/jupyter_server_config.d/prime_ext.json"

    with zipfile.ZipFile(wheel) as archive:
        switched = json.loads(archive.read(config))

    assert switched == {"ServerApp": {"jpserver_extensions": {"prime_ext": True}}}


def test_the_wheel_holds_nothing_else(names: set[str], version: str) -> None:
    tops = {name.split("/")[0] for name in names}

    assert tops == {
        "prime_ext",
        f"prime_ext-{version}.dist-info",
        f"prime_ext-{version}.data",
    }
    assert not [name for name in names if "test" in name.lower() or name.endswith(".map")]


def test_the_source_distribution_builds_without_node_or_npm_packages(
    sources: Path, wheel: Path, machine: Machine, tmp_path: Path
) -> None:
    # That an isolated build finds all it needs is seen where the wheel is built.
    build = ("-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check")
    machine.run(sys.executable, *build, "--outdir", tmp_path, sources, cwd=tmp_path)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert "prime_ext/labextension/static/style.js" in inside

    # An unreachable npm registry: nothing of npm's may be asked for.
    offline = Machine({**machine.variables, "YARN_ENABLE_NETWORK": "0"})
    build = ("-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    offline.run(sys.executable, *build, "--wheel-dir", tmp_path, sdist, cwd=tmp_path)

    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert set(first.namelist()) == set(second.namelist())
