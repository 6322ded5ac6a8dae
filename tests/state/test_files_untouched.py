"""Neither reading a snapshot back nor restoring it changes a file of the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from .kernels import Kernel

OPEN_EVERYTHING = """
import csv, gzip, io, logging, os, shelve, sqlite3, tempfile, zipfile
import numpy as np
for name in "r a r+ rb ab r+b unbuffered line".split():
    with open(f"file-{name}", "w") as file: file.write("first line\\nsecond line\\n" * 500)
reading, appending, updating = open("file-r"), open("file-a", "a"), open("file-r+", "r+")
bytes_reading, bytes_appending = open("file-rb", "rb"), open("file-ab", "ab")
bytes_updating, unbuffered = open("file-r+b", "r+b"), open("file-unbuffered", "r+b", buffering=0)
writing, rewriting, creating = open("file-w", "w"), open("file-w+", "w+"), open("file-x", "x")
bytes_writing, bytes_rewriting = open("file-wb", "wb"), open("file-w+b", "w+b")
lines = open("file-line", "w", buffering=1)
for file in (reading, updating, bytes_reading, bytes_updating): file.readline()
for file in (writing, rewriting, creating, lines): file.write("written so far\\n" * 1000)
for file in (bytes_writing, bytes_rewriting, unbuffered): file.write(b"written so far")
rewriting.seek(3)
appending.write("appended"); bytes_appending.write(b"appended"); updating.seek(4)
memory_map = np.memmap("map-w+", "f8", "w+", shape=(1000,)); memory_map[:] = 7.0
read_map = np.memmap("map-w+", "f8", "r")
changing_map = np.memmap("map-w+", "f8", "r+", shape=(1000,)); changing_map[3] = 8.0
private_map = np.memmap("map-w+", "f8", "c"); private_map[0] = -1.0
database = sqlite3.connect("data.sqlite")
database.execute("create table t (a)"); database.commit()
database.execute("insert into t values (1)")  # not committed
packing = gzip.open("packed.gz", "wt"); packing.write("x" * 100_000)
archive = zipfile.ZipFile("new.zip", "w"); archive.writestr("a.txt", "hello")
with zipfile.ZipFile("old.zip", "w") as file: file.writestr("a.txt", "hello")
growing_archive = zipfile.ZipFile("old.zip", "a")
rows = csv.writer(open("rows.csv", "w")); rows.writerow([1, 2])
handler = logging.FileHandler("app.log"); logging.getLogger("app").addHandler(handler)
logging.getLogger("app").warning("logged")
temporary = tempfile.NamedTemporaryFile("w", dir="."); temporary.write("kept")
shelf = shelve.open("shelf"); shelf["a"] = [1]; shelf.sync()
text_on_raw = io.TextIOWrapper(io.BufferedWriter(io.FileIO("file-raw", "w")))
text_on_raw.write("by hand")
class Journal:
    def __init__(self, path): self.file = open(path, "w")
    def __del__(self): self.file.write("closed by its finalizer")
journal = Journal("journal.txt"); journal.file.write("opened")
del file, name
"""


def contents(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if not path.name.startswith("data.sqlite-")  # SQLite's own journal
    }


def test_files_are_byte_identical(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    work, snapshot = tmp_path / "work", str(tmp_path / "s")
    work.mkdir()
    kernel = kernel_at(work)
    kernel.run(OPEN_EVERYTHING)
    save = f"_state.save({snapshot!r}, key=b'k' * 32, verify="
    kernel.run(f"from prime_ext import state as _state; _saved = {save}'off')")
    before = contents(work)
    assert len(before) > 25
    kernel.run(f"_saved = {save}'wait')")
    assert contents(work) == before, "reading it back"
    kernel.kill()
    assert contents(work) == before, "what the crash left is what was saved"

    for _ in range(2):  # the second time over what the first has opened
        fresh = kernel_at(work)
        fresh.run(
            f"""
            import gc
            from prime_ext import state as _state
            _loaded = _state.load({snapshot!r}, key=b"k" * 32, mode="cold")
            gc.collect()
            """
        )
        assert contents(work) == before, "restoring"
        fresh.run(
            """
            assert writing.tell() == 15_000 and rewriting.read(4) == "tten", "positions"
            assert text_on_raw.tell() == 7
            assert updating.tell() == 4 and bytes_reading.readline() == b"second line\\n"
            assert private_map[0] == -1.0 and changing_map[3] == 8.0 and read_map[3] == 8.0
            assert database.execute("select count(*) from t").fetchone() == (0,)
            """
        )
        fresh.kill()
    # And then they are what they were: files one goes on writing to.
    fresh = kernel_at(work)
    fresh.run(
        f"""
        from prime_ext import state as _state
        _loaded = _state.load({snapshot!r}, key=b"k" * 32, mode="cold")
        for _file in (writing, rewriting, appending, creating): _file.write("!"); _file.flush()
        assert open("file-w").read() == "written so far\\n" * 1000 + "!"
        assert open("file-w+").read(8) == "wri!ten "
        assert open("file-a").read().endswith("second line\\nappended!")
        assert open("file-x").read().endswith("far\\n!")
        """
    )


def test_no_file_is_made_for_one_that_is_gone(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    work, snapshot = tmp_path / "work", str(tmp_path / "s")
    work.mkdir()
    kernel = kernel_at(work)
    kernel.run(
        """
        import gzip, logging, sqlite3
        import numpy as np
        text, raw = open("a.txt", "w"), open("b.bin", "wb")
        packed = gzip.open("c.gz", "wb"); packed.close(); packed = gzip.open("c.gz")
        array = np.memmap("d.map", "f8", "w+", shape=(100,)); part = array[5:]
        database = sqlite3.connect("e.db"); database.execute("create table t (a)")
        box = {"file": text, "n": 1}
        handler = logging.FileHandler("f.log"); handler.emit(logging.makeLogRecord({}))
        """
    )
    kernel.run(
        f"""
        from prime_ext import state as _state
        _state.save({snapshot!r}, key=b"k" * 32, verify="off")
        """
    )
    kernel.kill()
    for path in work.iterdir():
        path.unlink()
    fresh = kernel_at(work)
    fresh.run(
        f"""
        from prime_ext import state as _state
        _loaded = _state.load({snapshot!r}, key=b"k" * 32, mode="cold")
        for name in "text raw packed array part database box handler".split():
            status = _loaded.names[name]
            assert status.status == "degraded", (name, status)
            assert "exist" in status.reason or "could not be opened" in status.reason, status
            assert status.recipe is not None and "np.memmap" in status.recipe.source, status
        assert box["n"] == 1 and "Unrestorable" in repr(box["file"]) and box["file"] is text
        assert not _loaded.complete
        """
    )
    assert list(work.iterdir()) == []
