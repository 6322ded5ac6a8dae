"""The server's folder of sessions, and the secret that signs their snapshots."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.application import JupyterApp

from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.session.store import SessionStore

CONFIG_FILES = ("jupyter_server_config", "jupyter_lab_config", "jupyter_prime_config")
"""Configuration files that a server with the extension reads; later ones take precedence."""


@dataclass(frozen=True)
class Place:
    """A folder of sessions, opened by a command while a server may be using it too."""

    data_dir: Path
    store: SessionStore
    secret: bytes

    def snapshots(self, session_id: str) -> SnapshotFiles:
        """Return the snapshots of a session."""
        from prime_ext.kernel.snapshot_files import SnapshotFiles, derive_key

        folder = self.store.folder / session_id
        return SnapshotFiles(folder, derive_key(self.secret, session_id))

    def session_id(self, session: str | None, notebook: str | None) -> str:
        """Return the id of the given session, or of the newest one about the given notebook.

        Raises
        ------
        PrimeError
            ``session_not_found``.
        """
        summaries = self.store.list(notebook.strip("/") if notebook else None)
        if session is not None:
            summaries = [summary for summary in summaries if summary.id == session]
        if not summaries:
            what = f"session {session!r}" if session else f"session about {notebook!r}"
            raise PrimeError(
                f"There is no {what} in {self.store.folder}.",
                code="session_not_found",
                hint="`jupyter prime sessions` lists them; one is made by writing to the agent.",
            )
        return summaries[0].id


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--data-dir``, which all commands on sessions share."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder that the server keeps sessions in (default: as the server is configured)",
    )


@contextmanager
def open_place(data_dir: Path | None) -> Iterator[Place]:
    """Open ``data_dir`` or, without one, the folder named by the server's configuration.

    Raises
    ------
    PrimeError
        ``no_sessions``: the folder does not exist or holds no sessions.
    """
    from prime_ext.session.store import SessionStore

    app = _configured()
    folder = (data_dir or _data_dir(app)).expanduser()
    if not (folder / "sessions").is_dir():
        raise PrimeError(
            f"There are no sessions in {folder}.",
            code="no_sessions",
            hint="Give the server's PrimeExtension.data_dir as --data-dir.",
        )
    store = SessionStore(folder / "sessions", logging.getLogger("prime_ext"))
    try:
        yield Place(folder, store, _secret(app))
    finally:
        store.close()


def _configured() -> JupyterApp:
    """Return an application with the configuration that a server would have."""
    app = JupyterApp()
    app.initialize(argv=[])
    for name in CONFIG_FILES:
        app.config_file_name = name
        app.load_config_file()
    return app


def _data_dir(app: JupyterApp) -> Path:
    configured = app.config.PrimeExtension.get("data_dir")
    return Path(str(configured)) if configured else Path(app.data_dir) / "prime"


def _secret(app: JupyterApp) -> bytes:
    from jupyter_server.services.contents.manager import ContentsManager

    manager: Any = ContentsManager(parent=app)
    secret: bytes = manager.notary.secret
    return secret
