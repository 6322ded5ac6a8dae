"""Script that searches files for a pattern, in a process of its own.

A regular expression can run practically forever, and it holds the GIL meanwhile, which would block
the server. A separate process can simply be killed. It starts quickly, because it imports only
``secret_files`` from this package. The job is read from stdin as JSON; matches and left-out files
are written to stdout as JSON lines.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

SKIPPED_FOLDERS = {
    "node_modules", "__pycache__", "site-packages", "venv", "env", "dist-packages",
}  # fmt: skip
MAX_FILE_BYTES = 2_000_000
MAX_NOTEBOOK_BYTES = 50_000_000
HITS_PER_FILE = 20
LINE_CHARS = 200


def _load(name: str) -> Any:
    """Import a package next to this script, without importing ``prime_ext``."""
    folder = Path(__file__).with_name(name)
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package  # its modules import each other
    spec.loader.exec_module(package)
    return package


if TYPE_CHECKING:
    from prime_ext.agent.tools import secret_files
else:
    secret_files = _load("secret_files")


def search(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``{path, where, line}`` for each match, at most ``job["max_hits"]`` of them.

    Also yield ``{left_out}`` for each file or folder that may hold secrets.
    """
    try:
        pattern = re.compile(job["pattern"])
    except (re.error, RecursionError, OverflowError):
        pattern = re.compile(re.escape(job["pattern"]))
    left = job["max_hits"]
    for path, secret in _files(job):
        # Checked whether or not there is a match: that a file is left out must not reveal anything
        # about its content.
        if secret or (not job["own"] and secret_files.secret_in_file(path) is not None):
            yield {"left_out": str(path)}
            continue
        in_file = 0
        for where, line in _lines(path, limited=not job["own"]):
            found = pattern.search(line)
            if found is None:
                continue
            yield {"path": str(path), "where": where, "line": _around(line, found.start())}
            in_file += 1
            left -= 1
            if left == 0:
                return
            if in_file == HITS_PER_FILE:
                break


def _files(job: dict[str, Any]) -> Iterator[tuple[Path, bool]]:
    """Yield the files to search, and whether their names mark them as secret.

    A folder of secrets is yielded itself, in place of its files.
    """
    base = Path(job["base"])
    if base.is_file():
        yield base, False
        return
    for folder, names, files in os.walk(base):
        names[:] = sorted(n for n in names if n not in SKIPPED_FOLDERS and not n.startswith("."))
        names[:] = [name for name in names if not _is_same(Path(folder, name), job["kept"])]
        for name in [name for name in names if name.lower() in secret_files.FOLDERS]:
            names.remove(name)
            yield Path(folder, name), True
        for name in sorted(files):
            path = Path(folder, name)
            if not name.startswith(".") and _is_regular(path):
                yield path, secret_files.is_secret(name)


def _is_same(folder: Path, other: str) -> bool:
    """Return whether both are the same folder. The file system may ignore case."""
    if folder.name.lower() != Path(other).name.lower():
        return False
    try:
        return folder.samefile(other)
    except OSError:
        return False


def _is_regular(path: Path) -> bool:
    """Return whether this is a regular file.

    Symlinks may lead anywhere, and reading a pipe or device may never end.
    """
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # deleted, or in a folder that can be listed but not entered
        return False


def _lines(path: Path, *, limited: bool) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each line in a file."""
    try:
        size = path.stat().st_size
        if path.suffix.lower() == ".ipynb":
            if size <= MAX_NOTEBOOK_BYTES:
                yield from _notebook_lines(path)
            return
        if limited and size > MAX_FILE_BYTES:
            return
        with path.open("rb") as file:
            if b"\0" in file.read(8192):
                return
        with path.open(encoding="utf-8", errors="replace") as text:
            for number, line in enumerate(text, 1):
                yield f"line {number}", line.rstrip("\n")
    except OSError:
        return


def _notebook_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a notebook's sources and text outputs."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        for index, cell in enumerate(cells, 1):
            where = f"cell {cell['id']}" if "id" in cell else f"cell {index}"
            for line in "".join(cell["source"]).splitlines():
                yield where, line
            for output in cell.get("outputs", []):
                text = output.get("text") or output.get("data", {}).get("text/plain") or ""
                for line in "".join(text).splitlines():
                    yield f"{where}, output", line
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def _around(line: str, start: int) -> str:
    if len(line) <= LINE_CHARS:
        return line
    begin = max(0, min(start - LINE_CHARS // 4, len(line) - LINE_CHARS))
    end = begin + LINE_CHARS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def main() -> None:
    job = json.load(sys.stdin)
    for hit in search(job):
        # Flushed after each match, so that matches count even if the process is killed later.
        sys.stdout.write(json.dumps(hit) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"done": True}) + "\n")


if __name__ == "__main__":
    main()
