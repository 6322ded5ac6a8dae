"""The files that the agent may access: those below the server's root that are not secrets."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath
from typing import Any

from prime_ext.agent.tools import secret_files
from prime_ext.errors import PrimeError

PATH: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "Path relative to the Jupyter server's root folder.",
}
FOLDER: dict[str, Any] = {**PATH, "minLength": 0}
"""JSON Schemas of the paths that tools take, with their descriptions for the model."""

SESSION_FILES = ("session.jsonl", "outputs")


def is_hidden(path: PurePosixPath | Path) -> bool:
    """Return whether a part of a relative path is hidden, as defined by Jupyter."""
    return any(part.startswith(".") and part not in (".", "..") for part in path.parts)


def refuse_secret(path: PurePosixPath | Path | str, shown: str) -> None:
    """Refuse a path whose file name or folders indicate secrets.

    Raises
    ------
    PrimeError
        ``secret_file`` (403).
    """
    path = Path(path)
    folders = {part.lower() for part in path.parts}
    if secret_files.is_secret(path.name) or folders & secret_files.FOLDERS:
        raise _refusal(f"{shown!r} looks like a file that holds secrets.", by_name=True)


class Workspace:
    """Checks the paths that a session's agent may access, after resolving symlinks.

    Parameters
    ----------
    root:
        Root of the Jupyter server's files.
    session:
        Folder of the session, whose records and outputs can be read.
    """

    def __init__(self, root: Path, session: Path) -> None:
        self.root = root.resolve()
        self.session = session.resolve()
        # The folders above the session hold keys, consents and settings. One that contains the root
        # itself is not refused, because the person works in it.
        around = (self.session.parent.parent, self.session.parent, self.session)
        self.kept = next(
            (folder for folder in around if not self.root.is_relative_to(folder)), self.session
        )
        """The extension's data folder, which may be below the root."""

    def find(self, path: str) -> Path:
        """Return the path of an existing file or folder to read.

        The session's own log and outputs are allowed.

        Raises
        ------
        PrimeError
            ``file_not_found``, ``path_outside_root``, ``secret_file``, ``hidden_file``,
            ``own_file`` (any other file in the extension's data folder) or ``bad_path``.
        """
        found = self._resolve(path, own=True)
        if not found.exists():
            raise PrimeError(
                f"There is no file or folder {path!r} below the server's root.",
                code="file_not_found",
                hint=self._nearby(path),
                status=404,
            )
        return found

    def target(self, path: str) -> Path:
        """Return the path of a file to write, which need not exist yet.

        Raises
        ------
        PrimeError
            As ``find``, but the session's own files are refused too; ``not_a_file`` if the path is
            a folder.
        """
        target = self._resolve(path, own=False)
        if target.is_dir():
            raise PrimeError(f"{path!r} is a folder.", code="not_a_file")
        return target

    def relative(self, path: Path) -> str:
        """Return the path for display: relative to the root if it is below the root."""
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        return path.as_posix()

    def is_own(self, path: Path) -> bool:
        """Return whether this is the session's log, or a file in its folder ``outputs``."""
        return any(
            path == self.session / name or path.is_relative_to(self.session / name)
            for name in SESSION_FILES
        )

    def is_kept(self, path: Path) -> bool:
        """Return whether this is the extension's data folder, or a path in it."""
        # Names are not enough: on some systems `prime` and `PRIME` are the same folder.
        return any(
            folder == self.kept or _is_same(folder, self.kept) for folder in (path, *path.parents)
        )

    def _resolve(self, path: str, *, own: bool) -> Path:
        if "\0" in path:
            raise PrimeError("A path cannot contain a NUL character.", code="bad_path")
        try:
            # An absolute path replaces the root here, and must then be below it.
            resolved = (self.root / path).resolve()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                # Raises for names that cannot be paths, so that this is the only place to check.
                resolved.stat()
        except (OSError, RuntimeError, ValueError) as error:
            raise PrimeError(f"{path!r} is not a usable path: {error}", code="bad_path") from error
        if own and self.is_own(resolved):
            return resolved
        if not resolved.is_relative_to(self.root):
            raise PrimeError(
                f"{path!r} is outside of the server's root, where the agent has no access.",
                code="path_outside_root",
                hint="Give a path below the root, relative to it.",
                status=403,
            )
        if self.is_kept(resolved):
            raise PrimeError(
                f"{path!r} is in the folder in which this extension keeps its sessions and "
                "settings, where the agent has no access.",
                code="own_file",
                hint="What this session holds is found with session_search and session_read.",
                status=403,
            )
        relative = resolved.relative_to(self.root)
        # Both the name of a symlink and the name of its target are checked.
        here = Path(path).name if Path(path).is_absolute() else path
        for known_as in (here, relative):
            refuse_secret(known_as, path)
        if is_hidden(relative):
            raise PrimeError(
                f"{path!r} is hidden, and hidden files are not served.",
                code="hidden_file",
                hint="Ask the user if you need something from it.",
                status=403,
            )
        inside = secret_files.secret_in_file(resolved) if resolved.is_file() else None
        if inside is not None:
            raise _refusal(f"{path!r} holds {inside}.", by_name=inside == secret_files.LIKELY)
        return resolved

    def _nearby(self, path: str) -> str:
        """Return a hint where a file of this name is, if it is in a folder nearby."""
        name = Path(path).name
        folders = [(self.root / path).resolve().parent, self.root]
        with contextlib.suppress(OSError):
            folders += [child for child in self.root.iterdir() if child.is_dir()][:200]
        for folder in folders:
            near = folder / name
            # Some folders cannot be read by the server, such as `lost+found`.
            with contextlib.suppress(PermissionError):
                if not name or not near.is_file() or is_hidden(near.relative_to(self.root)):
                    continue
                found = near.resolve()
                if not found.is_relative_to(self.root) or self.is_kept(found):
                    continue
                if not secret_files.is_secret(name):
                    return f"There is {self.relative(near)!r}."
        return "Call list_files to see what there is."


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them does not exist
        return False


def _refusal(what: str, *, by_name: bool) -> PrimeError:
    hint = "Ask the user for what you need from it, never for the secret itself."
    if by_name:
        hint += " If it holds none, the user can give it another name, and you can read it then."
    return PrimeError(
        f"{what} The agent neither reads nor writes it.",
        code="secret_file",
        hint=hint,
        status=403,
    )
