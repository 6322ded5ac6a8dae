"""One process at a time works on a notebook, whatever it is called and however the other ends."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prime_ext.errors import PrimeError
from prime_ext.notebook.notebook_locks import Holder, NotebookLocks

OTHER = """
import logging, sys
from pathlib import Path
from prime_ext.notebook.notebook_locks import NotebookLocks

locks = NotebookLocks(Path(sys.argv[1]), lambda: None, logging.getLogger())
with locks.held(Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
print("ended", flush=True)
"""

Hold = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    notebook = tmp_path / "work.ipynb"
    notebook.touch()
    return notebook


@pytest.fixture
def locks(folder: Path) -> NotebookLocks:
    return NotebookLocks(folder, lambda: "http://localhost:8888/", logging.getLogger("locks"))


@pytest.fixture
def hold(folder: Path) -> Iterator[Hold]:
    """``hold(notebook)`` → a process that holds it until its input is closed."""
    others: list[subprocess.Popen[str]] = []

    def begin(notebook: Path) -> subprocess.Popen[str]:
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(folder), str(notebook)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        others.append(other)
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        return other

    yield begin
    for other in others:
        other.kill()
        with other:  # closes its pipes
            pass


def _refused(locks: NotebookLocks, notebook: Path) -> str:
    with pytest.raises(PrimeError) as refused, locks.held(notebook):
        pass
    assert (refused.value.code, refused.value.status) == ("open_elsewhere", 409)
    return refused.value.message


def test_who_has_a_notebook_is_named_and_a_killed_process_has_none(
    locks: NotebookLocks, hold: Hold, notebook: Path
) -> None:
    other = hold(notebook)
    assert f"`jupyter prime run` (process {other.pid}, since " in _refused(locks, notebook)
    elsewhere = locks.elsewhere(notebook.parent)
    assert list(elsewhere) == ["work.ipynb"]
    holder = elsewhere["work.ipynb"]
    assert locks.elsewhere(notebook.parent / "folder") == {}
    assert holder == Holder(
        os.path.realpath(notebook), other.pid, socket.gethostname(), holder.since
    )
    other.kill()
    other.wait()
    assert locks.elsewhere(notebook.parent) == {}
    with locks.held(notebook):
        assert locks.elsewhere(notebook.parent) == {}  # it is this process


def test_a_link_leads_to_the_same_lock(locks: NotebookLocks, hold: Hold, notebook: Path) -> None:
    link = notebook.with_name("link.ipynb")
    link.symlink_to(notebook)
    hold(link)
    _refused(locks, notebook)
    with locks.held(notebook.with_name("other.ipynb")):
        pass


def test_a_lock_is_left_when_all_that_took_it_have_left(
    locks: NotebookLocks, folder: Path, notebook: Path
) -> None:
    other = NotebookLocks(folder, lambda: None, logging.getLogger("locks"))
    with locks.held(notebook):
        with locks.held(notebook):
            pass
        assert "http://localhost:8888/" in _refused(other, notebook)
    with other.held(notebook):
        pass


def test_a_lock_moves_along_with_its_notebook(
    locks: NotebookLocks, folder: Path, notebook: Path
) -> None:
    other = NotebookLocks(folder, lambda: None, logging.getLogger("locks"))
    moved = notebook.parent / "moved" / "work.ipynb"
    with locks.held(notebook):
        moved.parent.mkdir()
        notebook.rename(moved)
        locks.rename(notebook, moved)
        _refused(other, moved)
        with other.held(notebook):
            pass
    with other.held(moved):
        pass


async def test_who_waits_goes_on_when_the_other_has_ended(
    locks: NotebookLocks, hold: Hold, notebook: Path
) -> None:
    other = hold(notebook)
    told: list[int] = []

    def on_wait(holder: Holder | None) -> None:
        assert holder is not None
        told.append(holder.pid)
        assert other.stdin is not None
        other.stdin.close()

    async with locks.awaited(notebook, on_wait):
        assert other.stdout is not None
        assert other.stdout.read() == "ended\n"
    assert told == [other.pid]


def test_without_locks_work_goes_on_and_the_log_says_so_once(
    notebook: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    locks = NotebookLocks(tmp_path / "file" / "locks", lambda: None, logging.getLogger("locks"))
    for _ in range(2):
        with locks.held(notebook), locks.held(notebook.with_name("other.ipynb")):
            pass
    assert locks.elsewhere(tmp_path) == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not locked" in caplog.text
