"""The file tools: useful below the root, and nowhere else."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_ext.agent.tools import file_edits, search_files, search_worker
from prime_ext.agent.tools.file_writing import FileWriting
from prime_ext.agent.tools.tool import Preview, ToolContext
from prime_ext.context.image_limits import decoded_size
from prime_ext.errors import PrimeError
from tests.messages_api.pictures import png
from tests.notebook.conftest import code_cell, notebook_of, text_cell
from tests.tools.conftest import Call

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def read_only_root(root: Path) -> Iterator[Path]:
    root.chmod(0o555)
    yield root
    root.chmod(0o755)


@pytest.fixture
def locked(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which the server may not look, whoever runs the tests."""
    folder = root / "lost+found"
    folder.mkdir()
    stat, read = Path.stat, Path.read_bytes

    def refuse(path: Path) -> None:
        if folder in path.parents or path.name.startswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied")

    def refused_stat(path: Path, **options: Any) -> os.stat_result:
        if not path.name.endswith(".png"):
            refuse(path)
        return stat(path, **options)

    def refused_read(path: Path) -> bytes:
        refuse(path)
        return read(path)

    monkeypatch.setattr(Path, "stat", refused_stat)
    monkeypatch.setattr(Path, "read_bytes", refused_read)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def text(outcome: Any) -> str:
    (block,) = outcome.content
    return str(block["text"])


async def refused(call: Call, *args: Any, **kwargs: Any) -> PrimeError:
    with pytest.raises(PrimeError) as caught:
        await call(*args, **kwargs)
    return caught.value


# -- what is out of reach ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "a/../../outside.txt", "link.txt", "linked/x.txt"]
)
@pytest.mark.parametrize("tool", ["read_file", "edit_file", "write_file"])
async def test_paths_outside_of_the_root(tool: str, path: str, call: Call, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("private")
    (root.parent / "outside.txt").write_text("private")
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "linked").symlink_to(outside)
    more = {"edit_file": {"old": "private", "new": "x"}, "write_file": {"content": "x"}}
    error = await refused(call, tool, path=path, **more.get(tool, {}))
    assert error.code == "path_outside_root"
    assert (root.parent / "outside.txt").read_text() == "private"
    assert (outside / "x.txt").read_text() == "private"


async def test_listing_and_searching_outside_of_the_root(call: Call, root: Path) -> None:
    assert (await refused(call, "list_files", path="..")).code == "path_outside_root"
    error = await refused(call, "search_files", pattern="x", path="/etc")
    assert error.code == "path_outside_root"


async def test_an_absolute_path_below_the_root_is_fine(call: Call, root: Path) -> None:
    (root / "a.txt").write_text("hello")
    assert "hello" in text(await call("read_file", path=str(root / "a.txt")))


@pytest.mark.parametrize("path", ["a\0b", "x" * 4000])
async def test_paths_that_cannot_be(path: str, call: Call) -> None:
    assert (await refused(call, "read_file", path=path)).code in ("bad_path", "file_not_found")


async def test_secrets_are_neither_read_nor_written_nor_found(call: Call, root: Path) -> None:
    (root / "credentials.json").write_text('{"key": "sk-1"}')
    (root / "harmless.txt").symlink_to(root / "credentials.json")
    (root / "jupyter_server_config.py").write_text("c.ModelConfig.api_key = 'sk-1'")
    (root / "Secrets").mkdir()
    (root / "Secrets" / "aws.txt").write_text("sk-1")
    secret = ("credentials.json", "harmless.txt", "jupyter_server_config.py", "Secrets/aws.txt")
    for path in secret:
        assert (await refused(call, "read_file", path=path)).code == "secret_file"
        error = await refused(call, "write_file", path=path, content="x")
        assert error.code == "secret_file"
    assert "No match" in text(await call("search_files", pattern="sk-1"))
    assert text(await call("list_files")).count("may hold secrets") == 3


