"""How `make` finds what it needs on machines that lack this or that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts import browser, node
from scripts.browser import find_browser
from scripts.environment import Environment
from scripts.frontend import playground
from scripts.machine import ImpossibleError
from scripts.stamp import Stamp, fingerprint


class Programs:
    """A search path that holds just the programs that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # For the scripts below.
        for name in ("sh", "cat", "chmod"):
            found = next(
                Path(p, name) for p in os.defpath.split(os.pathsep) if Path(p, name).exists()
            )
            (folder / name).symlink_to(found)

    def add(self, name: str, script: str) -> Path:
        program = self.folder / name
        program.write_text(f"#!{self.folder / 'sh'}\n{script}\n")
        program.chmod(0o755)
        return program


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("PRIME_TEST_BROWSER", raising=False)
    monkeypatch.setattr(browser, "MACOS", ())
    return Programs(folder)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path, tmp_path / "venv")


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


class TestBrowser:
    def test_one_on_the_path_is_taken(self, programs: Programs, environment: Environment) -> None:
        chrome = programs.add("google-chrome", "echo Google Chrome 150.0")

        assert find_browser(environment) == chrome

    def test_a_placeholder_that_only_tells_to_install_another_package_is_passed_over(
        self, programs: Programs, environment: Environment
    ) -> None:
        programs.add("chromium-browser", "echo 'requires the chromium snap'; exit 1")
        chrome = programs.add("google-chrome-stable", "echo Google Chrome 150.0")

        assert find_browser(environment) == chrome

    def test_a_named_one_comes_first(
        self, programs: Programs, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        programs.add("chromium", "echo Chromium 150.0")
        mine = programs.add("my-chrome", "echo Chromium 151.0")
        monkeypatch.setenv("PRIME_TEST_BROWSER", str(mine))

        assert find_browser(environment) == mine

    def test_a_named_one_that_does_not_start_is_an_error(
        self, programs: Programs, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        programs.add("chromium", "echo Chromium 150.0")
        monkeypatch.setenv("PRIME_TEST_BROWSER", "/no/such/chrome")

        with pytest.raises(ImpossibleError, match="/no/such/chrome"):
            find_browser(environment)

    def test_the_one_that_playwright_downloaded_before_is_found(
        self, programs: Programs, environment: Environment, tmp_path: Path
    ) -> None:
        downloaded = programs.add("downloaded", "echo Chromium 150.0")
        programs.add("node", f"echo {downloaded}")

        assert find_browser(environment) == downloaded

    def test_root_on_debian_gets_it_installed(
        self, programs: Programs, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_user(monkeypatch, 0)
        chromium = programs.folder / "chromium"
        programs.add("node", "exit 1")
        programs.add(
            "apt-get",
            f'case "$*" in *install*chromium*) printf "#!{programs.folder}/sh\\necho Chromium 150" '
            f"> {chromium}; chmod 755 {chromium};; esac",
        )

        assert find_browser(environment) == chromium

    def test_anyone_else_gets_it_downloaded_and_no_package_installed(
        self, programs: Programs, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_user(monkeypatch, 1000)
        asked = programs.folder / "asked"
        downloaded = programs.folder / "downloaded"
        programs.add("apt-get", f"echo > {asked}")
        programs.add("node", f"echo {downloaded}")
        programs.add(
            "jlpm",
            f'printf "#!{programs.folder}/sh\\necho Chromium 150" > {downloaded};'
            f"chmod 755 {downloaded}",
        )

        assert find_browser(environment) == downloaded
        assert not asked.exists()

    def test_without_any_way_the_message_says_what_to_do(
        self, programs: Programs, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_user(monkeypatch, 1000)
        programs.add("node", "exit 1")
        programs.add("jlpm", "echo 'cannot reach the host' >&2; exit 1")

        with pytest.raises(ImpossibleError, match=r"apt-get install chromium.*PRIME_TEST_BROWSER="):
            find_browser(environment)


class TestNode:
    def test_a_missing_or_old_one_is_not_usable(self, programs: Programs) -> None:
        assert not node.is_usable()
        programs.add("node", "echo v18.20.1")
        assert not node.is_usable()
        programs.add("node", "echo v22.1.0")
        assert node.is_usable()

    def test_one_that_does_not_run_is_not_usable(self, programs: Programs) -> None:
        programs.add("node", "echo 'GLIBC_2.34 not found' >&2; exit 1")

        assert not node.is_usable()


class TestStamp:
    def test_it_matches_until_a_source_changes(self, tmp_path: Path) -> None:
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "a.ts").write_text("1")
        stamp = Stamp(tmp_path / "made" / "stamp")
        names = ["src", "package.json"]
        assert not stamp.matches(fingerprint(tmp_path, names))

        stamp.write(fingerprint(tmp_path, names))
        assert stamp.matches(fingerprint(tmp_path, names))

        (tmp_path / "package.json").write_text("{}")
        assert not stamp.matches(fingerprint(tmp_path, names))

    def test_a_file_that_moves_is_a_change_and_a_generated_one_is_none(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x.py").write_text("1")
        before = fingerprint(tmp_path, ["a"])

        (tmp_path / "a" / "__pycache__").mkdir()
        (tmp_path / "a" / "__pycache__" / "x.pyc").write_bytes(b"1")
        assert fingerprint(tmp_path, ["a"]) == before

        (tmp_path / "a" / "x.py").rename(tmp_path / "a" / "y.py")
        assert fingerprint(tmp_path, ["a"]) != before


def test_the_playground_gets_new_examples_and_keeps_what_the_user_changed(tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    (examples / "data").mkdir(parents=True)
    (examples / "tour.ipynb").write_text("as shipped")
    folder = playground(tmp_path)
    (folder / "tour.ipynb").write_text("as changed")
    (examples / "tour.ipynb").write_text("as shipped later")
    (examples / "data" / "new.csv").write_text("a,b")

    playground(tmp_path)

    assert (folder / "tour.ipynb").read_text() == "as changed"
    assert (folder / "data" / "new.csv").read_text() == "a,b"


def test_an_environment_is_not_made_again_while_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(tmp_path, tmp_path / "venv")
    installed: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        Environment, "install", lambda self, *arguments, **_: installed.append(arguments)
    )
    (tmp_path / "pyproject.toml").write_text("1")

    environment.hold("it", what="it", sources=["pyproject.toml"])
    assert installed == [("--upgrade", "pip"), ("it",)]
    environment.hold("it", what="it", sources=["pyproject.toml"])
    assert len(installed) == 2

    (tmp_path / "pyproject.toml").write_text("2")
    environment.hold("it", what="it", sources=["pyproject.toml"])
    assert len(installed) == 4


def test_the_quiet_minutes_of_an_installation_are_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        Environment, "install", lambda *_arguments, **_: said.append(capsys.readouterr().out)
    )
    environment = Environment(tmp_path, tmp_path / "venv")
    (tmp_path / "pyproject.toml").write_text("1")
    environment.hold("it", what="JupyterLab", sources=["pyproject.toml"])
    line = said[0].splitlines()[-1]
    assert "Installing JupyterLab into venv." in line
    assert "a few minutes, without further output" in line
