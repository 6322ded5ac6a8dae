"""``jupyter prime import``: a snapshot of another machine, for a session of this one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from prime_ext.cli.place import Place, add_data_dir, open_place
from prime_ext.errors import PrimeError

DANGER = """\
Restoring a snapshot runs code that it holds, with all your rights: your files, your keys, your
network. This one was not signed by this server, so nobody but you can say where it comes from.
Import it only if you made it, or trust whoever did as you would trust their program. Then run
the command again with --trust."""


def add(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "import",
        help="take in a snapshot from another machine",
        description="Copy a snapshot that another machine has signed, sign it with this server's "
        "key, and have it offered when the session is next opened. The session must not be open "
        "in a running server.",
    )
    parser.add_argument(
        "snapshot", type=Path, help="folder with kernel-state.dill and kernel-state.d"
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--session", metavar="ID", help="session that gets it")
    which.add_argument("--notebook", metavar="PATH", help="its newest session gets it")
    parser.add_argument("--trust", action="store_true", help="I know where it comes from; sign it")
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Refuse, or copy and sign."""
    from prime_ext.state import SnapshotError
    from prime_ext.state.format import read_head

    with open_place(arguments.data_dir) as place:
        session_id = place.session_id(arguments.session, arguments.notebook)
        try:
            found = read_head(arguments.snapshot, None).manifest
            names = ", ".join(list(found.names)[:8]) + (", …" if len(found.names) > 8 else "")
            print(
                f"{arguments.snapshot}: {len(found.names)} names ({names}), "
                f"{found.total_bytes / 1e6:,.1f} MB, saved {found.created} by Python "
                f"{found.python}."
            )
            if not arguments.trust:
                raise PrimeError(f"It was not imported. {DANGER}", code="snapshot_not_trusted")
            _import(place, session_id, arguments.snapshot)
        except (SnapshotError, OSError, LookupError) as error:
            raise PrimeError(
                f"It was not imported: {error}", code="snapshot_not_imported"
            ) from None
    print(f"Imported for session {session_id}. It is offered when the session is next opened.")
    return 0


def _import(place: Place, session_id: str, source: Path) -> None:
    from prime_ext.session.records import Snapshot
    from prime_ext.state.importing import import_foreign

    session = place.store.get(session_id)  # held until the command ends: no server writes it
    files = place.snapshots(session_id)
    manifest = import_foreign(source, files.folder, key=files.key)
    session.append(
        Snapshot(
            outcome="ok",
            trigger="import",
            snapshot_id=manifest.id,
            names={
                name: {
                    field: value
                    for field, value in entry.items()
                    if field in ("status", "reason", "type", "size") and value not in ("", 0, None)
                }
                for name, entry in manifest.names.items()
            },
            bytes=manifest.total_bytes,
        ),
        sync=True,
    )
