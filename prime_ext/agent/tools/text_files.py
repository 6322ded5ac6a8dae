"""Text files: detected, decoded, and replaced atomically."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import mimetypes
import os
import secrets
import stat
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from prime_ext.errors import PrimeError

MAX_TEXT_BYTES = 50_000_000
"""Maximum size of a file that is read as text; larger files should be read by code instead."""
SNIFFED_BYTES = 8192
MAX_DIFF_LINES = 400

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class TextFile:
    """A text file as it was read."""

    text: str
    """Text with ``\\n`` as its line ends."""
    encoding: str
    newline: str
    """Line end of most lines in the file: ``"\\n"`` or ``"\\r\\n"``."""
    modified_ns: int


def read_text(path: Path, shown: str) -> TextFile:
    """Read a text file.

    Raises
    ------
    PrimeError
        ``binary_file`` or ``file_too_large`` with the facts about it, or ``file_unreadable``.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Reading a pipe would block, and a device may never end.
            raise PrimeError(f"{shown!r} is not a regular file.", code="not_a_file")
        if status.st_size > MAX_TEXT_BYTES:
            raise PrimeError(
                f"{shown!r} is too large to be read as text: {facts(path)}.",
                code="file_too_large",
                hint="Read it in pieces with run_code.",
                status=413,
            )
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(shown, error) from error
    text, encoding = _decode(raw)
    if text is None:
        raise PrimeError(
            f"{shown!r} is a binary file: {facts(path)}.",
            code="binary_file",
            hint=_binary_hint(path),
            status=415,
        )
    crlf = text.count("\r\n")
    newline = "\r\n" if crlf * 2 > text.count("\n") else "\n"
    return TextFile(text.replace("\r\n", "\n"), encoding, newline, status.st_mtime_ns)


def write_text(path: Path, text: str, shown: str, *, like: TextFile | None = None) -> bytes:
    """Atomically replace a file, or create it and its folders; return the bytes written.

    Parameters
    ----------
    like:
        The existing file as it was read. Its encoding and line ends are kept. If the file has
        changed since, nothing is written.

    Raises
    ------
    PrimeError
        ``file_changed`` or ``file_not_written``.
    """
    encoding = like.encoding if like else "utf-8"
    newline = like.newline if like else "\n"
    try:
        data = text.replace("\n", newline).encode(encoding)
    except UnicodeEncodeError as error:
        raise PrimeError(
            f"The text cannot be written in the file's encoding, {encoding}: {error.reason}.",
            code="file_not_written",
            hint="Use characters that this encoding has.",
        ) from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if like is not None and path.stat().st_mtime_ns != like.modified_ns:
            raise PrimeError(
                f"{shown!r} was just changed by someone else; nothing was written.",
                code="file_changed",
                hint="Read it again.",
                status=409,
            )
        replace_file(path, data)
    except OSError as error:
        raise PrimeError(
            f"{shown!r} could not be written: {error.strerror or error}.",
            code="file_not_written",
            hint="Is the folder read-only, or the disk full?",
            status=403,
        ) from error
    return data


def replace_file(path: Path, data: bytes) -> None:
    """Atomically replace a file, or create it, and keep its mode.

    Raises
    ------
    OSError
        If the file could not be written. The old file is then still there.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    # The mode of `open`, modified by the umask; `tempfile` would create the file with mode 0600.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def unified_diff(before: str, after: str, shown: str) -> str:
    """Return the change as a unified diff, cut to `MAX_DIFF_LINES`."""
    lines = list(
        difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            f"a/{shown}" if before else "/dev/null",
            f"b/{shown}",
            lineterm="",
        )
    )
    if len(lines) > MAX_DIFF_LINES:
        left = len(lines) - MAX_DIFF_LINES
        lines = [*lines[:MAX_DIFF_LINES], f"… {left} more lines of difference"]
    return "\n".join(lines)


def facts(path: Path) -> str:
    """Return type, size and modification time of a file in words."""
    status = path.stat()
    kind = mimetypes.guess_type(path.name)[0] or "unknown type"
    modified = datetime.fromtimestamp(status.st_mtime, tz=timezone.utc)
    return f"{kind}, {size_text(status.st_size)}, modified {modified:%Y-%m-%d %H:%M} UTC"


def size_text(size: int) -> str:
    """Return a size in bytes in words: ``"512 bytes"``, ``"3.1 kB"``, ``"240 MB"``."""
    if size < 1000:
        return f"{size} bytes"
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def _decode(raw: bytes) -> tuple[str | None, str]:
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            try:
                return raw.decode(encoding), encoding
            except UnicodeDecodeError:
                return None, ""
    if b"\0" in raw[:SNIFFED_BYTES]:
        return None, ""
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        pass
    # Text in an old 8-bit encoding has hardly any control characters; compressed data has many.
    sample = raw[:SNIFFED_BYTES]
    control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
    if control * 100 > len(sample):
        return None, ""
    return raw.decode("latin-1"), "latin-1"


def _binary_hint(path: Path) -> str:
    readers = {
        ".parquet": "pandas.read_parquet", ".feather": "pandas.read_feather",
        ".xlsx": "pandas.read_excel", ".xls": "pandas.read_excel", ".h5": "pandas.read_hdf",
        ".hdf5": "h5py.File", ".pkl": "pandas.read_pickle", ".npy": "numpy.load",
        ".npz": "numpy.load", ".db": "sqlite3.connect", ".sqlite": "sqlite3.connect",
        ".gz": "gzip.open", ".zip": "zipfile.ZipFile",
    }  # fmt: skip
    reader = readers.get(path.suffix.lower())
    return f"Load it with {reader} in run_code." if reader else "Look into it with run_code."


def unreadable(shown: str, error: OSError) -> PrimeError:
    """Return the error ``file_unreadable`` for a file that the server cannot read."""
    return PrimeError(
        f"{shown!r} could not be read: {error.strerror or error}.",
        code="file_unreadable",
        hint="Does the server's user have the permission to read it?",
        status=403,
    )
