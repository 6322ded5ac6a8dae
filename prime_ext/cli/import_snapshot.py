"""``jupyter prime import``: import a snapshot from another machine into a session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from prime_ext.cli.place import Place, add_data_dir, open_place
from prime_ext.errors import PrimeError

DANGER = """\
Restoring a snapshot runs code that it holds, with all your rights: your files, your keys, your
network. {signer} Import it only if you made it, or trust whoever did as you would trust their
program. Then run the command again with --trust."""

UNKNOWN = "This one was not signed by this server, so nobody but you can say where it comes from."
OURS = "This one was signed by this server, for another session: {session}."


def add(commands: Any) -> None:
    """Add the command's parser."""
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
    """Copy the snapshot and sign it with the session's key; without ``--trust``, refuse to."""
    from prime_ext.state import SnapshotError
    from prime_ext.state.format import read_head

    with open_place(arguments.data_dir) as place:
        session_id = place.session_id(arguments.session, arguments.notebook)
        try:
            source = _source(place, session_id, arguments.snapshot)
            found = read_head(source, None).manifest
            names = ", ".join(list(found.names)[:8]) + (", …" if len(found.names) > 8 else "")
            print(
                f"{source}: {len(found.names)} names ({names}), "
                f"{found.total_bytes / 1e6:,.1f} MB, saved {found.created} by Python "
                f"{found.python}."
            )
            if not arguments.trust:
                danger = DANGER.format(signer=_signer(place, source))
                raise PrimeError(f"It was not imported. {danger}", code="snapshot_not_trusted")
            _import(place, session_id, source)
        except (SnapshotError, OSError, LookupError) as error:
            raise PrimeError(
                f"It was not imported: {error}", code="snapshot_not_imported"
            ) from None
    print(f"Imported for session {session_id}. It is offered when the session is next opened.")
    return 0


def _source(place: Place, session_id: str, given: Path) -> Path:
    """Return the directory to import. For the session's own folder, its newest foreign snapshot."""
    source, files = given.resolve(), place.snapshots(session_id)
    if source != files.folder.resolve():
        return source
    place.store.get(session_id)  # held until the command ends: no server writes it
    files.set_foreign_aside()
    foreign = files.foreign()
    if not foreign:
        raise PrimeError(
            f"{given} holds no snapshot of another server.",
            code="snapshot_not_imported",
            hint="Those of this server need no import: restore them in the panel.",
        )
    return foreign[0].directory


def _signer(place: Place, source: Path) -> str:
    from prime_ext.state import inspect

    ours = place.snapshots(source.name)
    if inspect(source, key=ours.key).signature == "valid":
        return OURS.format(session=source.name)
    return UNKNOWN


def _import(place: Place, session_id: str, source: Path) -> None:
    from prime_ext.kernel.newest import newest_recorded
    from prime_ext.session.records import Snapshot
    from prime_ext.state.importing import import_foreign

    session = place.store.get(session_id)  # held until the command ends: no server writes it
    files = place.snapshots(session_id)
    newest = newest_recorded(session.log)
    manifest = import_foreign(
        source, files.folder, key=files.key, after_generation=newest.generation
    )
    files.forget_imported(source)
    session.append(
        Snapshot(
            outcome="ok",
            trigger="import",
            snapshot_id=manifest.id,
            generation=manifest.generation,
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
