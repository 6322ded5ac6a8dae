"""``jupyter prime free``: delete the full texts of long results, but keep the conversations."""

from __future__ import annotations

import argparse
from typing import Any

from prime_ext.cli.place import add_data_dir, open_place
from prime_ext.session.outputs import OUTPUTS_NAME, Outputs


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "free",
        help="free the space that whole texts of results take",
        description="Remove the whole texts of results that were too long for the model. The "
        "conversation keeps their beginnings and ends, and what an undo needs stays.",
    )
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help="ids of the sessions")
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Delete the texts. Raises `PrimeError` for a session that is open in a server."""
    with open_place(arguments.data_dir) as place:
        for session_id in arguments.sessions:
            with place.store.exclusive(session_id) as log:
                outputs = Outputs(log.path.with_name(OUTPUTS_NAME))
                freed = outputs.remove_texts(0, "by the user, to free space")
            print(f"{session_id}: {freed / 1e6:,.1f} MB freed")
    return 0
