"""``jupyter prime sessions``: list the sessions and what is saved for each."""

from __future__ import annotations

import argparse
import json
from typing import Any

from prime_ext.cli.place import Place, add_data_dir, open_place
from prime_ext.session.outputs import OUTPUTS_NAME, Outputs

COLUMNS = ("id", "notebook", "updated", "records", "snapshots", "size", "outputs")


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "sessions",
        help="list sessions and what is saved for them",
        description="List sessions, the newest first, with the snapshots of their variables.",
    )
    parser.add_argument("--notebook", help="only sessions about this notebook")
    parser.add_argument("--json", action="store_true", help="print JSON, one array")
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    with open_place(arguments.data_dir) as place:
        rows = _rows(place, arguments.notebook)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    if not rows:
        print("There are no sessions.")
        return 0
    lines = [COLUMNS, *(_line(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
    return 0


def _rows(place: Place, notebook: str | None) -> list[dict[str, Any]]:
    rows = []
    for summary in place.store.list(notebook.strip("/") if notebook else None):
        files = place.snapshots(summary.id)
        outputs = Outputs(place.store.folder / summary.id / OUTPUTS_NAME)
        rows.append(
            {
                "id": summary.id,
                "notebook": summary.notebook,
                "title": summary.title,
                "created": summary.created,
                "updated": summary.updated,
                "records": summary.records,
                "snapshots": [
                    {**snapshot, "names": sorted(snapshot["names"])} for snapshot in files.list()
                ],
                "snapshot_bytes": files.bytes(),
                "outputs_bytes": outputs.text_bytes(),
            }
        )
    return rows


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["id"],
        row["notebook"],
        row["updated"][:16].replace("T", " "),
        str(row["records"]),
        str(len(row["snapshots"])),
        _size(row["snapshot_bytes"]),
        _size(row["outputs_bytes"]),
    )


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size else "–"