async def test_hidden_files(call: Call, root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("url = https://token@host")
    assert (await refused(call, "read_file", path=".git/config")).code == "hidden_file"
    assert (await refused(call, "list_files", path=".git")).code == "hidden_file"
    assert "No match" in text(await call("search_files", pattern="token@"))
    assert text(await call("list_files")) == "the server's root is empty."


async def test_the_sessions_own_records_are_read_but_not_written(
    call: Call, session_folder: Path
) -> None:
    log = str(session_folder / "session.jsonl")
    output = str(session_folder / "outputs" / "run.txt")
    assert "session_start" in text(await call("read_file", path=log))
    assert "all of it" in text(await call("read_file", path=output))
    assert "line 1" in text(await call("search_files", pattern="session_start", path=log))
    assert "run.txt" in text(
        await call("search_files", pattern="all of", path=str(session_folder / "outputs"))
    )
    for path in (log, output):
        error = await refused(call, "write_file", path=path, content="x")
        assert error.code == "path_outside_root"
        await refused(call, "edit_file", path=path, old="a", new="b")
    for other in (session_folder / "kernel-state.json", session_folder.parent / "s2"):
        assert (await refused(call, "read_file", path=str(other))).code == "path_outside_root"


async def test_the_extensions_own_folder_below_the_root(
    call: Call, context: ToolContext, root: Path, session_folder: Path
) -> None:
    data = root / "Library" / "prime"
    shutil.copytree(session_folder.parent.parent, data)
    own, other = data / "sessions" / "s1", data / "sessions" / "s2"
    shutil.copytree(own, other)
    consent = data / "consent.json"
    consent.write_text('{"anthropic": "session_start"}')
    link = root / "link"
    link.symlink_to(data)
    context.session.folder = own

    for path in (consent, own / "kernel-state.json", other / "session.jsonl", data, link / "x"):
        for shown in (str(path), str(path.relative_to(root))):
            assert (await refused(call, "read_file", path=shown)).code == "own_file"
            assert (await refused(call, "list_files", path=shown)).code == "own_file"
            error = await refused(call, "write_file", path=shown, content="x")
            assert error.code == "own_file"
    for path in (own / "session.jsonl", own / "outputs" / "run.txt", own / "new.txt"):
        error = await refused(call, "write_file", path=str(path), content="x")
        assert error.code == "own_file"
    (root / "notes.md").write_text("session_start")
    assert text(await call("search_files", pattern="session_start")).splitlines()[0] == "notes.md"
    assert "consent.json" not in text(await call("search_files", pattern="session_start"))
    error = await refused(call, "read_file", path="Library/consent.json")
    assert "prime" not in error.hint

    log = own / "session.jsonl"
    assert "session_start" in text(await call("read_file", path=str(log)))
    assert "run.txt" in text(
        await call("search_files", pattern="all of", path=str(own / "outputs"))
    )


async def test_a_root_inside_the_extensions_folder_can_still_be_worked_in(
    call: Call, context: ToolContext, root: Path
) -> None:
    own = root / "sessions" / "s1"
    (own / "outputs").mkdir(parents=True)
    context.session.folder = own
    await call("write_file", path="notes.md", content="x")
    assert (await refused(call, "write_file", path="sessions/s2/x", content="x")).code == "own_file"


# -- list_files -------------------------------------------------------------------------------


async def test_listing(call: Call, root: Path) -> None:
    (root / "data").mkdir()
    (root / "b.csv").write_bytes(b"x" * 3100)
    (root / "A.txt").write_text("hello")
    listing = text(await call("list_files")).splitlines()
    assert listing[0] == "the server's root, 3 entries:"
    assert listing[1] == "data/"
    assert listing[2].startswith("A.txt  5 bytes")
    assert listing[3].startswith("b.csv  3.1 kB")
    assert text(await call("list_files", path="data")) == "data is empty."
    assert text(await call("list_files", path="A.txt")).startswith("A.txt: text/plain, 5 bytes")


async def test_listing_a_large_folder_or_none(call: Call, root: Path) -> None:
    for i in range(600):
        (root / f"f{i:03}").touch()
    listing = text(await call("list_files"))
    assert len(listing.splitlines()) == 502
    assert "100 more" in listing
    assert (await refused(call, "list_files", path="nowhere")).code == "file_not_found"


# -- read_file --------------------------------------------------------------------------------


async def test_reading_lines(call: Call, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    assert text(await call("read_file", path="a.txt")) == "1\tone\n2\ttwo\n3\tthree"
    part = text(await call("read_file", path="a.txt", start=2, end=2))
    assert part == "2\ttwo\n[Lines 2 to 2 of 3 of a.txt.]"
    assert (await refused(call, "read_file", path="a.txt", start=9)).code == "bad_range"
    (root / "empty.txt").touch()
    assert text(await call("read_file", path="empty.txt")) == "empty.txt is empty."


async def test_reading_a_long_file_says_how_long(call: Call, root: Path) -> None:
    (root / "a.txt").write_text("".join(f"{i}\n" for i in range(5000)))
    assert "[Lines 1 to 2000 of 5000 of a.txt.]" in text(await call("read_file", path="a.txt"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("naïve".encode("utf-16"), "naïve"),
        (b"\xef\xbb\xbfhello", "hello"),
        ("caf\u00e9".encode("latin-1"), "café"),
        (b"a\r\nb\r\n", "1\ta\n2\tb"),
    ],
)
async def test_encodings(raw: bytes, expected: str, call: Call, root: Path) -> None:
    (root / "a.txt").write_bytes(raw)
    assert expected in text(await call("read_file", path="a.txt"))


async def test_binary_files_are_refused_with_facts(call: Call, root: Path) -> None:
    (root / "data.parquet").write_bytes(b"PAR1\0\0\0" + os.urandom(2000))
    error = await refused(call, "read_file", path="data.parquet")
    assert error.code == "binary_file"
    assert "2.0 kB" in error.message
    assert "pandas.read_parquet" in error.hint


async def test_huge_files_are_refused(call: Call, root: Path) -> None:
    with (root / "huge.txt").open("wb") as file:
        file.truncate(200_000_000)
    assert (await refused(call, "read_file", path="huge.txt")).code == "file_too_large"


@pytest.mark.skipif(sys.platform == "win32", reason="needs mkfifo")
async def test_pipes_do_not_block(call: Call, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert (await refused(call, "read_file", path="pipe")).code == "not_a_file"
    assert "No match" in text(await call("search_files", pattern="x"))


async def test_images_are_shown(call: Call, root: Path) -> None:
    (root / "plot.png").write_bytes(PNG)
    outcome = await call("read_file", path="plot.png")
    assert outcome.content[1]["source"]["media_type"] == "image/png"
    assert base64.b64decode(outcome.content[1]["source"]["data"]) == PNG


async def test_a_large_image_is_shown_smaller_or_refused(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "wide.png").write_bytes(png(3_000, 30))
    outcome = await call("read_file", path="wide.png")
    assert decoded_size(outcome.content[1]["source"]["data"]) == (2_000, 20)
    assert "shown with 2000 × 20 pixels" in outcome.content[0]["text"]
    monkeypatch.setitem(sys.modules, "PIL", None)
    error = await refused(call, "read_file", path="wide.png")
    assert error.code == "image_refused"
    assert "3000 × 30 pixels" in error.message


async def test_data_files_come_with_a_hint(call: Call, root: Path) -> None:
    (root / "a.csv").write_text("x,y\n1,2\n")
    assert "pandas" in text(await call("read_file", path="a.csv"))


async def test_notebooks_are_read_as_cells(call: Call, root: Path) -> None:
    cell = code_cell("x = 1", "aaaa")
    cell["execution_count"] = 3
    data = {"image/png": "A" * 5000, "text/plain": "Figure"}
    cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    nb = notebook_of([cell, text_cell("# Hi", "bbbb")])
    (root / "other.ipynb").write_text(json.dumps(nb))
    shown = text(await call("read_file", path="other.ipynb"))
    assert "[aaaa] cell 1 of 2, code, run as [3]" in shown
    assert "image/png (5,000 characters); Figure" in shown
    assert "AAAA" not in shown
    assert "# Hi" not in text(await call("read_file", path="other.ipynb", end=1))
    (root / "broken.ipynb").write_text("{")
    assert text(await call("read_file", path="broken.ipynb")) == "1\t{"


async def test_a_missing_file_is_looked_for_nearby(call: Call, root: Path) -> None:
    (root / "data").mkdir()
    (root / "data" / "a.csv").write_text("x\n")
    error = await refused(call, "read_file", path="a.csv")
    assert error.code == "file_not_found"
    assert "'data/a.csv'" in error.hint


async def test_what_the_server_may_not_look_into(call: Call, root: Path, locked: Path) -> None:
    error = await refused(call, "read_file", path="missing.csv")
    assert error.code == "file_not_found"
    (root / "a.txt").write_text("x")
    (root / "locked-link").symlink_to(locked / "elsewhere")
    listing = text(await call("list_files"))
    assert "lost+found/" in listing
    assert "locked-link  (not accessible)" in listing
    (root / "locked.png").write_bytes(PNG)
    error = await refused(call, "read_file", path="locked.png")
    assert (error.code, error.status) == ("file_unreadable", 403)


# -- search_files -----------------------------------------------------------------------------


async def test_searching(call: Call, root: Path) -> None:
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("import os\n\ndef load(path):\n    return path\n")
    (root / "node_modules").mkdir()
    (root / "node_modules" / "x.js").write_text("load()")
    (root / "b.bin").write_bytes(b"\0load")
    nb = notebook_of([code_cell("y = load('x')", "cccc")])
    (root / "n.ipynb").write_text(json.dumps(nb))
    found = text(await call("search_files", pattern=r"load\("))
    assert found.splitlines() == [
        "n.ipynb",
        "  cell cccc: y = load('x')",
        "src/a.py",
        "  line 3: def load(path):",
    ]
    assert "n.ipynb" not in text(await call("search_files", pattern=r"load\(", path="src"))
    assert "line 3" in text(await call("search_files", pattern=r"load\(", path="src/a.py"))


def test_what_goes_while_it_is_searched_stops_no_search(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt"):
        (root / name).write_text("load")
    lstat = Path.lstat

    def refused(path: Path) -> os.stat_result:
        if path.name == "a.txt":
            raise PermissionError(errno.EACCES, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", refused)
    job = {"pattern": "load", "base": str(root), "own": False, "max_hits": 9}
    (hit,) = search_worker.search(job)
    assert hit["path"] == str(root / "b.txt")


async def test_what_is_no_regular_expression_is_taken_literally(call: Call, root: Path) -> None:
    (root / "a.txt").write_text("call(x\n")
    assert "line 1: call(x" in text(await call("search_files", pattern="call(x"))


async def test_many_and_long_matches_are_cut(call: Call, root: Path) -> None:
    for i in range(30):
        (root / f"f{i:02}.txt").write_text(("x" * 5000 + "needle" + "y" * 5000 + "\n") * 50)
    found = text(await call("search_files", pattern="needle"))
    assert "Only the first 200 matches" in found
    assert len(found) < 60_000
    assert found.count("needle") == 200


async def test_a_pattern_that_never_ends_is_stopped(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_files, "SEARCH_SECONDS", 1.0)
    (root / "a.txt").write_text("a" * 5000 + "\n")
    found = text(await call("search_files", pattern=r"(a+)+$x"))
    assert "stopped after 1 s" in found


# -- edit_file and write_file -----------------------------------------------------------------


async def test_editing(call: Call, root: Path) -> None:
    (root / "a.py").write_text("x = 1\ny = 2\n")
    (root / "a.py").chmod(0o754)
    outcome = text(await call("edit_file", path="a.py", old="x = 1", new="x = 3"))
    assert "-x = 1\n+x = 3" in outcome
    assert (root / "a.py").read_text() == "x = 3\ny = 2\n"
    assert (root / "a.py").stat().st_mode & 0o777 == 0o754
    assert names(root) == ["a.py"], "no temporary file stays behind"


async def test_an_edit_has_to_be_unique(call: Call, root: Path) -> None:
    (root / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    error = await refused(call, "edit_file", path="a.py", old="x = 1", new="z")
    assert error.code == "text_not_unique"
    assert "lines 1, 3" in error.hint
    error = await refused(call, "edit_file", path="a.py", old="missing", new="z")
    assert error.code == "text_not_found"
    error = await refused(call, "edit_file", path="a.py", old="x = 1", new="x = 1")
    assert error.code == "no_change"
    assert (root / "a.py").read_text() == "x = 1\ny = 2\nx = 1\n"


async def test_line_ends_and_encoding_are_kept(call: Call, root: Path) -> None:
    (root / "a.txt").write_bytes("é\r\none\r\n".encode("latin-1"))
    await call("edit_file", path="a.txt", old="é\none", new="è\ntwo")
    assert (root / "a.txt").read_bytes() == "è\r\ntwo\r\n".encode("latin-1")
    error = await refused(call, "edit_file", path="a.txt", old="two", new="→")
    assert error.code == "file_not_written"


async def test_writing(call: Call, root: Path) -> None:
    new = text(await call("write_file", path="new/deep/a.txt", content="one\ntwo"))
    assert new == "Wrote new/deep/a.txt: 2 lines, 7 bytes."
    replaced = text(await call("write_file", path="new/deep/a.txt", content="one\nthree"))
    assert "-two\n+three" in replaced
    same = text(await call("write_file", path="new/deep/a.txt", content="one\nthree"))
    assert "already has exactly this content" in same
    assert (await refused(call, "write_file", path="new", content="x")).code == "not_a_file"


async def test_notebooks_are_not_written_as_text(call: Call, root: Path) -> None:
    (root / "n.ipynb").write_text("{}")
    for tool, more in (("edit_file", {"old": "{", "new": "["}), ("write_file", {"content": "x"})):
        assert (await refused(call, tool, path="n.ipynb", **more)).code == "is_notebook"


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="needs a user whom modes stop"
)
async def test_a_read_only_folder(call: Call, read_only_root: Path) -> None:
    error = await refused(call, "write_file", path="a.txt", content="x")
    assert error.code == "file_not_written"


async def test_previews_show_the_difference(context: ToolContext, root: Path) -> None:
    tools = {tool.name: tool for tool in file_edits.TOOLS}
    (root / "a.txt").write_text("one\n")
    edit, write = tools["edit_file"].preview, tools["write_file"].preview
    assert edit is not None
    assert write is not None

    async def shown(preview: Preview, **arguments: str) -> str:
        text = await preview(context, arguments)
        assert isinstance(text, str)
        return text

    diff = await shown(edit, path="a.txt", old="one", new="two")
    assert "```diff" in diff
    assert "-one\n+two" in diff
    assert "+new" in await shown(write, path="b.txt", content="new")
    with pytest.raises(PrimeError, match="not at all"):
        await shown(edit, path="a.txt", old="none", new="two")
    assert (root / "a.txt").read_text() == "one\n"


async def test_an_edit_overwrites_nothing_that_came_since_the_file_was_read(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = root / "a.txt"
    file.write_text("one\n")

    def meanwhile(*_: Any) -> None:
        file.write_text("one\nthe user's\n")
        os.utime(file, ns=(1, 1))  # else the clock of the file system may not have ticked

    monkeypatch.setattr(file_edits, "_no_secret", meanwhile)
    error = await refused(call, "edit_file", path="a.txt", old="one", new="two")
    assert error.code == "file_changed"
    assert file.read_text() == "one\nthe user's\n"


@pytest.mark.parametrize("before", ["one\n", None])
async def test_what_was_shown_for_approval_is_what_is_replaced(
    context: ToolContext, call: Call, root: Path, before: str | None
) -> None:
    file = root / "a.txt"
    if before is not None:
        file.write_text(before)
    preview = next(tool.preview for tool in file_edits.TOOLS if tool.name == "write_file")
    assert preview is not None
    await preview(context, {"path": "a.txt", "content": "agent\n"})
    file.write_text("the user's\n")
    assert (await refused(call, "write_file", path="a.txt", content="agent\n")).code == (
        "file_changed"
    )
    assert file.read_text() == "the user's\n"
    await preview(context, {"path": "a.txt", "content": "agent\n"})
    await call("write_file", path="a.txt", content="agent\n")
    assert file.read_text() == "agent\n"


async def test_a_file_written_while_stop_is_pressed_has_its_record(
    context: ToolContext, root: Path
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(writing: FileWriting) -> str:
        begun.set()
        go_on.wait(10)
        writing.write(root / "new.txt", "text", "new.txt", None)
        return "done"

    task = asyncio.create_task(FileWriting(context).carry_out(work))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):  # who is impatient presses it more than once
        task.cancel()
        await asyncio.wait([task], timeout=0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (change,) = context.session.records  # type: ignore[attr-defined]
    assert (change.path, change.before_hash) == ("new.txt", None)
    assert (root / "new.txt").read_text() == "text"
